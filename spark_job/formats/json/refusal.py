"""Why a line is not one JSON object."""

import json
from typing import Any

import orjson


def refusal(line: str) -> str | None:
    """Why a line is not exactly one JSON object; None if it is. Spark's own parser ignores what follows the first
    value."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _reason_by_json_module(line, error)
    return None if isinstance(value, dict) else f"expected a JSON object, found {_kind(value)}"


def _reason_by_json_module(line: str, error: ValueError) -> str | None:
    """NaN and Infinity are not JSON, but many programs write them and Spark reads them as DOUBLE."""
    try:
        value = json.loads(line, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "not JSON: a lone surrogate, which no UTF-8 text can hold"
    except (ValueError, RecursionError):
        return f"not JSON: {error}"
    return None if isinstance(value, dict) else f"expected a JSON object, found {_kind(value)}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises UnicodeEncodeError if the first value of a duplicate key cannot be encoded: in a MAP Spark keeps it."""
    found = dict(pairs)
    if len(found) < len(pairs):
        json.dumps(pairs, ensure_ascii=False).encode()
    return found


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
