"""The column `_source` of one data file, read without the file's other columns."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blizzard.errors import DataFileDamaged, NoSuchBytes
from blizzard.log import first_line
from blizzard.storage.base import ObjectStore
from blizzard.storage.ranged_file import RangedFile
from blizzard.table.added_files import AddedFile

FIELDS = {
    "source": pa.string(),
    "file": pa.string(),
    "row": pa.int64(),
    "etag": pa.string(),
    "modified": pa.timestamp("us", "UTC"),
    "sequence": pa.int64(),
}
"""As the job writes them."""
FOOTER_BYTES = 64 << 10
"""What pyarrow reads of the end of a file at first, to find the footer there."""
HELD_BYTES = 8 << 20
"""The fields of a row group lie next to each other: up to this size one request fetches all that are wanted."""
PIECE_BYTES = 1 << 20
"""Of a larger row group each field is fetched in pieces."""
BATCH_ROWS = 1 << 14


class SourceColumn:
    """Opens the file with one request. Raises NotFound for one that is not there, DataFileDamaged for one that is no
    Parquet or shorter than it was, and errors of storage, here and while it is read."""

    def __init__(self, store: ObjectStore, file: AddedFile) -> None:
        self._path = unquote(file.path)
        with reading(self._path):
            self._data = RangedFile(store, self._path, file.size, tail_bytes=FOOTER_BYTES)
            self._file = pq.ParquetFile(
                self._data, pre_buffer=False, buffer_size=PIECE_BYTES, coerce_int96_timestamp_unit="us"
            )
        schema = self._file.schema_arrow
        self._present = {field.name for field in schema.field("_source").type} if "_source" in schema.names else set()

    @property
    def num_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def groups(self) -> range:
        return range(self._file.num_row_groups)

    def batches(self, *fields: str) -> Iterator[pa.Table]:
        """All rows, with these fields of `_source` as columns; null where the file has no such field."""
        for group in self.groups:
            yield from self.of_group(group, *fields)

    def of_group(self, group: int, *fields: str) -> Iterator[pa.Table]:
        """As `batches`, of one row group."""
        paths = [f"_source.{name}" for name in fields if name in self._present]
        if not paths:
            rows = self._file.metadata.row_group(group).num_rows
            yield pa.table({name: pa.nulls(rows, FIELDS[name]) for name in fields})
            return
        with reading(self._path), self._held(group, paths):
            batches = self._file.iter_batches(BATCH_ROWS, row_groups=[group], columns=paths, use_threads=False)
            for batch in batches:
                yield pa.table({name: source_field(batch.column("_source"), name) for name in fields})

    def _held(self, group: int, paths: Sequence[str]) -> AbstractContextManager[None]:
        metadata = self._file.metadata.row_group(group)
        columns = [metadata.column(number) for number in range(metadata.num_columns)]
        wanted = [column for column in columns if column.path_in_schema in paths]
        start = min(_start(column) for column in wanted)
        end = max(_start(column) + column.total_compressed_size for column in wanted)
        return self._data.held(start, end) if end - start <= HELD_BYTES else nullcontext()


def source_field(whole: pa.StructArray, name: str) -> pa.Array:
    """Other writers may store texts as views, for which Arrow has no filter. Null if there is no such field."""
    if name not in {field.name for field in whole.type}:
        return pa.nulls(len(whole), FIELDS[name])
    return pc.struct_field(whole, name).cast(FIELDS[name])


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raises DataFileDamaged, with the path of the data file, for what no Parquet file gives."""
    try:
        yield
    except (pa.ArrowException, OSError, NoSuchBytes) as error:
        why = f"{type(error).__name__}: {first_line(str(error))}"
        raise DataFileDamaged(
            f"the data file {path} cannot be read ({why}). Restore it from a version or a backup of the bucket or "
            "disk, or the table to a version before it."
        ) from error


def _start(column: pq.ColumnChunkMetaData) -> int:
    pages = int(column.data_page_offset)
    return min(pages, column.dictionary_page_offset) if column.has_dictionary_page else pages
