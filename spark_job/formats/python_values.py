"""Values of Arrow as Python objects that JSON can show."""

import base64
from typing import Any

import pyarrow as pa


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


def _utf8_or_base64(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def with_texts(value: Any) -> Any:
    """With text in place of all bytes."""
    match value:
        case bytes():
            return _utf8_or_base64(value)
        case dict():
            return {key: with_texts(inner) for key, inner in value.items()}
        case list():
            return [with_texts(inner) for inner in value]
    return value
