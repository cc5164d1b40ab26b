"""A pattern for lines in which a value has another type than its column."""

import re
from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    StructType,
    TimestampType,
)

from spark_job.formats.json.convert import DIGITS, NUMBER, TEXT
from spark_job.formats.nested_columns import INTEGERS

_PLAIN_NAME = re.compile(r"[^\"\\\x00-\x1f]+")
TWO_OBJECTS = r"\}[ \t\r]*\{"
_NOT_TEXT = r"[-0-9tf{\[NI]"
_NOT_INTEGER = r"[\"tf{\[NI]|-?[0-9]+[.eE]|-?[0-9]{20}"
_NOT_DIGITS = r"[tf{\[NI]"
_NOT_NUMBER = r"[\"tf{\[]"
_NOT_BOOLEAN = r"[-\"0-9{\[NI]"
_NOT_STRUCT = r"[-\"0-9tf\[NI]"
_NOT_ARRAY = r"[-\"0-9tf{NI]"
_INTEGER_TYPES = tuple(INTEGERS)


def other_type_pattern(schema: StructType, styles: Mapping[str, str]) -> str:
    """A regular expression that finds lines which may have a value of another type than its column. It may find others,
    too."""
    kinds: dict[str, set[str]] = {}
    for name, kind in _column_patterns(schema, styles, ""):
        kinds.setdefault(name, set()).add(kind)
    by_kind: dict[str, list[str]] = {}
    for name, found in kinds.items():
        if len(found) == 1 and _PLAIN_NAME.fullmatch(name):
            by_kind.setdefault(found.pop(), []).append(re.escape(name))
    values = (f'"(?:{"|".join(names)})"[ \\t\\r]*:[ \\t\\r]*(?:{kind})' for kind, names in by_kind.items())
    return "|".join(values)


def _column_patterns(schema: StructType, styles: Mapping[str, str], prefix: str) -> "list[tuple[str, str]]":
    found: list[tuple[str, str]] = []
    for column in schema:
        path = f"{prefix}{column.name}"
        found.append((column.name, _other_type(column.dataType, styles.get(path))))
        inner, inner_path = column.dataType, path
        while isinstance(inner, ArrayType):
            inner, inner_path = inner.elementType, f"{inner_path}[]"
        if isinstance(inner, StructType):
            found += _column_patterns(inner, styles, f"{inner_path}.")
    return found


def _other_type(data_type: DataType, style: str | None) -> str:
    """How a value of any other type begins."""
    if isinstance(data_type, DecimalType) and style == DIGITS:
        return _NOT_DIGITS + rf"|\"?[-+]?[0-9]*\.[0-9]{{{data_type.scale + 1}}}"
    if isinstance(data_type, StructType):
        return _NOT_STRUCT
    if isinstance(data_type, ArrayType):
        return _NOT_ARRAY
    if isinstance(data_type, BooleanType):
        return _NOT_BOOLEAN
    if isinstance(data_type, _INTEGER_TYPES) or (isinstance(data_type, TimestampType) and style == NUMBER):
        return _NOT_INTEGER
    if isinstance(data_type, DoubleType | FloatType) or (isinstance(data_type, DecimalType) and style != TEXT):
        return _NOT_NUMBER
    return _NOT_TEXT
