"""All columns of the rows of one data file, with the values of its partition, without the rows that are deleted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blizzard.errors import NoSuchBytes
from blizzard.storage.base import ObjectStore
from blizzard.storage.ranged_file import RangedFile
from blizzard.table.added_files import AddedFile
from blizzard.table.source_column import BATCH_ROWS, FOOTER_BYTES, damaged

READ_BYTES = 4 << 20
"""Of a column, in one request."""


class DataRows:
    """`partition`: by column; `schema`: of the table. `deleted`: numbers of rows in the file. Raises as SourceColumn
    does."""

    def __init__(
        self,
        store: ObjectStore,
        file: AddedFile,
        schema: pa.Schema,
        partition: Mapping[str, Any],
        deleted: Sequence[int] = (),
    ) -> None:
        self._path = unquote(file.path)
        self._partition = {name: pa.scalar(value, schema.field(name).type) for name, value in partition.items()}
        self._deleted = pa.array(deleted, pa.int64())
        with self._naming_the_file():
            data = RangedFile(store, self._path, file.size, tail_bytes=FOOTER_BYTES)
            self._file = pq.ParquetFile(
                data, pre_buffer=False, buffer_size=READ_BYTES, coerce_int96_timestamp_unit="us"
            )

    def batches(self) -> Iterator[pa.Table]:
        """A column that the file does not have is left out."""
        at = 0
        with self._naming_the_file():
            for batch in self._file.iter_batches(BATCH_ROWS, use_threads=False):
                rows = _without_views(pa.Table.from_batches([batch]))
                if len(self._deleted):
                    numbers = pa.array(range(at, at + rows.num_rows))
                    rows = rows.filter(pc.invert(pc.is_in(numbers, self._deleted)))
                at += batch.num_rows
                yield self._with_partition(rows)

    def _with_partition(self, rows: pa.Table) -> pa.Table:
        for name, value in self._partition.items():
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        return rows

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, NoSuchBytes) as error:
            raise damaged(self._path, error) from error


def _without_views(rows: pa.Table) -> pa.Table:
    """Other writers may store texts as views, for which Arrow has no filter."""
    return rows.cast(pa.schema([field.with_type(_plain(field.type)) for field in rows.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind
