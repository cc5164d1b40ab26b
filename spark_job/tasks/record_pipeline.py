"""The way from lines to data files: blocks of them are parsed and written; what the parser leaves is kept apart."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType, TimestampType

from blizzard.errors import BlizzardError
from spark_job.formats.decode import Block
from spark_job.formats.ndjson.parser import Parsed
from spark_job.ports.stopwatch import Stopwatch
from spark_job.tasks.error_context import naming
from spark_job.tasks.provenance import Provenance, Run
from spark_job.write.parquet_files import DataFile, DataFileWriter
from spark_job.write.write_errors import CannotWriteError, writing

BLOCK_BYTES = 4 << 20
"""Of lines that are parsed at once; of many small files together."""

LEFT_ROWS = 20_000
LEFT_BYTES = 8 << 20
_ROW_BYTES = 250
"""Of one line that is left, beside its text and its file's name."""


class Parser(Protocol):
    """Lines, without blank ones, into the columns of a record."""

    def parse(self, block: bytes, *, braced: int | None = None) -> Parsed:
        """`braced`: the number of lines, if each is known to begin with { and end with }."""
        ...


class TextParser:
    """Each line is a record of one column; one that is no UTF-8 is refused."""

    def parse(self, block: bytes, *, braced: int | None = None) -> Parsed:
        try:
            return Parsed(_values(block.decode().split("\n")), None, ())
        except UnicodeDecodeError:
            return self._line_by_line(block.split(b"\n"))

    def _line_by_line(self, lines: Sequence[bytes]) -> Parsed:
        texts, numbers, refused, undecodable = [], [], [], []
        for number, line in enumerate(lines):
            try:
                texts.append(line.decode())
                numbers.append(number)
            except UnicodeDecodeError as error:
                refused.append((number, f"not UTF-8 at byte {error.start}: {error.reason}"))
                undecodable.append(line)
        return Parsed(_values(texts), numbers, refused, undecodable)


def _values(texts: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["value"])


class Left:
    """Lines that the fast parser did not take, on their way into files of `schema`. `new_writer` makes what writes
    them; it is not asked for one if there are no lines.

    At the end of its `with` block, whatever was not finished is discarded.
    """

    def __init__(self, schema: pa.Schema, new_writer: Callable[[], DataFileWriter]) -> None:
        self._schema = schema
        self._new_writer = new_writer
        self._writer: DataFileWriter | None = None
        self._rows: list[tuple[object, ...]] = []
        self._bytes = 0
        self.total_bytes = 0
        """In memory, of all lines that ever came; about."""
        self.undecided = 0
        """Lines that Spark has to parse; the others are refused already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._writer is not None:
            with suppress(BlizzardError):  # a file that stays is removed with the leftovers
                self._writer.discard()

    def add(self, run: Run, row: int, line: bytes, fault: str | None) -> None:
        """Raises CannotWriteError."""
        try:
            text, undecodable = line.decode(), None
        except UnicodeDecodeError:
            text, undecodable = None, line
        modified = datetime.fromtimestamp(run.modified_ts, UTC)
        self._rows.append((run.path, row, run.etag, modified, text, fault, undecodable, *run.partitions))
        size = len(line) + len(run.path) + _ROW_BYTES
        self._bytes += size
        self.total_bytes += size
        self.undecided += fault is None
        if len(self._rows) >= LEFT_ROWS or self._bytes >= LEFT_BYTES:
            self._write()

    def finish(self) -> list[DataFile]:
        """Raises CannotWriteError."""
        if self._rows:
            self._write()
        if self._writer is None:
            return []
        with writing():
            files = self._writer.close()
        self._writer = None
        return files

    def _write(self) -> None:
        rows, self._rows, self._bytes = self._rows, [], 0
        with naming("keeping lines of", lambda: (str(row[0]) for row in rows), foreseen=(CannotWriteError,)):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(values, kind) for values, kind in zip(columns, self._schema.types, strict=True)]
            with writing():
                if self._writer is None:
                    self._writer = self._new_writer()
                self._writer.write(pa.Table.from_arrays(arrays, schema=self._schema))


def deferred_lines_type(partition_columns: int) -> StructType:
    """Lines that are left. `fault`: why one is refused already; null: Spark's parser decides. `undecodable` has the
    bytes of one that is no UTF-8, instead of `line`."""
    types: dict[str, DataType] = {"row": LongType(), "modified": TimestampType(), "undecodable": BinaryType()}
    fixed = ("file", "row", "etag", "modified", "line", "fault", "undecodable")
    names = [*fixed, *(f"partition_{index}" for index in range(partition_columns))]
    return StructType([StructField(name, types.get(name, StringType())) for name in names])


@dataclass(frozen=True, slots=True)
class _Made:
    """One block, parsed."""

    table: pa.Table
    runs: Sequence[Run]
    left: Sequence[tuple[Run, int, bytes, str | None]]


class RecordPipeline:
    """Blocks of lines into one writer's files. With a pool, `at_once` blocks are parsed beside each other, and written
    in order. `watch` times the writing.

    At the end of its `with` block, whatever was not finished is discarded.
    """

    def __init__(
        self,
        parser: Parser,
        origin: Provenance,
        writer: DataFileWriter,
        left: Left,
        watch: Stopwatch,
        pool: ThreadPoolExecutor | None,
        at_once: int,
    ) -> None:
        self._parser = parser
        self._origin = origin
        self._writer = writer
        self._left = left
        self._watch = watch
        self._pool = pool
        self._at_once = at_once
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
        with writing(), self._watch.part("write"):
            data_files = self._writer.close()
        self._finished = True
        return data_files

    def _parse(self) -> None:
        runs, pieces = self._runs, self._pieces
        self._runs, self._pieces, self._bytes = [], [], 0
        if self._pool is None:
            self._write(self._made(runs, pieces))
            return
        self._parsing.append(self._pool.submit(self._made, runs, pieces))
        while len(self._parsing) > self._at_once:
            self._write(self._parsing.popleft().result())

    def _made(self, runs: Sequence[Run], pieces: Sequence[Block]) -> _Made:
        with naming("parsing lines of", lambda: (run.path for run in runs)):
            block = pieces[0].data if len(pieces) == 1 else b"\n".join(piece.data for piece in pieces)
            braced = sum(piece.count for piece in pieces) if all(piece.braced for piece in pieces) else None
            parsed = self._parser.parse(block, braced=braced)
            columns = [*parsed.records.columns, *self._origin.columns(runs, parsed.lines)]
            names = [*parsed.records.schema.names, *(field.name for field in self._origin.fields)]
            return _Made(pa.Table.from_arrays(columns, names=names), runs, _left(runs, parsed))

    def _write(self, made: _Made) -> None:
        for run, row, line, fault in made.left:
            self._left.add(run, row, line, fault)
        if not made.table.num_rows:
            return
        with (
            naming(
                "writing rows up to those of", lambda: (run.path for run in made.runs), foreseen=(CannotWriteError,)
            ),
            writing(),
            self._watch.part("write"),
        ):
            self._writer.write(made.table)


def _left(runs: Sequence[Run], parsed: Parsed) -> list[tuple[Run, int, bytes, str | None]]:
    starts = list(accumulate((run.count for run in runs[:-1]), initial=0))
    found = []
    for (number, fault), text in zip(parsed.refused, parsed.texts, strict=True):
        which = bisect_right(starts, number) - 1
        found.append((runs[which], runs[which].first_row + number - starts[which], text, fault))
    return found
