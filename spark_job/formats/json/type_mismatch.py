"""Values that Spark is certain to refuse, so that their records become dead letters without it."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
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

from spark_job.formats.json.line_objects import TypeMismatch, parse_unique_keys
from spark_job.formats.nested_columns import INTEGERS
from spark_job.formats.refusals import does_not_fit

_SAFE_FLOAT = 1e38
"""Below this any FLOAT is finite."""


def type_mismatch(line: bytes, schema: StructType) -> str | None:
    """Why Spark would refuse this line, a JSON object: the first column whose value does not fit. None if Spark might
    accept it, or if it is not certain that the columns before that one fit."""
    try:
        record = parse_unique_keys(line)
    except (TypeMismatch, orjson.JSONDecodeError):
        return None
    for field in schema:
        value = record.get(field.name)
        matches = value is None or _matches(value, field.dataType)
        if matches is None:
            return None
        if not matches:
            return does_not_fit(field.name, field.dataType)
    return None


def _matches(value: Any, data_type: DataType) -> bool | None:
    """Whether Spark accepts the value for the type; None if only Spark can tell."""
    if isinstance(data_type, StructType | ArrayType | MapType):
        return _nested_matches(value, data_type)
    check = _CERTAIN_CHECKS.get(type(data_type))
    if check is not None:
        return check(value)
    arrow_integer = INTEGERS.get(type(data_type))
    return None if arrow_integer is None else _is_integer(value, arrow_integer.bit_width)


def _nested_matches(value: Any, data_type: StructType | ArrayType | MapType) -> bool | None:
    if isinstance(data_type, StructType) and isinstance(value, dict):
        parts = [(value.get(field.name), field.dataType) for field in data_type]
    elif isinstance(data_type, MapType) and isinstance(value, dict):
        parts = [(element, data_type.valueType) for element in value.values()]
    elif isinstance(data_type, ArrayType) and isinstance(value, list):
        parts = [(element, data_type.elementType) for element in value]
    else:
        return None if isinstance(value, dict | list) or value == "" else False
    found = [_matches(part, kind) for part, kind in parts if part is not None]
    return None if None in found and False not in found else all(found)


def _is_integer(value: Any, bits: int) -> bool | None:
    if isinstance(value, str | bool | float):
        return False
    return _is_within(value, bits) if isinstance(value, int) else None


def _is_within(value: int, bits: int) -> bool:
    return -(1 << bits - 1) <= value < 1 << bits - 1


def _is_tiny(value: Any) -> bool | None:
    """Spark reads it as a SMALLINT; its range is checked once all other columns fit."""
    is_small = _is_integer(value, 16)
    return is_small if not is_small or _is_within(value, 8) else None


def _is_boolean(value: Any) -> bool | None:
    return isinstance(value, bool) if isinstance(value, str | bool | int | float) else None


def _is_number(value: Any) -> bool | None:
    """Spark accepts strings for NaN and infinity, in several spellings."""
    if isinstance(value, str):
        return None if "N" in value or "I" in value else False
    if isinstance(value, bool):
        return False
    return True if isinstance(value, int | float) and abs(value) < _SAFE_FLOAT else None


def _has_digits(value: Any) -> bool | None:
    """Without a digit there is neither a number nor a moment."""
    if isinstance(value, bool):
        return False
    return None if not isinstance(value, str) or value == "" or any(map(str.isdigit, value)) else False


def _is_text(value: Any) -> bool | None:
    return True if isinstance(value, str) else None


_CERTAIN_CHECKS: Mapping[type[DataType], Callable[[Any], bool | None]] = {
    ByteType: _is_tiny,
    **dict.fromkeys((DateType, DecimalType, TimestampType, TimestampNTZType), _has_digits),
    BooleanType: _is_boolean,
    DoubleType: _is_number,
    FloatType: _is_number,
    StringType: _is_text,
}
