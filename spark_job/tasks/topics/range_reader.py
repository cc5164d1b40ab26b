"""What one task of a batch of messages does: it reads ranges and writes their records to data files of the table."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from blizzard.errors import PermanentError, RetryableError
from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.messages.message_columns import MessageColumns, joined
from spark_job.ports.offset_range import OffsetRange
from spark_job.ports.reader import FailureKind, Outcome
from spark_job.ports.stopwatch import Stopwatch
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.error_context import add_file_names
from spark_job.tasks.provenance import Provenance, RecordRange
from spark_job.tasks.record_pipeline import RecordPipeline
from spark_job.tasks.report import Report
from spark_job.write.parquet_files import DataFileWriter
from spark_job.write.write_errors import CannotWriteError

if TYPE_CHECKING:
    from spark_job.expressions.row_checker import RowChecker

BLOCK_BYTES = 4 << 20

Messages = Iterable[tuple[OffsetRange, MessageColumns]]
"""Of each range in the order of their offsets, and to its end."""


@dataclass(slots=True)
class _Progress:
    messages: int = 0
    size_bytes: int = 0
    first_ms: int | None = None
    waiting: list[MessageColumns] = field(default_factory=list)
    waiting_bytes: int = 0


class RangeReader:
    """Reads ranges of different partitions into data files; messages that do not become rows go to `deferred`.
    `message_format` parses blocks of messages. `monotonic` is a clock in seconds."""

    def __init__(
        self,
        message_format: Any,
        provenance: Provenance,
        new_writer: Callable[[], DataFileWriter],
        deferred: DeferredRecords,
        checker: "RowChecker | None",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._format = message_format
        self._provenance = provenance
        self._new_writer = new_writer
        self._deferred = deferred
        self._checker = checker
        self._watch = Stopwatch(monotonic)

    def read(self, ranges: Sequence[OffsetRange], messages: Messages) -> Report:
        """If the brokers fail, all ranges have failed: nothing else in the report counts then. Raises
        CannotWriteError."""
        report, progress = Report(), {one: _Progress() for one in ranges}
        pipeline = RecordPipeline(
            self._format,
            self._provenance,
            self._new_writer(),
            self._deferred,
            self._watch,
            None,
            1,
            self._checker,
        )
        names = [one.path for one in ranges]
        expected = (CannotWriteError, RetryableError, PermanentError)
        with add_file_names("reading", lambda: names, expected_errors=expected), self._deferred, pipeline:
            try:
                for one, block in self._blocks(messages, progress):
                    pipeline.add(_range_of(one, block), block)
                report.data_files += pipeline.finish()
            except (RetryableError, PermanentError) as error:
                report.outcomes = [_failed(one, error) for one in ranges]
                return report
            report.unknown.merge(pipeline.unknown)
            report.misfits.merge(pipeline.misfits)
            report.deferred = self._deferred.finish()
            report.deferred_bytes, report.undecided = self._deferred.total_bytes, self._deferred.undecided
        report.outcomes = [_outcome(one, progress[one]) for one in ranges]
        took = self._watch.secs()
        report.secs, report.write_secs = took.total, took.write
        return report

    def _blocks(
        self, messages: Messages, progress: dict[OffsetRange, _Progress]
    ) -> Iterator[tuple[OffsetRange, MessageBlock]]:
        for one, some in messages:
            state, size = progress[one], some.size_bytes
            if not state.messages and len(some):
                state.first_ms = some.times_ms[0].as_py()
            state.messages += len(some)
            state.size_bytes += size
            state.waiting.append(some)
            state.waiting_bytes += size
            if state.waiting_bytes >= BLOCK_BYTES:
                yield one, _block(one, state)
        for one, state in progress.items():
            if state.waiting:
                yield one, _block(one, state)


def _block(one: OffsetRange, state: _Progress) -> MessageBlock:
    block = MessageBlock(one.topic, one.partition, joined(state.waiting), state.waiting_bytes)
    state.waiting, state.waiting_bytes = [], 0
    return block


def _range_of(one: OffsetRange, block: MessageBlock) -> RecordRange:
    return RecordRange(one.path, one.topic_id, 0.0, (), block.first_record, block.count, each=block)


def _outcome(one: OffsetRange, state: _Progress) -> Outcome:
    first_ts = None if state.first_ms is None else state.first_ms / 1000
    return Outcome(
        one.path,
        one.topic_id,
        state.size_bytes,
        rows=state.messages,
        records_read=one.end,
        first_ts=first_ts,
    )


def _failed(one: OffsetRange, error: Exception) -> Outcome:
    kind = FailureKind.TRANSIENT if isinstance(error, RetryableError) else FailureKind.SYSTEMIC
    return Outcome(one.path, one.topic_id, 0, error=str(error), failure_kind=kind)
