"""Why a line is not one JSON object."""

import json
from typing import Any

import orjson


def refusal(line: str) -> str | None:
    """Why a line is no JSON object, None when it is one. Exactly one value a line: Spark's parser ignores what follows
    the first."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _second_opinion(line, error)
    return None if isinstance(value, dict) else f"expected a JSON object, found {_kind(value)}"


def _second_opinion(line: str, error: ValueError) -> str | None:
    """NaN and Infinity are no JSON, but many programs write them and Spark reads them as DOUBLE."""
    try:
        value = json.loads(line, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "not JSON: a lone surrogate, which no UTF-8 text can hold"
    except (ValueError, RecursionError):
        return f"not JSON: {error}"
    return None if isinstance(value, dict) else f"expected a JSON object, found {_kind(value)}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises UnicodeEncodeError for what UTF-8 cannot hold in the first values of keys that are there twice: in a MAP
    Spark keeps them."""
    found = dict(pairs)
    if len(found) < len(pairs):
        json.dumps(pairs, ensure_ascii=False).encode()
    return found


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
