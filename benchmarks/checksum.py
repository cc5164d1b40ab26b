"""Checksum of a column, independent of the order of its values; Python values and Arrow arrays give the same.

It is the sum of the values: for strings of their UTF-8 bytes, for floats in millionths, for structs and lists of all
that is in them; a null adds nothing. It detects values that are missing, duplicated, or of a wrong column or unit. It
does not detect two rows, or two fields of a struct, that swapped values."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MILLION = 1e6


def of_value(value: Any) -> int:
    if isinstance(value, str):
        return sum(value.encode())
    if isinstance(value, float):
        return round(value * MILLION)
    if isinstance(value, dict | list):
        return sum(map(of_value, value.values() if isinstance(value, dict) else value))
    return value or 0


def of_array(values: pa.Array) -> int:
    if pa.types.is_struct(values.type):
        return sum(map(of_array, values.flatten()))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return of_array(values.flatten())
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
