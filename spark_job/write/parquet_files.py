"""The table's Parquet files, written by tasks before any commit names them."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls
from blizzard.storage.s3_write import PART_BYTES
from spark_job.write.encoding import SAMPLE_ROWS, USUAL, Encoding, measured
from spark_job.write.file_schema import conformed, file_schema
from spark_job.write.partition_values import Values, folders, split
from spark_job.write.statistics import StatsOfFile
from spark_job.write.upload import ParquetUpload

ROW_GROUP_BYTES = 64 << 20
"""Of Arrow; some 40 MB of Parquet."""
_MOST_OPEN = 16
_OPEN_BYTES = 2 * PART_BYTES
"""What an open file is reckoned at: on S3 it keeps a part of its upload in memory, and another one on its way."""
_ENDING = 8
"""Files that are ended at the same time: on S3 the end of a small one is one request of many milliseconds, and there
may be a thousand of them."""
_ENDS_ALONE_BYTES = PART_BYTES // 2
"""A file from this size on may keep a whole part until it has ended, so before another one opens in its place it waits
for the others; its end is a small part of its time."""
_FEW_ROWS = 2 * SAMPLE_ROWS
"""Looking for the best encoding takes as long as writing these."""
_SHORT_TABLE = 4096


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file in the table's folder that no commit names yet."""

    path: str
    """Key below the table's root, as it is on storage (not URL-encoded)."""
    size: int
    """Bytes."""
    rows: int
    modified_ts: float
    """Unix seconds."""
    partition_values: Mapping[str, str | None]
    """Of every `partition_by` column, as Delta writes them; "" counts as null."""
    stats: str
    """Delta's statistics, as JSON text."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How the table wants its files. Made by the table on the driver, obeyed by the writer in tasks."""

    folder: str
    """Prefix below the table's root for new files: "" or something that ends in `/`."""
    partition_by: tuple[str, ...]
    stats_columns: tuple[str, ...]
    """Dotted paths of the leaves that get statistics: `id`, `_source.file`."""
    string_prefix_chars: int
    target_file_bytes: int

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """What `asdict` gave, after a journey as JSON."""
        tuples = {name: tuple(document[name]) for name in ("partition_by", "stats_columns")}
        return cls(**{**document, **tuples})


