"""Converts what the JSON reader returns to a schema's Arrow types: the value that Spark would give, or a doubtful
row."""

import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

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

from spark_job.formats.ndjson.convert_numbers import decimals, floats, integers
from spark_job.formats.ndjson.convert_times import dates, timestamps, timestamps_ntz
from spark_job.formats.ndjson.converted_column import ConvertedColumn, Missing, convert_one_by_one, missing_in

NUMBER, TEXT, DIGITS = "number", "text", "digits"
"""The style of a decimal or timestamp, which files write as a number or as text. DIGITS: a decimal that is parsed digit
by digit in either style, because a double has too few digits for it."""

INTEGERS: Mapping[type[DataType], pa.DataType] = {
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
}
_FIXED: Mapping[type[DataType], pa.DataType] = {
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

_SCALE_OF_DOUBLES = 8


def arrow_type(data_type: DataType) -> pa.DataType | None:
    """The Arrow type of a column, every part nullable; None for a type that the fast parser does not support."""
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, StructType):
        types = [arrow_type(field.dataType) for field in data_type]
        if None in types:
            return None
        return pa.struct([pa.field(f.name, t) for f, t in zip(data_type, types, strict=True)])
    if isinstance(data_type, ArrayType):
        element = arrow_type(data_type.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(data_type, MapType):
        key, value = arrow_type(data_type.keyType), arrow_type(data_type.valueType)
        known = key == pa.string() and value is not None
        return pa.map_(key, pa.field("value", value)) if known else None
    return _FIXED.get(type(data_type))


def reading_type(data_type: DataType, styles: Mapping[str, str], path: str) -> pa.DataType:
    """The type that the JSON reader gets. It is wide, so that a value out of range is found in its row."""
    if isinstance(data_type, StructType):
        return pa.struct([(f.name, reading_type(f.dataType, styles, f"{path}.{f.name}")) for f in data_type])
    if isinstance(data_type, ArrayType):
        return pa.list_(reading_type(data_type.elementType, styles, f"{path}[]"))
    if isinstance(data_type, MapType):
        value = reading_type(data_type.valueType, styles, f"{path}{{}}")
        return pa.map_(pa.string(), value)
    if type(data_type) in INTEGERS:
        return pa.int64()
    if isinstance(data_type, DecimalType):
        return _decimal_reading_type(data_type, styles.get(path))
    if isinstance(data_type, TimestampType):
        return pa.int64() if styles.get(path) == NUMBER else pa.string()
    if isinstance(data_type, BooleanType | FloatType | DoubleType):
        return _FIXED[type(data_type)]
    return pa.string()


def _decimal_reading_type(data_type: DecimalType, style: str | None) -> pa.DataType:
    if style == DIGITS:
        return pa.decimal256(76, data_type.scale)
    return pa.string() if style == TEXT else pa.float64()


def read_by_digits(data_type: DataType, path: str) -> Iterator[str]:
    """The paths of decimals with more digits than a double can represent."""
    if isinstance(data_type, StructType):
        for field in data_type:
            yield from read_by_digits(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(data_type, ArrayType):
        yield from read_by_digits(data_type.elementType, f"{path}[]")
    elif isinstance(data_type, DecimalType) and data_type.scale > _SCALE_OF_DOUBLES:
        yield path


def convert(values: pa.Array, data_type: DataType) -> ConvertedColumn:
    """Values of the `reading_type` in the `arrow_type`. A row is doubtful unless it is certain that Spark gives the
    same value."""
    if not len(values):
        return ConvertedColumn(pa.array([], _arrow(data_type)))
    if isinstance(data_type, StructType):
        return _struct(values, data_type)
    if isinstance(data_type, ArrayType):
        return _list(values, data_type)
    if isinstance(data_type, MapType):
        return _map(values, data_type)
    if type(data_type) in INTEGERS:
        return integers(values, INTEGERS[type(data_type)])
    if isinstance(data_type, DecimalType):
        return decimals(values, data_type)
    convert_leaf = _LEAVES.get(type(data_type))
    return ConvertedColumn(values) if convert_leaf is None else convert_leaf(values)


def _struct(values: pa.Array, data_type: StructType) -> ConvertedColumn:
    children, doubtful, underflowed, missing = [], set[int](), set[int](), list[Missing]()
    is_null = _nulls(values)
    for field, child in zip(data_type, values.flatten(), strict=True):
        converted = convert(child, field.dataType)
        children.append(converted.values)
        doubtful |= converted.doubtful
        underflowed |= converted.underflowed
        missing += (Missing(f".{one.path}", one.rows) for one in missing_in(field, converted, is_null))
    fields = list(_arrow(data_type))
    made = pa.StructArray.from_arrays(children, fields=fields, mask=is_null) if fields else values
    return ConvertedColumn(made, frozenset(doubtful), frozenset(underflowed), missing)


def _list(values: pa.Array, data_type: ArrayType) -> ConvertedColumn:
    elements = convert(values.values, data_type.elementType)
    made = pa.ListArray.from_arrays(values.offsets, elements.values, type=_arrow(data_type), mask=_nulls(values))
    return _of_parents(made, values.offsets, elements, "[]")


def _map(values: pa.Array, data_type: MapType) -> ConvertedColumn:
    items = convert(values.items, data_type.valueType)
    made = pa.MapArray.from_arrays(
        values.offsets, values.keys, items.values, type=_arrow(data_type), mask=_nulls(values)
    )
    return _of_parents(made, values.offsets, items, "{}")


def _of_parents(made: pa.Array, offsets: pa.Array, elements: ConvertedColumn, mark: str) -> ConvertedColumn:
    """What is known of the elements, by the rows that contain them."""
    return ConvertedColumn(
        made,
        _parents(offsets, elements.doubtful),
        _parents(offsets, elements.underflowed),
        [Missing(mark + one.path, _parents(offsets, one.rows)) for one in elements.missing],
    )


def _nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _parents(offsets: pa.Array, elements: frozenset[int]) -> frozenset[int]:
    """The rows that contain these elements."""
    if not elements:
        return frozenset()
    starts = offsets.to_pylist()
    return frozenset(
        row for row in range(len(starts) - 1) if any(at in elements for at in range(starts[row], starts[row + 1]))
    )


def _arrow(data_type: DataType) -> Any:
    return arrow_type(data_type)


def _binary(values: pa.Array) -> ConvertedColumn:
    return convert_one_by_one(values, pa.binary(), _unbase64)


def _unbase64(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


_LEAVES: Mapping[type[DataType], Callable[[pa.Array], ConvertedColumn]] = {
    FloatType: floats,
    DoubleType: floats,
    DateType: dates,
    TimestampType: timestamps,
    TimestampNTZType: timestamps_ntz,
    BinaryType: _binary,
}
