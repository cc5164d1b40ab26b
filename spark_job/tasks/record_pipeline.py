"""Turns blocks of records into data files: parses several blocks together, writes in order, and defers refused
records."""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from spark_job.formats.protocol import Block, Format, Misfits, Parsed, UnknownField
from spark_job.ports.stopwatch import Stopwatch
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.error_context import add_file_names
from spark_job.tasks.provenance import Provenance, RecordRange
from spark_job.tasks.some_records import parsed_wanted, wanted_positions
from spark_job.tasks.unknown_fields import FieldCount, UnknownFieldCounts
from spark_job.write.data_file import DataFile
from spark_job.write.parquet_files import DataFileWriter
from spark_job.write.write_errors import CannotWriteError, writing

if TYPE_CHECKING:
    from spark_job.expressions.row_checker import CheckedRows, RowChecker

BATCH_BYTES = 4 << 20
"""Blocks are parsed together until they have this size, so that many small files cost one call of the parser."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Blocks that were parsed together."""

    table: pa.Table
    ranges: Sequence[RecordRange]
    refused: Sequence[tuple[RecordRange, int, bytes, str | None]]
    """For each refused record its file, its number there, its text, and the reason, if one is known."""
    unknown: Mapping[str, FieldCount]
    """The fields that no column is for."""
    misfits: Mapping[str, FieldCount]
    """The columns with values that do not fit them."""


class RecordPipeline:
    """Writes blocks of one format into one writer's files. With a pool, up to `max_parallel` batches are parsed in
    parallel, and written in order. `watch` times the writing.

    What is not finished when the `with` block ends is discarded.
    """

    def __init__(
        self,
        file_format: Format[Any],
        provenance: Provenance,
        writer: DataFileWriter,
        deferred: DeferredRecords,
        watch: Stopwatch,
        pool: ThreadPoolExecutor | None,
        max_parallel: int,
        checker: "RowChecker | None" = None,
    ) -> None:
        self._checker = checker
        self._format = file_format
        self._provenance = provenance
        self._writer = writer
        self._deferred = deferred
        self._watch = watch
        self._pool = pool
        self._max_parallel = max_parallel
        self._ranges: list[RecordRange] = []
        self._blocks: list[Block] = []
        self._bytes = 0
        self._parsing: deque[Future[_Batch]] = deque()
        self._finished = False
        self.unknown = UnknownFieldCounts()
        """Of the records written so far."""
        self.misfits = UnknownFieldCounts()
        """Of the records written so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for future in self._parsing:
            future.cancel()
        if not self._finished:
            self._writer.try_to_discard()

    def add(self, source: RecordRange, block: Block) -> None:
        """Raises CannotWriteError."""
        self._ranges.append(source)
        self._blocks.append(block)
        self._bytes += block.size_bytes
        if self._bytes >= BATCH_BYTES:
            self._parse_batch()

    def finish(self) -> list[DataFile]:
        """Raises CannotWriteError."""
        if self._ranges:
            self._parse_batch()
        while self._parsing:
            self._write(self._parsing.popleft().result())
        with writing(), self._watch.part("write"):
            data_files = self._writer.close()
        self._finished = True
        return data_files

    def _parse_batch(self) -> None:
        ranges, blocks = self._ranges, self._blocks
        self._ranges, self._blocks, self._bytes = [], [], 0
        if self._pool is None:
            self._write(self._parsed(ranges, blocks))
            return
        self._parsing.append(self._pool.submit(self._parsed, ranges, blocks))
        while len(self._parsing) > self._max_parallel:
            self._write(self._parsing.popleft().result())

    def _parsed(self, ranges: Sequence[RecordRange], blocks: Sequence[Block]) -> _Batch:
        with add_file_names("parsing records of", lambda: (source.path for source in ranges)):
            wanted = wanted_positions(ranges)
            parsed = self._format.parse(blocks) if wanted is None else parsed_wanted(self._format, blocks, wanted)
            columns = [*parsed.records.columns, *self._provenance.columns(ranges, parsed.positions)]
            names = [*parsed.records.schema.names, *(field.name for field in self._provenance.fields)]
            table = pa.Table.from_arrays(columns, names=names)
            refused = _refused(ranges, parsed.refused, parsed.refused_texts)
            if self._checker is not None:
                checked = self._checker.apply(table)
                table = checked.rows
                refused += _refused(ranges, *_unfit(checked, parsed, blocks))
            unknown, misfits = _counts(ranges, parsed.unknown), _counts(ranges, parsed.misfits)
            return _Batch(table, ranges, refused, unknown, misfits)

    def _write(self, batch: _Batch) -> None:
        for source, row, text, fault in batch.refused:
            self._deferred.add(source, row, text, fault)
        for name, count in batch.unknown.items():
            self.unknown.add(name, count)
        for name, count in batch.misfits.items():
            self.misfits.add(name, count)
        if not batch.table.num_rows:
            return
        with (
            add_file_names(
                "writing rows up to those of",
                lambda: (source.path for source in batch.ranges),
                expected_errors=(CannotWriteError,),
            ),
            writing(),
            self._watch.part("write"),
        ):
            self._writer.write(batch.table)


def _counts(ranges: Sequence[RecordRange], found: Mapping[str, UnknownField | Misfits]) -> dict[str, FieldCount]:
    if not found:
        return {}
    starts = list(accumulate((source.count for source in ranges[:-1]), initial=0))
    counts = {}
    for name, field in found.items():
        at = bisect_right(starts, field.first) - 1
        number = ranges[at].number_of(field.first - starts[at])
        counts[name] = FieldCount(field.records, ranges[at].path, number, field.kind)
    return counts


def _unfit(
    checked: "CheckedRows", parsed: Parsed, blocks: Sequence[Block]
) -> tuple[list[tuple[int, str | None]], list[bytes]]:
    """The records that a rule refuses, by their numbers, and their texts: as they are in the file, where a record is a
    text of its own there, else as JSON."""
    from spark_job.formats.columns import record_texts  # what several formats share, for the few records that get here
    from spark_job.formats.original_texts import original_text

    refused: list[tuple[int, str | None]] = []
    texts: list[bytes] = []
    as_json = record_texts(parsed.records, [row for row, _ in checked.refused])
    for (row, fault), (_, text) in zip(checked.refused, as_json, strict=True):
        number = row if parsed.positions is None else parsed.positions[row]
        refused.append((number, fault))
        texts.append(original_text(blocks, number) or text)
    return refused, texts


def _refused(
    ranges: Sequence[RecordRange], refused: Sequence[tuple[int, str | None]], texts: Sequence[bytes]
) -> list[tuple[RecordRange, int, bytes, str | None]]:
    starts = list(accumulate((source.count for source in ranges[:-1]), initial=0))
    found = []
    for (number, fault), text in zip(refused, texts, strict=True):
        at = bisect_right(starts, number) - 1
        found.append((ranges[at], ranges[at].number_of(number - starts[at]), text, fault))
    return found
