"""Writes rows into Parquet files of the table, in tasks; a commit adds the files later."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pyarrow as pa

from blizzard.errors import BlizzardError
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls
from blizzard.storage.s3_write import PART_BYTES
from spark_job.write.data_file import DataFile, TableLayout
from spark_job.write.encoding import DEFAULT_ENCODING, SAMPLE_ROWS, Encoding, choose_encoding
from spark_job.write.file_schema import cast_to_schema, file_schema
from spark_job.write.partition_values import Values, partition_folders, split_by_partition
from spark_job.write.statistics import FileStatistics
from spark_job.write.upload import ParquetUpload

ROW_GROUP_BYTES = 64 << 20
"""Size in Arrow's memory; about 40 MB of Parquet."""
_MAX_OPEN_FILES = 16
_OPEN_BYTES = 2 * PART_BYTES
"""Estimated memory of an open file: on S3 one part of its upload is being filled, and another one is being sent."""
_PARALLEL_COMMITS = 8
"""Files that are completed in parallel: on S3 completing a small file is one request of many milliseconds, and there
may be a thousand files."""
_LARGE_FILE_BYTES = PART_BYTES // 2
"""A file of at least this size may hold a whole part in memory until it is complete. So it is completed only after the
other completions have ended, before another file opens in its place. For a file of this size that costs little time."""
_MIN_ROWS_TO_CHOOSE_ENCODING = 2 * SAMPLE_ROWS
"""Choosing the encoding takes as long as writing these."""
_SHORT_TABLE_ROWS = 4096


class BufferBudget:
    """Memory for buffered rows, shared equally by the active writers of one task. When a writer becomes active, the
    others immediately flush what exceeds their smaller share. Not thread-safe."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._writers: list[DataFileWriter] = []

    @property
    def share_bytes(self) -> int:
        """The share of each active writer."""
        return self._total_bytes // max(1, len(self._writers))

    def activate(self, writer: "DataFileWriter") -> None:
        """Raises errors of the other writers' stores, since these flush."""
        if writer not in self._writers:
            self._writers.append(writer)
            for other in self._writers[:-1]:
                other.shrink_to_share()

    def deactivate(self, writer: "DataFileWriter") -> None:
        if writer in self._writers:
            self._writers.remove(writer)


