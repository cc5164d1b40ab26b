"""All columns of the rows of one data file, with the values of its partition, without the rows that are deleted."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blizzard.storage.base import ObjectStore
from blizzard.storage.ranged_file import RangedFile
from blizzard.table.added_files import AddedFile
from blizzard.table.source_column import BATCH_ROWS, FOOTER_BYTES, reading

READ_BYTES = 4 << 20
"""Of a column, in one request."""


class DataRows:
    """`partition`: by column; `schema`: of the table, whose types the values get. `deleted`: numbers of rows in the
    file. Raises as SourceColumn does."""

    def __init__(
        self,
        store: ObjectStore,
        file: AddedFile,
        schema: pa.Schema,
        partition: Mapping[str, Any],
        deleted: Sequence[int] = (),
    ) -> None:
        self._path = unquote(file.path)
        self._kinds = {field.name: field.type for field in schema}
        self._partition = {name: pa.scalar(value, self._kinds[name]) for name, value in partition.items()}
        self._deleted = pa.array(deleted, pa.int64())
        with reading(self._path):
            data = RangedFile(store, self._path, file.size, tail_bytes=FOOTER_BYTES)
            self._file = pq.ParquetFile(
                data, pre_buffer=False, buffer_size=READ_BYTES, coerce_int96_timestamp_unit="us"
            )

    def batches(self, paths: Collection[str] | None = None) -> Iterator[pa.Table]:
        """A column that the file does not have is left out, and may be a field of a struct, too. `paths`: of the files
        whose rows are wanted; others may be among them."""
        at = 0
        with reading(self._path):
            for group in range(self._file.num_row_groups):
                first, at = at, at + self._file.metadata.row_group(group).num_rows
                if paths is None or self._may_have(group, paths):
                    yield from self._of_group(group, first)

    def _of_group(self, group: int, first: int) -> Iterator[pa.Table]:
        for batch in self._file.iter_batches(BATCH_ROWS, row_groups=[group], use_threads=False):
            rows = pa.table({name: self._fitted(name, batch.column(name)) for name in batch.schema.names})
            if len(self._deleted):
                numbers = pa.array(range(first, first + rows.num_rows))
                rows = rows.filter(pc.invert(pc.is_in(numbers, self._deleted)))
            first += batch.num_rows
            yield self._with_partition(rows)

    def _may_have(self, group: int, paths: Collection[str]) -> bool:
        """By the bounds of `_source.file`."""
        metadata = self._file.metadata.row_group(group)
        columns = (metadata.column(number) for number in range(metadata.num_columns))
        bounds = next((each.statistics for each in columns if each.path_in_schema == "_source.file"), None)
        if bounds is None or not bounds.has_min_max:
            return True
        return any(bounds.min <= path <= bounds.max for path in paths)

    def _with_partition(self, rows: pa.Table) -> pa.Table:
        for name, value in self._partition.items():
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        return rows

    def _fitted(self, name: str, values: pa.Array) -> pa.Array:
        """As the table has them, whose columns may have been widened since. Other writers may store texts as views, for
        which Arrow has no filter."""
        try:
            return values.cast(self._kinds.get(name, values.type), safe=False)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError):  # of earlier versions, if a struct has got fields
            return values.cast(_without_views(values.type))


def _without_views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind
