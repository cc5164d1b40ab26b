"""The columns of a source by the keys that its files have for them."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from blizzard.config.field_places import in_place, place_of
from spark_job.formats.nested_columns import column_type
from spark_job.formats.nullable_type import nullable_type

Path = tuple[str, ...]


class SourceKeys:
    """`fields`: by column, the keys that lead to its value; a column without an entry has its own name as key."""

    def __init__(self, columns: StructType, fields: Mapping[str, Sequence[str]]) -> None:
        self._columns = columns
        self._paths: Mapping[str, Path] = {f.name: tuple(fields.get(f.name, (f.name,))) for f in columns}
        schema = StructType()
        for field in columns:
            schema = _with(schema, self._paths[field.name], field)
        self.schema = schema
        """What is read from a file. A struct around a column that is NOT NULL is itself NOT NULL."""

    def columns(self, found: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The columns of the source by name, from a table with those of `schema`."""
        return {field.name: self._column(found, field) for field in self._columns}

    def _column(self, found: pa.Table, field: StructField) -> pa.Array | pa.ChunkedArray:
        first, *rest = self._paths[field.name]
        values = found.column(first)
        for name in rest:
            values = pc.struct_field(values, name)
        wanted = column_type(field.dataType)
        return values if values.type == wanted else values.cast(wanted)

    def record(self, found: Column) -> dict[str, Column]:
        """The columns of the source by name, from a struct with the columns of `schema`."""
        return {field.name: self._spark_column(found, field) for field in self._columns}

    def _spark_column(self, found: Column, field: StructField) -> Column:
        for name in self._paths[field.name]:
            found = found.getField(name)
        return _selected(found, field.dataType)

    def column_at(self, path: str) -> str:
        """The place of a field of the file's, as the source's columns have it."""
        for column, keys in self._paths.items():
            prefix = place_of(keys)
            if path == prefix or path.startswith((f"{prefix}.", f"{prefix}[", f"{prefix}{{")):
                return in_place(column) + path[len(prefix) :]
        return path


def _with(schema: StructType, path: Sequence[str], field: StructField) -> StructType:
    """With another field at this path."""
    name, *rest = path
    known = schema[name] if name in schema.names else None
    if rest:
        around = known.dataType if known is not None else StructType()
        if not isinstance(around, StructType):
            raise ValueError(f"`{name}` is read as {around.simpleString()}, and as a struct for {field.name}")
        made: DataType = _with(around, rest, field)
    else:
        made = field.dataType if known is None else _both(known.dataType, field.dataType)
    nullable = field.nullable and (known is None or known.nullable)
    added = StructField(name, made, nullable)
    return StructType([added if f.name == name else f for f in schema] + ([added] if known is None else []))


def _both(one: DataType, other: DataType) -> DataType:
    """A type that has the values of both."""
    if isinstance(one, StructType) and isinstance(other, StructType):
        for field in other:
            one = _with(one, (field.name,), field)
        return one
    if nullable_type(one) != nullable_type(other):
        raise ValueError(f"one key is read as {one.simpleString()} and as {other.simpleString()}")
    return one


def _selected(found: Column, wanted: DataType) -> Column:
    """The fields of a struct that a column has, of those that the file has."""
    if not isinstance(wanted, StructType):
        return found
    fields = [_selected(found.getField(field.name), field.dataType).alias(field.name) for field in wanted]
    return F.when(found.isNotNull(), F.struct(*fields))
