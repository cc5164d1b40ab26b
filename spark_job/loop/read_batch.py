"""A batch that was read and waits for its commit, and what sources of every kind do around it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from blizzard.log import Log
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.state.unknown_fields import NO_FIELDS, UnknownFields
from spark_job.ports.reader import FileRows, Outcome
from spark_job.ports.source import BatchCounts, Receipt

C = TypeVar("C", Checkpoint, TopicCheckpoint)


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """The rows of files, or of ranges of offsets; and the paths whose rows they replace in the table. `files` of the
    counts are files, or partitions."""

    rows: FileRows
    replaced: Sequence[str] = ()

    @property
    def outcomes(self) -> Sequence[Outcome]:
        return self.rows.outcomes

    @property
    def counts(self) -> BatchCounts:
        return BatchCounts(
            files=len(self.outcomes),
            rows=sum(outcome.rows for outcome in self.outcomes if outcome.error is None),
            dead_files=sum(outcome.error is not None for outcome in self.outcomes),
            dead_records=sum(outcome.dead_records for outcome in self.outcomes),
        )


def odd_fields_of(batch: ReadBatch | None) -> tuple[UnknownFields, UnknownFields]:
    """Unknown fields and misfits, as much of them as is stored and logged. None: of a commit without rows."""
    if batch is None:
        return NO_FIELDS, NO_FIELDS
    return batch.rows.unknown_fields.shortened(), batch.rows.misfits.shortened()


def log_odd_fields(log: Log, source_id: str, unknown_fields: UnknownFields, misfits: UnknownFields) -> None:
    """Once a batch."""
    if unknown_fields.fields:
        log("unknown_fields", source=source_id, **_shown(unknown_fields))
    if misfits.fields:
        log("misfits", source=source_id, **_shown(misfits))


def _shown(fields: UnknownFields) -> dict[str, Any]:
    document = fields.as_document()
    return {"fields": document["fields"], "more": document["more"]}


def stamped(checkpoint: C, *, delta_version: int, receipt: Receipt) -> C:
    """As `SourceKind.stamp` has it."""
    return replace(
        checkpoint,
        sequence=checkpoint.sequence + 1,
        delta_version=delta_version,
        receipt=receipt.name,
        schema_change=receipt.schema_change or checkpoint.schema_change,
        last_update_ts=receipt.written_ts,
    )
