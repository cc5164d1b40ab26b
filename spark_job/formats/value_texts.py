"""Values of typed files as text, for a column STRING: as Spark's cast writes them in UTC."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_job.expressions.calendar import day_texts, moment_texts
from spark_job.formats.odd_data import json_text
from spark_job.formats.python_values import json_values

_LEAST_PLAIN, _FIRST_SCIENTIFIC = -3, 7
"""Powers of ten between which Java writes a number without an exponent."""


def texts_of(values: pa.Array) -> pa.Array:
    """`values`: of a `plain_type` that is neither text nor bytes; times within the years 1 to 9999, in microseconds.
    What is nested becomes JSON text, as in `_rescued`."""
    types, kind = pa.types, values.type
    if types.is_date(kind):
        return day_texts(values.cast(pa.date32()))
    if types.is_timestamp(kind):
        return moment_texts(values.view(pa.timestamp("us")))
    if types.is_floating(kind):
        wide = values.cast(pa.float32()) if types.is_float16(kind) else values
        return _each(wide.cast(pa.string()), _double_text)
    if types.is_decimal(kind):
        return _each(values, lambda value: f"{value:f}")
    if types.is_nested(kind):
        found = json_values(pa.chunked_array([values]))
        return pa.array([None if value is None else json_text(value) for value in found], pa.string())
    return values.cast(pa.string())


def _each(values: pa.Array, text_of: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else text_of(value) for value in values.to_pylist()], pa.string())


def _double_text(shortest: str) -> str:
    """As Java writes it. `shortest`: the fewest digits that tell the number from others of its type."""
    if not math.isfinite(float(shortest)):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[shortest.removeprefix("-nan") or "nan"]
    number = Decimal(shortest)
    sign, digits, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    minus, shown = "-" * sign, "".join(map(str, digits))
    if not number:
        return f"{minus}0.0"
    power = exponent + len(shown) - 1
    if not _LEAST_PLAIN <= power < _FIRST_SCIENTIFIC:
        return f"{minus}{shown[0]}.{shown[1:] or '0'}E{power}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{shown}"
    whole = shown[: power + 1].ljust(power + 1, "0")
    return f"{minus}{whole}.{shown[power + 1 :] or '0'}"
