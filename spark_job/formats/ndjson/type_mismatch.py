"""Values that no parser of Spark's would take: their records are dead without asking it."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    StringType,
    StructType,
)

from spark_job.formats.ndjson.convert import INTEGERS
from spark_job.formats.ndjson.line_objects import Misfit, without_doubles
from spark_job.formats.ndjson.schema_fit import does_not_fit

_SAFE_FLOAT = 1e38
"""Below this any FLOAT is finite."""


def type_mismatch(line: bytes, schema: StructType) -> str | None:
    """Why Spark would refuse this line, a JSON object, in Spark's own words: the first column whose value does not fit.
    None where it might not, or where an earlier column is not sure to fit."""
    try:
        record = without_doubles(line)
    except (Misfit, orjson.JSONDecodeError):
        return None
    for field in schema:
        value = record.get(field.name)
        fits = value is None or _fits(value, field.dataType)
        if fits is None:
            return None
        if not fits:
            return does_not_fit(field.name, field.dataType)
    return None


def _fits(value: Any, data_type: DataType) -> bool | None:
    """None where that is for Spark to say."""
    decide = _SURE.get(type(data_type))
    if decide is not None:
        return decide(value)
    whole = INTEGERS.get(type(data_type))
    return None if whole is None else _is_whole(value, whole.bit_width)


def _is_whole(value: Any, bits: int) -> bool | None:
    if isinstance(value, str | bool | float):
        return False
    return _is_within(value, bits) if isinstance(value, int) else None


def _is_within(value: int, bits: int) -> bool:
    return -(1 << bits - 1) <= value < 1 << bits - 1


def _is_tiny(value: Any) -> bool | None:
    """Spark reads it as a SMALLINT, and its range is looked at when all other columns are found to fit."""
    fits = _is_whole(value, 16)
    return fits if not fits or _is_within(value, 8) else None


def _is_boolean(value: Any) -> bool | None:
    return isinstance(value, bool) if isinstance(value, str | bool | int | float) else None


def _is_number(value: Any) -> bool | None:
    """Of texts, Spark takes NaN and infinity in several spellings."""
    if isinstance(value, str):
        return None if "N" in value or "I" in value else False
    if isinstance(value, bool):
        return False
    return True if isinstance(value, int | float) and abs(value) < _SAFE_FLOAT else None


def _is_text(value: Any) -> bool | None:
    return True if isinstance(value, str) else None


_SURE: Mapping[type[DataType], Callable[[Any], bool | None]] = {
    ByteType: _is_tiny,
    BooleanType: _is_boolean,
    DoubleType: _is_number,
    FloatType: _is_number,
    StringType: _is_text,
}
