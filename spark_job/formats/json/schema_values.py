"""The values of a JSON object that belong to columns of a schema, at any depth, as they are written."""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


class NumberText(str):
    """A number as the line writes it."""

    __slots__ = ()


def schema_leaves(line: bytes, schema: StructType) -> Iterator[tuple[str, Any, DataType]]:
    """Path, value and type of each column that is not a struct, array or map. The value may be of any JSON type. Both
    values of a duplicate key are returned, since Spark reads the first one, too. Raises RecursionError."""
    record = json.loads(line, parse_float=NumberText, parse_int=NumberText, object_pairs_hook=lambda pairs: pairs)
    return _schema_leaves(record, schema, "")


def _schema_leaves(value: Any, data_type: DataType, path: str) -> Iterator[tuple[str, Any, DataType]]:
    if isinstance(data_type, ArrayType):
        for element in value if isinstance(value, list) else ():
            yield from _schema_leaves(element, data_type.elementType, f"{path}[]")
    elif isinstance(data_type, StructType | MapType):
        for name, inner in value if _are_pairs(value) else ():
            if isinstance(data_type, MapType):
                yield from _schema_leaves(inner, data_type.valueType, f"{path}{{}}")
            elif name in data_type.names:
                yield from _schema_leaves(inner, data_type[name].dataType, f"{path}.{name}" if path else name)
    else:
        yield path, value, data_type


def _are_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(pair, tuple) for pair in value)


def contains_type(data_type: DataType, kind: type[DataType]) -> bool:
    """Whether the type contains one of this `kind`, also inside structs, arrays and maps."""
    if isinstance(data_type, StructType):
        return any(contains_type(field.dataType, kind) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return contains_type(data_type.elementType, kind)
    if isinstance(data_type, MapType):
        return contains_type(data_type.valueType, kind)
    return isinstance(data_type, kind)
