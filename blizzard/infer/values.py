"""The type of one value, as a JSON parser, or a reader of typed records, returns it."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import Any

from blizzard.config.ddl import MAX_DEPTH, Array, Column, Decimal, Struct, Type
from blizzard.infer.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    MAX_DIGITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    merge_all,
)

_BIGINT_END = 1 << 63
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.[0-9]{1,9})?"
    r"(Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])?"
)
"""The forms of a time that the reader of JSON reads fast, and that Spark reads in the same way."""


def json_text_type(text: str) -> Type:
    """DATE, TIMESTAMP or STRING. A TIMESTAMP without a zone is in UTC, as the reader takes it."""
    if len(text) < 10 or text[4] != "-":
        return STRING
    if _DAY.fullmatch(text) is not None:
        return DATE if _exists(text, "00:00:00", "Z") else STRING
    found = _TIME.fullmatch(text)
    if found is None:
        return STRING
    day, time, zone = found.groups()
    return TIMESTAMP if _exists(day, time, zone or "Z") else STRING


def _exists(day: str, time: str, zone: str) -> bool:
    """Whether this moment lies in the years 1 to 9999, also in UTC."""
    try:
        datetime.fromisoformat(f"{day}T{time}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


def type_of(value: Any, *, depth: int = 0, text: Callable[[str], Type] = json_text_type) -> Type:
    """`value`: None, bool, int, float, Decimal, str, bytes, date, datetime, or a list or mapping of these. Text is a
    DATE or a TIMESTAMP if it is written as ISO 8601 says. What lies deeper than a schema may nest, counted from
    `depth`, is text. `text`: the type of a text. Raises TypeError for anything else."""
    match value:
        case None:
            return VOID
        case bool():
            return BOOLEAN
        case int():
            return _whole_number(value)
        case float():
            return DOUBLE
        case str():
            return text(value)
        case Mapping() | list():
            return STRING if depth > MAX_DEPTH else _nested(value, depth + 1, text)
    return _typed_value(value)


def _nested(value: Mapping[str, Any] | list[Any], depth: int, text: Callable[[str], Type]) -> Type:
    def inner(held: Any) -> Type:
        return type_of(held, depth=depth, text=text)

    if isinstance(value, list):
        return Array(merge_all(map(inner, value)))
    return Struct(tuple(Column(name, inner(held), nullable=held is None) for name, held in value.items()))


def _typed_value(value: Any) -> Type:
    match value:
        case Number():
            return _decimal(value)
        case datetime():
            return TIMESTAMP_NTZ if value.tzinfo is None else TIMESTAMP
        case date():
            return DATE
        case bytes():
            return BINARY
    raise TypeError(f"found a value of {type(value).__name__}, expected one that JSON, Avro or Parquet can hold")


def _whole_number(value: int) -> Type:
    if -_BIGINT_END <= value < _BIGINT_END:
        return BIGINT
    # Python refuses to print numbers of thousands of digits.
    return Decimal(len(str(abs(value))), 0) if abs(value) < 10**MAX_DIGITS else DOUBLE


def _decimal(value: Number) -> Type:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN or an infinity
        return DOUBLE
    scale = max(-exponent, 0)
    whole = max(len(digits) + exponent, 0) if any(digits) else 0
    return Decimal(max(whole + scale, 1), scale) if whole + scale <= MAX_DIGITS else DOUBLE
