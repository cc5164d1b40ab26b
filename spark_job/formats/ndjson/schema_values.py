"""The values of a JSON object that a schema asks for, as they are written, wherever they are in it."""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


class Number(str):
    """As it is written."""

    __slots__ = ()


def leaves(line: bytes, schema: StructType) -> Iterator[tuple[str, Any, DataType]]:
    """Path, value and type of what a column asks for that is no struct, array or map; the value may be of any kind.
    Of a key that is there twice both: Spark reads the first one, too. Raises RecursionError."""
    record = json.loads(line, parse_float=Number, parse_int=Number, object_pairs_hook=lambda pairs: pairs)
    return _leaves(record, schema, "")


def _leaves(value: Any, data_type: DataType, path: str) -> Iterator[tuple[str, Any, DataType]]:
    if isinstance(data_type, ArrayType):
        for element in value if isinstance(value, list) else ():
            yield from _leaves(element, data_type.elementType, f"{path}[]")
    elif isinstance(data_type, StructType | MapType):
        for name, inner in value if _are_pairs(value) else ():
            if isinstance(data_type, MapType):
                yield from _leaves(inner, data_type.valueType, f"{path}{{}}")
            elif name in data_type.names:
                yield from _leaves(inner, data_type[name].dataType, f"{path}.{name}" if path else name)
    else:
        yield path, value, data_type


def _are_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(pair, tuple) for pair in value)


def holds(data_type: DataType, kind: type[DataType]) -> bool:
    """Also inside structs, arrays and maps."""
    if isinstance(data_type, StructType):
        return any(holds(field.dataType, kind) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return holds(data_type.elementType, kind)
    if isinstance(data_type, MapType):
        return holds(data_type.valueType, kind)
    return isinstance(data_type, kind)
