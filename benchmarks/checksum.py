"""A sum over a column, in whatever order its values are, the same of Python's values and of Arrow's: of texts that of
their bytes in UTF-8, of floating point that of millionths; a null adds nothing. It tells of values that are missing,
doubled or of a wrong column or unit, not of two rows that have changed values."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MILLION = 1e6


def of_value(value: Any) -> int:
    """Of a text, a number, or None."""
    if isinstance(value, str):
        return sum(value.encode())
    if isinstance(value, float):
        return round(value * MILLION)
    return value or 0


def of_array(values: pa.Array) -> int:
    """Of texts or numbers."""
    if pa.types.is_floating(values.type):
        values = pc.round(pc.multiply(values, MILLION)).cast(pa.int64())
    elif not pa.types.is_integer(values.type):
        values = _bytes_of(values.cast(pa.large_string()))
    return pc.sum(values).as_py() or 0


def _bytes_of(texts: pa.LargeStringArray) -> pa.UInt8Array:
    _, ends, data = texts.buffers()
    if not len(texts) or data is None:
        return pa.array([], pa.uint8())
    edges = pa.Array.from_buffers(pa.int64(), len(texts) + 1, [None, ends], offset=texts.offset)
    first, last = edges[0].as_py(), edges[-1].as_py()
    return pa.Array.from_buffers(pa.uint8(), last - first, [None, data], offset=first)


def add(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