class DataFileWriter:
    """Writes rows into files of about `target_file_bytes`, each of one partition of the table.

    `schema` has all columns in the table's order, including those of `partition_by`. Memory: buffered rows, at most its
    share of `buffer` plus one table; the open uploads, 2 to 16 of them, one for each 16 MiB of that share; and about
    40 MiB for uploads that are being completed, which hold one part, or 8 halves. With more partitions than open files,
    the file that was written to least recently is completed early.
    Raises the store's errors; after an error the caller has to call `discard`. Not thread-safe.
    """

    def __init__(
        self,
        store: ObjectStore,
        layout: TableLayout,
        schema: pa.Schema,
        *,
        buffer: BufferBudget,
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
        self._buffered: dict[Values, _BufferedRows] = {}
        self._open: dict[Values, _OpenFile] = {}
        self._commits = ParallelCalls(_PARALLEL_COMMITS, name="data-file")
        self._encoding: Encoding | None = None
        self._rows = 0
        self._keys: list[str] = []
        self._files: list[DataFile] = []

    @property
    def buffered_bytes(self) -> int:
        """Size of the rows that are not in a file yet."""
        return sum(rows.bytes for rows in self._buffered.values())

    @property
    def _max_open_files(self) -> int:
        return max(2, min(_MAX_OPEN_FILES, self._buffer.share_bytes // _OPEN_BYTES))

    @property
    def _row_group_bytes(self) -> int:
        return max(1, min(ROW_GROUP_BYTES, self._buffer.share_bytes, self._layout.target_file_bytes // 2))

    def write(self, table: pa.Table) -> None:
        """`table` has the columns of the schema. A string column, also one in a struct, may be dictionary-encoded; if
        the first table has it encoded, it is written without decoding."""
        self._buffer.activate(self)
        self._rows += table.num_rows
        for values, rows in split_by_partition(table.select(self._schema.names), self._layout.partition_by):
            if self._file_schema is None:
                self._file_schema = file_schema(self._schema, rows.schema)
            buffered = self._buffered.setdefault(values, _BufferedRows())
            buffered.add(cast_to_schema(rows, self._file_schema))
            if buffered.bytes >= self._row_group_bytes:
                self._flush(values)
                # Its allocator keeps what it frees, and would take as much again for the next row group.
                pa.default_memory_pool().release_unused()
        self._flush_beyond_share()

    def close(self) -> list[DataFile]:
        """Returns all files, once they are complete on storage."""
        for values in list(self._buffered):
            self._flush(values)
        # No other file opens any more, so all of these may keep their memory until they are complete.
        for values in list(self._open):
            self._complete(values, in_parallel=True)
        self._commits.wait()
        self._buffer.deactivate(self)
        return self._files

    def shrink_to_share(self) -> None:
        """Flush rows and complete files beyond this writer's share of the buffer, which has become smaller."""
        self._flush_beyond_share()
        self._complete_beyond(self._max_open_files)
        self._commits.wait()

    def discard(self) -> None:
        """Remove everything that this writer has put on storage, also after an error and after `close`."""
        self._buffer.deactivate(self)
        # Callbacks run from the last to the first. If one fails, the others still run.
        with ExitStack() as stack:
            stack.callback(self._remove)
            stack.callback(self._commits.wait_ignoring_errors)
            for file in self._open.values():
                stack.callback(file.upload.abort)
            self._open.clear()
            self._buffered.clear()
            self._files.clear()

    def try_to_discard(self) -> None:
        """What storage does not let go stays: no commit names it, and VACUUM removes it."""
        with suppress(BlizzardError):
            self.discard()

    def _remove(self) -> None:
        self._store.delete(self._keys)
        self._keys.clear()

    def _flush_beyond_share(self) -> None:
        total = self.buffered_bytes
        while total > self._buffer.share_bytes:
            largest = max(self._buffered, key=lambda values: self._buffered[values].bytes)
            total -= self._buffered[largest].bytes
            self._flush(largest)

    def _flush(self, values: Values) -> None:
        buffered = self._buffered.pop(values)
        rows = buffered.take()
        is_sample = rows.num_rows >= SAMPLE_ROWS or buffered.bytes >= self._row_group_bytes
        if self._encoding is None and self._rows >= _MIN_ROWS_TO_CHOOSE_ENCODING and is_sample:
            self._encoding = choose_encoding(rows)
        groups = -(-buffered.bytes // self._row_group_bytes) or 1
        size = -(-rows.num_rows // groups)
        for start in range(0, rows.num_rows, size):
            file = self._open_file(values)
            file.write(rows.slice(start, size))
            if file.upload.written_bytes >= self._layout.target_file_bytes:
                self._complete(values)

    def _open_file(self, values: Values) -> "_OpenFile":
        """Opened if necessary, and moved to the end of `_open`, which is in the order of use."""
        file = self._open.pop(values, None)
        if file is None:
            self._complete_beyond(self._max_open_files - 1)
            file = self._new_file(values)
        self._open[values] = file
        return file

    def _complete_beyond(self, max_open: int) -> None:
        """Completes the open files that were written to least recently."""
        while len(self._open) > max_open:
            self._complete(next(iter(self._open)))

    def _new_file(self, values: Values) -> "_OpenFile":
        partition_values = dict(zip(self._layout.partition_by, values, strict=True))
        key = f"{self._layout.folder}{partition_folders(partition_values)}part-{self._new_name()}.snappy.parquet"
        self._keys.append(key)
        options = (self._encoding or DEFAULT_ENCODING).options()
        return _OpenFile(
            ParquetUpload(self._store, key, self._file_schema, options),
            FileStatistics(self._file_schema, self._layout.stats_columns, self._layout.string_prefix_chars),
            partition_values,
        )

    def _complete(self, values: Values, *, in_parallel: bool = False) -> None:
        file = self._open[values]
        metadata = file.upload.end()
        stats = file.stats.to_json(metadata)
        if file.upload.written_bytes >= _LARGE_FILE_BYTES and not in_parallel:
            self._commits.wait()
        self._commits.submit(file.upload.commit)
        del self._open[values]
        key, size = file.upload.key, file.upload.written_bytes
        self._files.append(DataFile(key, size, metadata.num_rows, self._clock(), file.partition_values, stats))


@dataclass(slots=True)
class _BufferedRows:
    """Rows of one partition."""

    tables: list[pa.Table] = field(default_factory=list)
    bytes: int = 0

    def add(self, rows: pa.Table) -> None:
        self.tables.append(rows)
        self.bytes += rows.nbytes

    def take(self) -> pa.Table:
        """Returns and drops all rows, so that none is in memory twice. Each column has one dictionary: at a second one
        Parquet's writer would fall back to plain strings."""
        rows = pa.concat_tables(self.tables)
        short = rows.num_rows < len(self.tables) * _SHORT_TABLE_ROWS
        self.tables.clear()
        return rows.combine_chunks() if short else rows.unify_dictionaries()


@dataclass(frozen=True, slots=True)
class _OpenFile:
    upload: ParquetUpload
    stats: FileStatistics
    partition_values: Mapping[str, str | None]

    def write(self, rows: pa.Table) -> None:
        self.stats.observe(rows)
        self.upload.write_row_group(rows)
