"""Converts columns of structs, arrays and maps: each leaf by a format's own rules, with the rows that do not fit."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_job.formats.converted_column import ConvertedColumn, Missing, TakenOut, missing_in, rows_where

ConvertLeaf = Callable[[pa.Array, DataType], ConvertedColumn]
"""Converts values that are neither structs, arrays nor maps."""

INTEGERS: Mapping[type[DataType], pa.DataType] = {
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
}
LEAF_TYPES: Mapping[type[DataType], pa.DataType] = {
    **INTEGERS,
    StringType: pa.string(),
    BooleanType: pa.bool_(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
}


def column_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a column, every part nullable. Raises KeyError for a type that no data file has."""
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, StructType):
        return pa.struct([pa.field(field.name, column_type(field.dataType)) for field in data_type])
    if isinstance(data_type, ArrayType):
        return pa.list_(pa.field("element", column_type(data_type.elementType)))
    if isinstance(data_type, MapType):
        return pa.map_(column_type(data_type.keyType), pa.field("value", column_type(data_type.valueType)))
    return LEAF_TYPES[type(data_type)]


def convert_nested(
    values: pa.Array, data_type: DataType, leaf: ConvertLeaf, *, takes_out: bool = False
) -> ConvertedColumn:
    """The values in their `column_type`. A struct's fields are found by name; one that `values` does not have is null.
    `takes_out`: a field of a struct whose value does not fit becomes null, instead of the row being doubtful."""
    if not len(values):
        return ConvertedColumn(pa.array([], column_type(data_type)))
    if isinstance(data_type, StructType | ArrayType | MapType) and pa.types.is_null(values.type):
        return ConvertedColumn(pa.nulls(len(values), column_type(data_type)))
    if isinstance(data_type, StructType):
        return _struct(values, data_type, leaf, takes_out=takes_out)
    if isinstance(data_type, ArrayType):
        return _list(values, data_type, leaf)
    if isinstance(data_type, MapType):
        return _map(values, data_type, leaf)
    return leaf(values, data_type)


def _struct(values: pa.Array, data_type: StructType, leaf: ConvertLeaf, *, takes_out: bool) -> ConvertedColumn:
    children, doubtful, underflowed, missing = [], set[int](), set[int](), list[Missing]()
    taken_out = list[TakenOut]()
    is_null = nulls(values)
    found = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    for field in data_type:
        child = found.get(field.name)
        if child is None:
            converted = ConvertedColumn(pa.nulls(len(values), column_type(field.dataType)))
        else:
            converted = convert_nested(child, field.dataType, leaf, takes_out=takes_out)
            converted = converted.without_misfits(field) if takes_out else converted
        children.append(converted.values)
        doubtful |= converted.doubtful
        underflowed |= converted.underflowed
        missing += (Missing(f".{one.path}", one.rows) for one in missing_in(field, converted, is_null))
        taken_out += (TakenOut((field.name, *one.path), one.rows) for one in converted.taken_out)
    fields = list(column_type(data_type))
    made = pa.StructArray.from_arrays(children, fields=fields, mask=is_null) if fields else values
    return ConvertedColumn(made, frozenset(doubtful), frozenset(underflowed), missing, taken_out)


def _list(values: pa.Array, data_type: ArrayType, leaf: ConvertLeaf) -> ConvertedColumn:
    values = compact(values)
    elements = convert_nested(values.values, data_type.elementType, leaf)
    made = pa.ListArray.from_arrays(values.offsets, elements.values, type=column_type(data_type), mask=nulls(values))
    return _ofparents_of(made, values.offsets, elements, "[]")


def _map(values: pa.Array, data_type: MapType, leaf: ConvertLeaf) -> ConvertedColumn:
    values = compact(values)
    keys = convert_nested(values.keys, data_type.keyType, leaf)
    if keys.doubtful or keys.values.null_count:  # a map without its keys is none
        doubtful = keys.doubtful | rows_where(keys.values.is_null())
        bad = parents_of(values.offsets, doubtful)
        kept = pa.array([None if row in bad else row for row in range(len(values))], pa.int64())
        found = _map(values.take(kept), data_type, leaf)
        return replace(found, doubtful=found.doubtful | bad)
    items = convert_nested(values.items, data_type.valueType, leaf)
    made = pa.MapArray.from_arrays(
        values.offsets, keys.values, items.values, type=column_type(data_type), mask=nulls(values)
    )
    return _ofparents_of(made, values.offsets, items, "{}")


def _ofparents_of(made: pa.Array, offsets: pa.Array, elements: ConvertedColumn, mark: str) -> ConvertedColumn:
    """What is known of the elements, by the rows that contain them."""
    return ConvertedColumn(
        made,
        parents_of(offsets, elements.doubtful),
        parents_of(offsets, elements.underflowed),
        [Missing(mark + one.path, parents_of(offsets, one.rows)) for one in elements.missing],
    )


def compact(values: pa.Array) -> pa.Array:
    """A copy of a slice: Arrow cannot build an array of lists from offsets that do not begin at the array's start."""
    return values.take(pa.arange(0, len(values))) if values.offset else values


def nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def parents_of(offsets: pa.Array, elements: frozenset[int]) -> frozenset[int]:
    """The rows that contain these elements."""
    if not elements:
        return frozenset()
    starts = offsets.to_pylist()
    return frozenset(
        row for row in range(len(starts) - 1) if any(at in elements for at in range(starts[row], starts[row + 1]))
    )