class RowBuffer:
    """Memory for the rows that wait in several writers of one task, in equal parts for those that have begun and not
    ended. Whoever begins has the others write at once what is beyond their parts. Not for several threads at once."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._writers: list[DataFileWriter] = []

    @property
    def part_bytes(self) -> int:
        """Of each writer."""
        return self._total_bytes // max(1, len(self._writers))

    def enter(self, writer: "DataFileWriter") -> None:
        """Raises what their stores raise."""
        if writer not in self._writers:
            self._writers.append(writer)
            for other in self._writers[:-1]:
                other.keep_to_part()

    def leave(self, writer: "DataFileWriter") -> None:
        if writer in self._writers:
            self._writers.remove(writer)


class DataFileWriter:
    """Rows into files of about `target_file_bytes`, each of one partition of the table.

    `schema` has all columns in the table's order, those of `partition_by` too. Memory: rows that wait, at most
    its part of `buffer` and one table, and what open uploads hold, of which there are 2 to 16, one for each 16 MiB of
    that; those that are being ended keep some 40 MiB at most, one part or 8 of half its size. With more partitions than
    that under way, the file that was written to least recently ends early.
    Raises the store's errors; whoever gives up calls `discard`. Not for several threads at once.
    """

    def __init__(
        self,
        store: ObjectStore,
        layout: TableLayout,
        schema: pa.Schema,
        *,
        buffer: RowBuffer,
        new_name: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._layout = layout
        self._schema = schema
        self._file_schema: pa.Schema | None = None
        self._buffer = buffer
        self._new_name = new_name
        self._clock = clock
        self._waiting: dict[Values, _Waiting] = {}
        self._open: dict[Values, _OpenFile] = {}
        self._commits = ParallelCalls(_ENDING, name="data-file")
        self._encoding: Encoding | None = None
        self._rows = 0
        self._keys: list[str] = []
        self._files: list[DataFile] = []

    @property
    def buffered_bytes(self) -> int:
        """Of the rows that wait."""
        return sum(waiting.bytes for waiting in self._waiting.values())

    @property
    def _most_open(self) -> int:
        return max(2, min(_MOST_OPEN, self._buffer.part_bytes // _OPEN_BYTES))

    @property
    def _row_group_bytes(self) -> int:
        return max(1, min(ROW_GROUP_BYTES, self._buffer.part_bytes, self._layout.target_file_bytes // 2))

    def write(self, table: pa.Table) -> None:
        """`table` has the columns of the schema. A text column, also one in a struct, may come dictionary-encoded; if
        it does so in the first table, it is written without making the texts."""
        self._buffer.enter(self)
        self._rows += table.num_rows
        for values, rows in split(table.select(self._schema.names), self._layout.partition_by):
            if self._file_schema is None:
                self._file_schema = file_schema(self._schema, rows.schema)
            waiting = self._waiting.setdefault(values, _Waiting())
            waiting.add(conformed(rows, self._file_schema))
            if waiting.bytes >= self._row_group_bytes:
                self._flush(values)
        self._shrink()

    def close(self) -> list[DataFile]:
        """Everything that was written, once it is complete on storage."""
        for values in list(self._waiting):
            self._flush(values)
        # No other file opens any more, so what they hold as open ones they may hold until they have ended.
        for values in list(self._open):
            self._finish(values, beside_others=True)
        self._commits.wait()
        self._buffer.leave(self)
        return self._files

    def keep_to_part(self) -> None:
        """Write and end what is beyond this writer's part of the buffer, which is smaller than it was."""
        self._shrink()
        self._close_beyond(self._most_open)
        self._commits.wait()

    def discard(self) -> None:
        """Nothing of this writer stays on storage, whatever has happened before."""
        self._buffer.leave(self)
        # From the last to the first; one that fails does not keep the others from being done.
        with ExitStack() as stack:
            stack.callback(self._remove)
            stack.callback(self._commits.wait_ignoring_errors)
            for file in self._open.values():
                stack.callback(file.upload.abort)
            self._open.clear()
            self._waiting.clear()
            self._files.clear()

    def _remove(self) -> None:
        self._store.delete(self._keys)
        self._keys.clear()

    def _shrink(self) -> None:
        total = self.buffered_bytes
        while total > self._buffer.part_bytes:
            largest = max(self._waiting, key=lambda values: self._waiting[values].bytes)
            total -= self._waiting[largest].bytes
            self._flush(largest)

    def _flush(self, values: Values) -> None:
        waiting = self._waiting.pop(values)
        rows = waiting.taken()
        enough = rows.num_rows >= SAMPLE_ROWS or waiting.bytes >= self._row_group_bytes
        if self._encoding is None and self._rows >= _FEW_ROWS and enough:
            self._encoding = measured(rows)
        groups = -(-waiting.bytes // self._row_group_bytes) or 1
        size = -(-rows.num_rows // groups)
        for start in range(0, rows.num_rows, size):
            file = self._file_of(values)
            file.write(rows.slice(start, size))
            if file.upload.written_bytes >= self._layout.target_file_bytes:
                self._finish(values)

    def _file_of(self, values: Values) -> "_OpenFile":
        """Open, and behind all others in the order of use."""
        file = self._open.pop(values, None)
        if file is None:
            self._close_beyond(self._most_open - 1)
            file = self._opened(values)
        self._open[values] = file
        return file

    def _close_beyond(self, most: int) -> None:
        """Of the open files, those that were written to least recently."""
        while len(self._open) > most:
            self._finish(next(iter(self._open)))

    def _opened(self, values: Values) -> "_OpenFile":
        named = dict(zip(self._layout.partition_by, values, strict=True))
        key = f"{self._layout.folder}{folders(named)}part-{self._new_name()}.snappy.parquet"
        self._keys.append(key)
        options = (self._encoding or USUAL).options()
        return _OpenFile(
            ParquetUpload(self._store, key, self._file_schema, options),
            StatsOfFile(self._file_schema, self._layout.stats_columns, self._layout.string_prefix_chars),
            named,
        )

    def _finish(self, values: Values, *, beside_others: bool = False) -> None:
        file = self._open[values]
        metadata = file.upload.end()
        stats = file.stats.to_json(metadata)
        if file.upload.written_bytes >= _ENDS_ALONE_BYTES and not beside_others:
            self._commits.wait()
        self._commits.submit(file.upload.commit)
        del self._open[values]
        key, size = file.upload.key, file.upload.written_bytes
        self._files.append(DataFile(key, size, metadata.num_rows, self._clock(), file.partition_values, stats))


@dataclass(slots=True)
class _Waiting:
    """Rows of one partition that no file has yet."""

    tables: list[pa.Table] = field(default_factory=list)
    bytes: int = 0

    def add(self, rows: pa.Table) -> None:
        self.tables.append(rows)
        self.bytes += rows.nbytes

    def taken(self) -> pa.Table:
        """All of them; what is made of them anew is not held twice. With one dictionary for each column: at a second
        one Parquet's writer falls back to plain texts."""
        rows = pa.concat_tables(self.tables)
        short = rows.num_rows < len(self.tables) * _SHORT_TABLE
        self.tables.clear()
        return rows.combine_chunks() if short else rows.unify_dictionaries()


@dataclass(frozen=True, slots=True)
class _OpenFile:
    upload: ParquetUpload
    stats: StatsOfFile
    partition_values: Mapping[str, str | None]

    def write(self, rows: pa.Table) -> None:
        self.stats.observe(rows)
        self.upload.write_row_group(rows)
