"""Typed access to JSON values from storage. Each function returns the value, or raises TypeError or ValueError."""

import math
from typing import Any

MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""The exceptions that decoding a malformed document can raise."""
MAX_INTEGER = 2**63 - 1
"""The limit of Arrow's integers and of the numbers in segment names."""


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r:.80}")
    if not value.isascii():
        value.encode()  # JSON allows a lone surrogate, but no UTF-8 text can contain one
    return value


def optional_text(value: object) -> str | None:
    return None if value is None else text(value)


def integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected a whole number, found {value!r:.80}")
    if abs(value) > MAX_INTEGER:
        raise ValueError(f"expected at most {MAX_INTEGER}, found {value:.3g}")
    return value


def natural(value: object) -> int:
    number = integer(value)
    if number < 0:
        raise ValueError(f"expected a whole number, 0 or greater, found {number}")
    return number


def number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r:.80}")
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, found {value!r:.80}")
    return float(value)


def optional_number(value: object) -> float | None:
    return None if value is None else number(value)


def array(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r:.80}")
    return value


def mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {value!r:.80}")
    return value


def texts(values: list[Any]) -> list[str]:
    """All of them texts: much quicker than one by one."""
    return values if _are(values, {str}) and "".join(values).isascii() else [*map(text, values)]


def naturals(values: list[Any]) -> list[int]:
    if _are(values, {int}) and min(values) >= 0 and max(values) <= MAX_INTEGER:
        return values
    return [*map(natural, values)]


def numbers(values: list[Any]) -> list[float]:
    return values if _are(values, {float}) and all(map(math.isfinite, values)) else [*map(number, values)]


def _are(values: list[Any], types: set[type]) -> bool:
    return {*map(type, values)} == types
