"""The way from lines to data files: blocks of them are parsed and written; what the parser leaves is kept apart."""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType, TimestampType

from blizzard.errors import BlizzardError
from spark_job.data_files import DataFile, DataFileWriter
from spark_job.decode import Block
from spark_job.origin import Origin, Run
from spark_job.parse import Parsed

BLOCK_BYTES = 4 << 20
"""Of lines that are parsed at once; of many small files together."""

LEFT_ROWS = 20_000
LEFT_BYTES = 8 << 20


class Parser(Protocol):
    """Lines, without blank ones, into the columns of a record."""

    def parse(self, block: bytes, *, braced: int | None = None) -> Parsed:
        """`braced`: the number of lines, if each is known to begin with { and end with }."""
        ...


class CannotWriteError(Exception):
    """The table's storage refused a data file; no file that is read is at fault."""


class TextParser:
    """Each line is a record of one column; one that is no UTF-8 is refused."""

    def parse(self, block: bytes, *, braced: int | None = None) -> Parsed:
        try:
            return Parsed(_values(block.decode().split("\n")), None, ())
        except UnicodeDecodeError:
            return self._line_by_line(block.split(b"\n"))

    def _line_by_line(self, lines: Sequence[bytes]) -> Parsed:
        texts, numbers, refused = [], [], []
        for number, line in enumerate(lines):
            try:
                texts.append(line.decode())
                numbers.append(number)
            except UnicodeDecodeError as error:
                refused.append((number, f"not UTF-8 at byte {error.start}: {error.reason}"))
        return Parsed(_values(texts), numbers, refused)


def _values(texts: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["value"])


@dataclass(slots=True)
class Left:
    """Lines that the fast parser did not take, as Arrow batches of `left_type`."""

    partition_columns: int
    count: int = 0
    """Of all that were ever added."""
    _rows: list[tuple[object, ...]] = field(default_factory=list)
    _bytes: int = 0

    def add(self, run: Run, row: int, line: bytes, fault: str | None) -> None:
        try:
            text, undecodable = line.decode(), None
        except UnicodeDecodeError:
            text, undecodable = None, line
        modified = datetime.fromtimestamp(run.modified_ts, UTC)
        self._rows.append((run.path, row, run.etag, modified, text, fault, undecodable, None, *run.partitions))
        self._bytes += len(line)
        self.count += 1

    @property
    def full(self) -> bool:
        return len(self._rows) >= LEFT_ROWS or self._bytes >= LEFT_BYTES

    def take(self, report: str | None = None) -> pa.RecordBatch:
        """What has come together, and a row of its own for the report."""
        schema = pa.schema(to_arrow_type(left_type(self.partition_columns)))
        rows, self._rows, self._bytes = self._rows, [], 0
        if report is not None:
            rows.append(tuple(report if name == "report" else None for name in schema.names))
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def left_type(partition_columns: int) -> StructType:
    """What tasks yield: the lines that are left, and for each task a report."""
    types: dict[str, DataType] = {"row": LongType(), "modified": TimestampType(), "undecodable": BinaryType()}
    fixed = ("file", "row", "etag", "modified", "line", "fault", "undecodable", "report")
    names = [*fixed, *(f"partition_{index}" for index in range(partition_columns))]
    return StructType([StructField(name, types.get(name, StringType())) for name in names])


@dataclass(frozen=True, slots=True)
class _Made:
    """One block, parsed."""

    table: pa.Table
    left: Sequence[tuple[Run, int, bytes, str | None]]


class Lane:
    """Blocks of lines into one writer's files. With a pool, blocks are parsed beside each other and written in order.

    At the end of its `with` block, whatever was not finished is discarded.
    """

    def __init__(
        self, parser: Parser, origin: Origin, writer: DataFileWriter, left: Left, pool: ThreadPoolExecutor | None
    ) -> None:
        self._parser = parser
        self._origin = origin
        self._writer = writer
        self._left = left
        self._pool = pool
        self._runs: list[Run] = []
        self._pieces: list[Block] = []
        self._bytes = 0
        self._parsing: deque[Future[_Made]] = deque()
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for future in self._parsing:
            future.cancel()
        if not self._finished:
            with suppress(BlizzardError):  # a file that stays is named by no commit, and VACUUM removes it
                self._writer.discard()

    def add(self, run: Run, lines: Block) -> None:
        """Raises CannotWriteError."""
        self._runs.append(run)
        self._pieces.append(lines)
        self._bytes += len(lines.data)
        if self._bytes >= BLOCK_BYTES:
            self._parse()

    def finish(self) -> list[DataFile]:
        """Raises CannotWriteError."""
        if self._runs:
            self._parse()
        while self._parsing:
            self._write(self._parsing.popleft().result())
        try:
            data_files = self._writer.close()
        except BlizzardError as error:
            raise CannotWriteError(str(error)) from error
        self._finished = True
        return data_files

    def _parse(self) -> None:
        runs, pieces = self._runs, self._pieces
        self._runs, self._pieces, self._bytes = [], [], 0
        if self._pool is None:
            self._write(self._made(runs, pieces))
            return
        self._parsing.append(self._pool.submit(self._made, runs, pieces))
        while len(self._parsing) > self._pool._max_workers:
            self._write(self._parsing.popleft().result())

    def _made(self, runs: Sequence[Run], pieces: Sequence[Block]) -> _Made:
        block = pieces[0].data if len(pieces) == 1 else b"\n".join(piece.data for piece in pieces)
        braced = sum(piece.count for piece in pieces) if all(piece.braced for piece in pieces) else None
        parsed = self._parser.parse(block, braced=braced)
        columns = [*parsed.records.columns, *self._origin.columns(runs, parsed.lines)]
        names = [*parsed.records.schema.names, *(field.name for field in self._origin.fields)]
        return _Made(pa.Table.from_arrays(columns, names=names), _left(runs, block, parsed.refused))

    def _write(self, made: _Made) -> None:
        for run, row, line, fault in made.left:
            self._left.add(run, row, line, fault)
        if not made.table.num_rows:
            return
        try:
            self._writer.write(made.table)
        except BlizzardError as error:
            raise CannotWriteError(str(error)) from error


def _left(
    runs: Sequence[Run], block: bytes, refused: Sequence[tuple[int, str | None]]
) -> list[tuple[Run, int, bytes, str | None]]:
    if not refused:
        return []
    lines = block.split(b"\n")
    starts = list(accumulate((run.count for run in runs[:-1]), initial=0))
    found = []
    for number, fault in refused:
        which = bisect_right(starts, number) - 1
        found.append((runs[which], runs[which].first_row + number - starts[which], lines[number], fault))
    return found
