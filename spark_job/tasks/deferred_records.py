"""Records that a task could not turn into rows: their way into files that the driver reads."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import pyarrow as pa

from spark_job.tasks.error_context import add_file_names
from spark_job.tasks.provenance import RecordRange
from spark_job.write.data_file import DataFile
from spark_job.write.parquet_files import DataFileWriter
from spark_job.write.write_errors import CannotWriteError, writing

MAX_ROWS = 20_000
MAX_BYTES = 8 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROW_BYTES = 250
"""Size of one record in memory, apart from its text and its file's name."""


class DeferredRecords:
    """Writes files of `schema` (`deferred_records_type`). `new_writer` is called only if there are such records.

    What is not finished when the `with` block ends is discarded.
    """

    def __init__(self, schema: pa.Schema, new_writer: Callable[[], DataFileWriter]) -> None:
        self._schema = schema
        self._new_writer = new_writer
        self._writer: DataFileWriter | None = None
        self._rows: list[tuple[object, ...]] = []
        self._bytes = 0
        self.total_bytes = 0
        """Size of all records so far in memory, about."""
        self.undecided = 0
        """Records that Spark has to decide; the others are refused already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.try_to_discard()

    def add(self, source: RecordRange, row: int, record: bytes, fault: str | None) -> None:
        """`row`: its number in the file. `fault`: why it is refused; None if Spark decides. Raises CannotWriteError."""
        try:
            text, undecodable = record.decode(), None
        except UnicodeDecodeError:
            text, undecodable = None, record
        modified = _EPOCH + timedelta(microseconds=source.modified_micros_of(row))
        where = source.path, row, source.etag, modified
        about = source.about(row)
        self._rows.append((*where, text, fault, undecodable, source.member, about, *source.partitions))
        size = len(record) + len(source.path) + len(about or "") + _ROW_BYTES
        self._bytes += size
        self.total_bytes += size
        self.undecided += fault is None
        if len(self._rows) >= MAX_ROWS or self._bytes >= MAX_BYTES:
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
        with add_file_names(
            "staging deferred records of", lambda: (str(row[0]) for row in rows), expected_errors=(CannotWriteError,)
        ):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(values, kind) for values, kind in zip(columns, self._schema.types, strict=True)]
            with writing():
                if self._writer is None:
                    self._writer = self._new_writer()
                self._writer.write(pa.Table.from_arrays(arrays, schema=self._schema))
