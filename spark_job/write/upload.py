"""Streams one Parquet file into object storage."""

from contextlib import ExitStack, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.storage.base import ObjectStore, ObjectWriter

_OPTIONS: dict[str, Any] = {
    # Every reader of Delta tables supports these. Times are microseconds, as in Delta.
    "version": "2.6",
    "data_page_version": "1.0",
    # Spark writes decimals of up to 18 digits like this.
    "store_decimal_as_integer": True,
    # Arrow's own schema would say `dictionary` where the table says `string`.
    "store_schema": False,
}


class _Abandoned(Exception):
    """Thrown into the store's writer, so that it aborts the upload."""


class ParquetUpload:
    """Open from the start. The object exists only after `commit`."""

    def __init__(self, store: ObjectStore, key: str, schema: pa.Schema, options: dict[str, Any]) -> None:
        self.key = key
        self._stack = ExitStack()
        self._sink = _Sink(self._stack.enter_context(store.writer(key)))
        self._metadata: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"), schema, metadata_collector=self._metadata, **_OPTIONS, **options
        )

    @property
    def written_bytes(self) -> int:
        return self._sink.written_bytes

    def write_row_group(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def end(self) -> pq.FileMetaData:
        """Writes the footer. `commit` may be called by another thread."""
        self._writer.close()
        return self._metadata[0]

    def commit(self) -> None:
        self._stack.close()

    def abort(self) -> None:
        self._sink.abandoned = True
        self._writer.is_open = False
        abandoned = _Abandoned(self.key)
        with suppress(_Abandoned):
            self._stack.__exit__(type(abandoned), abandoned, None)


class _Sink:
    """The file object that pyarrow writes to."""

    def __init__(self, writer: ObjectWriter) -> None:
        self._writer = writer
        self.written_bytes = 0
        self.closed = False
        self.abandoned = False
        """If set, writes are dropped: Arrow writes a footer even after an error, at the latest when collected."""

    def write(self, data: Any) -> int:
        if self.abandoned:
            return len(data)
        written = self._writer.write(data)
        self.written_bytes += written
        return written

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        self.closed = True
