"""JSON objects as Python objects that keep how their numbers are written, and back."""

import json
from typing import Any

import orjson

from spark_job.formats.odd_data import NotFinite, NumberText

_EXACT = json.JSONDecoder(parse_float=NumberText, parse_int=NumberText, parse_constant=NotFinite)


def quick_record(line: bytes) -> dict[str, Any] | None:
    """The object of a line, with numbers as Python has them. None: it is none, not even for Spark."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        if b"N" not in line and b"I" not in line:
            return None
        record = exact_record(line)
    return record if isinstance(record, dict) else None


def exact_record(line: bytes) -> dict[str, Any] | None:
    """With every number as `NumberText`. Of a key that occurs twice it has the last value."""
    try:
        record = _EXACT.decode(line.decode())
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def is_exact(value: Any) -> bool:
    """Whether `quick_record` has read each number of a value as it is written. It reads fractions, exponents and more
    than 64 bits as floats."""
    if isinstance(value, dict):
        return all(map(is_exact, value.values()))
    if isinstance(value, list):
        return all(map(is_exact, value))
    return type(value) is not float


def line_of(record: dict[str, Any]) -> bytes | None:
    """The record as a line again. None: it has more levels than can be written."""
    try:
        return orjson.dumps(record, default=_as_written, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except orjson.JSONEncodeError:
        return None


def _as_written(value: object) -> object:
    assert isinstance(value, NumberText)
    return orjson.Fragment(value.encode())
