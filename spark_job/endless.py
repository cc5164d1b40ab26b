"""Numbers that keep Spark busy for many minutes: where a DECIMAL is asked for, an exponent like that of 1e-2147483."""

import json
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

_HUGE = re.compile(r"[eE][-+]?0*[1-9][0-9]{4}")
_MAYBE = re.compile(_HUGE.pattern.encode())


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def holds_decimal(data_type: DataType) -> bool:
    """Also inside structs, arrays and maps."""
    if isinstance(data_type, StructType):
        return any(holds_decimal(field.dataType) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return holds_decimal(data_type.elementType)
    if isinstance(data_type, MapType):
        return holds_decimal(data_type.valueType)
    return isinstance(data_type, DecimalType)


def endless(line: bytes, schema: StructType) -> str | None:
    """Why Spark must not be asked about this line, which is a JSON object; None for any other."""
    if _MAYBE.search(line) is None:
        return None
    try:
        # A key that is there twice keeps both values: Spark reads the first one, too.
        record = json.loads(line, parse_float=_Number, object_pairs_hook=lambda pairs: pairs)
        found = next(_huge(record, schema, ""), None)
    except RecursionError:
        return "too many levels to see whether a DECIMAL has an exponent of five digits or more"
    return found and f"{found}: an exponent of five digits or more cannot be read as DECIMAL in bounded time"


def _huge(value: Any, data_type: DataType, path: str) -> Iterator[str]:
    if isinstance(data_type, DecimalType):
        if isinstance(value, str) and _HUGE.search(value):
            yield path
    elif isinstance(data_type, ArrayType) and isinstance(value, list):
        for element in value:
            yield from _huge(element, data_type.elementType, f"{path}[]")
    elif isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        for name, inner in value:
            if isinstance(data_type, MapType):
                yield from _huge(inner, data_type.valueType, f"{path}{{}}")
            elif isinstance(data_type, StructType) and name in data_type.names:
                yield from _huge(inner, data_type[name].dataType, f"{path}.{name}" if path else name)
