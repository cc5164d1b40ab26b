"""The report of a task, which travels to the driver as JSON."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from blizzard.state.dead_letters import Stage
from spark_job.ports.reader import FailureKind, Outcome
from spark_job.tasks.unknown_fields import UnknownFieldCounts
from spark_job.write.data_file import DataFile
from spark_job.write.write_errors import RefusedWrite


@dataclass(slots=True)
class Report:
    """An outcome for each file of the task, and the data files with their rows."""

    outcomes: list[Outcome] = field(default_factory=list)
    data_files: list[DataFile] = field(default_factory=list)
    deferred: list[DataFile] = field(default_factory=list)
    """They hold the deferred records, as `deferred_records_type` describes them."""
    deferred_bytes: int = 0
    """Size of the deferred records in memory, about."""
    undecided: int = 0
    """Deferred records that Spark has to decide; the others are refused already."""
    secs: float = 0.0
    """Duration of the task, from its first file to the end of its last data file."""
    write_secs: float = 0.0
    """The part of `secs` that went into writing data files."""
    unknown: UnknownFieldCounts = field(default_factory=UnknownFieldCounts)
    """The fields of the files that no column is for."""
    misfits: UnknownFieldCounts = field(default_factory=UnknownFieldCounts)
    """The columns with values that do not fit them, and were kept beside them."""
    refused_write: RefusedWrite | None = None
    """A refusal by the table's storage. The task ended there, and nothing else in the report counts."""

    def to_json(self) -> str:
        return orjson.dumps(self, default=lambda counts: counts.as_document()).decode()

    @classmethod
    def from_json(cls, text: str) -> "Report":
        document = orjson.loads(text)
        return cls(
            [_outcome_of(outcome) for outcome in document["outcomes"]],
            [DataFile(**data_file) for data_file in document["data_files"]],
            [DataFile(**data_file) for data_file in document["deferred"]],
            document["deferred_bytes"],
            document["undecided"],
            document["secs"],
            document["write_secs"],
            UnknownFieldCounts.from_document(document["unknown"]),
            UnknownFieldCounts.from_document(document["misfits"]),
            RefusedWrite.from_document(document["refused_write"]),
        )


def _outcome_of(document: dict[str, Any]) -> Outcome:
    stage, failure_kind = document.pop("stage"), document.pop("failure_kind")
    return Outcome(
        **document,
        stage=None if stage is None else Stage(stage),
        failure_kind=None if failure_kind is None else FailureKind(failure_kind),
    )
