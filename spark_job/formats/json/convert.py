"""Converts what the JSON reader returns to a schema's Arrow types: the value that Spark would give, or a doubtful
row."""

import binascii
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_job.formats.convert_times import dates, timestamps, timestamps_ntz
from spark_job.formats.converted_column import ConvertedColumn, convert_one_by_one
from spark_job.formats.json.convert_numbers import decimals, floats, integers
from spark_job.formats.nested_columns import INTEGERS, LEAF_TYPES, column_type, convert_nested

NUMBER, TEXT, DIGITS = "number", "text", "digits"
"""The style of a decimal or timestamp, which files write as a number or as text. DIGITS: a decimal that is parsed digit
by digit in either style, because a double has too few digits for it."""

_SCALE_OF_DOUBLES = 8


def arrow_type(data_type: DataType) -> pa.DataType | None:
    """The Arrow type of a column, every part nullable; None for a type that the fast parser does not support."""
    return column_type(data_type) if _is_supported(data_type) else None


def _is_supported(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return all(_is_supported(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return _is_supported(data_type.elementType)
    if isinstance(data_type, MapType):
        return isinstance(data_type.keyType, StringType) and _is_supported(data_type.valueType)
    return isinstance(data_type, DecimalType) or type(data_type) in LEAF_TYPES


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
        return LEAF_TYPES[type(data_type)]
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
    return convert_nested(values, data_type, _leaf)


def _leaf(values: pa.Array, data_type: DataType) -> ConvertedColumn:
    if type(data_type) in INTEGERS:
        return integers(values, INTEGERS[type(data_type)])
    if isinstance(data_type, DecimalType):
        return decimals(values, data_type)
    convert_leaf = _LEAVES.get(type(data_type))
    return ConvertedColumn(values) if convert_leaf is None else convert_leaf(values)


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
