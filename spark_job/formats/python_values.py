"""Values of Arrow as Python objects that JSON can show."""

import base64
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_job.formats.nested_columns import compact, nulls


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """As Python objects, or as text where Python has no object for the value."""
    kind = column.type
    if pa.types.is_string(kind):
        column = column.cast(pa.binary())
    elif pa.types.is_timestamp(kind):
        column = pa.chunked_array([chunk.view(pa.timestamp(kind.unit)).cast(pa.string()) for chunk in column.chunks])
    elif pa.types.is_date(kind):
        column = column.cast(pa.string())
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):
        return [f"{scalar.type} that has no text" for scalar in column]
    return [_utf8_or_base64(value) if isinstance(value, bytes) else value for value in values]


def json_values(column: pa.ChunkedArray) -> list[Any]:
    """As JSON can have them, at any depth: bytes are text or Base64, times and what is no finite number are text. A map
    is an object if its keys are texts or whole numbers, and differ; else a list of pairs."""
    chunks = map(_readable, column.chunks)
    return [_of_json(value, chunk.type) for chunk in chunks for value in chunk.to_pylist()]


def _of_json(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _of_json(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_of_json(element, kind.value_type) for element in value]
    if pa.types.is_map(kind):
        pairs = [(_of_json(key, kind.key_type), _of_json(held, kind.item_type)) for key, held in value]
        keys = [key for key, _ in pairs if isinstance(key, str | int)]
        return dict(pairs) if len({*keys}) == len(pairs) else pairs
    return shown(value)


def _readable(values: pa.Array) -> pa.Array:
    """Of types for which Python has an object for each value. `values`: of a `plain_type`."""
    kind, types = values.type, pa.types
    if types.is_struct(kind):
        children = [_readable(child) for child in values.flatten()]
        return pa.StructArray.from_arrays(children, names=[field.name for field in kind], mask=nulls(values))
    if types.is_list(kind):
        values = compact(values)
        return pa.ListArray.from_arrays(values.offsets, _readable(values.values), mask=nulls(values))
    if types.is_map(kind):
        values = compact(values)
        keys, items = _readable(values.keys), _readable(values.items)
        return pa.MapArray.from_arrays(values.offsets, keys, items, mask=nulls(values))
    if types.is_string(kind):
        return values.view(pa.binary())  # it may not be UTF-8
    if types.is_timestamp(kind):
        text = values.view(pa.timestamp(kind.unit)).cast(pa.string())
        return text if kind.tz is None else pc.binary_join_element_wise(text, "Z", "")
    if types.is_temporal(kind):
        return values.cast(pa.string())
    return values


def shown(value: Any) -> Any:
    """A Python object as JSON can have it."""
    match value:
        case bytes():
            return _utf8_or_base64(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {key: shown(inner) for key, inner in value.items()}
        case list():
            return [shown(inner) for inner in value]
    return value


def _utf8_or_base64(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
