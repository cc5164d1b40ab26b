"""What of typed columns is not as the schema says: fields that no column is for, columns of other types, values that do
not fit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from blizzard.config.ddl import Type
from blizzard.config.field_places import in_place, place_of
from spark_job.formats.converted_column import TakenOut, rows_where
from spark_job.formats.kinds import kind_of_column
from spark_job.formats.odd_data import OddValue, UnknownValues
from spark_job.formats.python_values import json_values
from spark_job.formats.typed_values import misfit, unknown_fields

Path = tuple[str, ...]


class TypeMisfit(Exception):
    """A column of a file that the schema's cannot take, and that may not be null; its text is the reason."""


@dataclass(frozen=True)
class OddColumns:
    """`found`: the types of a file's columns, named as the schema names them; `plain_type`s. `takes_out`: what does not
    fit becomes null, where it may. `check_type` must have accepted each of them."""

    found: pa.Schema
    schema: StructType
    takes_out: bool

    @cached_property
    def misfits(self) -> Sequence[Path]:
        """The fields whose type does not widen to the schema's, each the nearest that may be null."""
        if not self.takes_out:
            return ()
        names = self.found.names
        fields = [field for field in self.schema if field.name in names]
        return [path for field in fields for path in _misfits(self.found.field(field.name).type, field, (field.name,))]

    @cached_property
    def _unknown_kinds(self) -> Mapping[str, Type]:
        """By name, the types of fields that no column is for."""
        whole = pa.struct([*self.found])
        return {name: kind_of_column(kind) for name, kind in unknown_fields(whole, self.schema, "").items()}

    def column(self, table: pa.Table, name: str) -> pa.Array | None:
        """What a column of the schema can take. None: the file has nothing for it."""
        if name not in table.schema.names or (name,) in self.misfits:
            return None
        values = _one_array(table.column(name))
        for path in self.misfits:
            if path[0] == name:
                values = _without_field(values, path[1:])
        return values

    def unknown(self, table: pa.Table) -> Iterator[tuple[int, list[OddValue]]]:
        """By row, the fields that no column is for, unless they are null."""
        found: dict[int, list[OddValue]] = {}
        kinds, walk = self._unknown_kinds, UnknownValues(self.schema)
        for name in table.schema.names:
            shown = in_place(name)
            if not any(kind == shown or kind.startswith((f"{shown}.", f"{shown}[", f"{shown}{{")) for kind in kinds):
                continue
            column = table.column(name)
            rows = pc.indices_nonzero(column.is_valid()).to_pylist()
            for row, value in zip(rows, json_values(column.take(pa.array(rows, pa.int64()))), strict=True):
                for one in walk.of({name: value}):
                    found.setdefault(row, []).append(one._replace(kind=kinds.get(one.name)))
        yield from sorted(found.items())

    def taken_out(self, table: pa.Table, values: Sequence[TakenOut]) -> Iterator[tuple[int, OddValue]]:
        """By row, the values that do not fit. `values`: those of columns whose types do."""
        for path in self.misfits:
            rows = sorted(rows_where(_at(table, path).is_valid()))
            yield from self._at_rows(table, path, rows)
        for one in values:
            yield from self._at_rows(table, one.path, sorted(one.rows))

    def _at_rows(self, table: pa.Table, path: Path, rows: Sequence[int]) -> Iterator[tuple[int, OddValue]]:
        column = _at(table, path)
        name, kind = place_of(path), kind_of_column(column.type)
        for row, value in zip(rows, json_values(column.take(pa.array(rows, pa.int64()))), strict=True):
            yield row, OddValue(name, name, value, kind)


def check_type(found: pa.DataType, field: StructField, *, takes_out: bool) -> None:
    """Raises TypeMisfit if a column of this type cannot be read as the schema's. `takes_out`: as in `OddColumns`."""
    if takes_out:
        _misfits(found, field, (field.name,))
    elif (why := misfit(found, field.dataType, field.name)) is not None:
        raise TypeMisfit(why)


def _misfits(found: pa.DataType, field: StructField, path: Path) -> list[Path]:
    why = misfit(found, field.dataType, place_of(path))
    if why is None:
        return []
    if isinstance(field.dataType, StructType) and pa.types.is_struct(found):
        types = {inner.name: inner.type for inner in found}
        if len(types) == found.num_fields:
            try:
                some = [one for one in field.dataType if one.name in types]
                return [inner for one in some for inner in _misfits(types[one.name], one, (*path, one.name))]
            except TypeMisfit:
                pass
    if field.nullable:
        return [path]
    raise TypeMisfit(why)


def _at(table: pa.Table, path: Path) -> pa.ChunkedArray:
    column = table.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _without_field(values: pa.StructArray, path: Path) -> pa.StructArray:
    """A struct without a field of it."""
    children, fields = list[pa.Array](), list[pa.Field]()
    for field, child in zip(values.type, values.flatten(), strict=True):
        if field.name == path[0]:
            if len(path) == 1:
                continue
            child = _without_field(child, path[1:])
        children.append(child)
        fields.append(pa.field(field.name, child.type))
    mask = values.is_null() if values.null_count else None
    if not fields:  # a struct has at least one field here
        children, fields = [pa.nulls(len(values))], [pa.field("", pa.null())]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def respelled_names(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The names of a file's columns, spelled like those of the schema that differ in case only. A name that is spelled
    like a column wins, else the first."""
    known, taken = {name.lower(): name for name in wanted}, {*names}
    found = list[str]()
    for name in names:
        spelled = known.get(name.lower(), name)
        found.append(name if spelled in taken else spelled)
        taken.add(spelled)
    return found


def respelled_type(found: pa.DataType, wanted: DataType) -> pa.DataType:
    """The type with the fields of its structs spelled like those of the schema."""
    types = pa.types
    if isinstance(wanted, StructType) and types.is_struct(found):
        names = respelled_names([field.name for field in found], wanted.names)
        fields = [
            pa.field(name, respelled_type(field.type, wanted[name].dataType) if name in wanted.names else field.type)
            for name, field in zip(names, found, strict=True)
        ]
        return pa.struct(fields)
    if isinstance(wanted, ArrayType) and types.is_list(found):
        return pa.list_(pa.field("element", respelled_type(found.value_type, wanted.elementType)))
    if isinstance(wanted, MapType) and types.is_map(found):
        return pa.map_(found.key_type, pa.field("value", respelled_type(found.item_type, wanted.valueType)))
    return found


def respelled_schema(found: pa.Schema, wanted: StructType) -> pa.Schema:
    return pa.schema([*respelled_type(pa.struct([*found]), wanted)])
