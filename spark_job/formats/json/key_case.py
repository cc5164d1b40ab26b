"""Keys of JSON objects that differ from a column in case only."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


class KeyCase:
    """Gives the keys of objects the spelling of their columns. A key that is spelled like the column wins, else the
    first one; the others keep their spelling, and no column is for them."""

    def __init__(self, schema: StructType) -> None:
        self._record = _Struct(schema)

    def respell(self, record: dict[str, Any]) -> bool:
        """In place. Returns whether a key has changed."""
        return self._record.respell(record)


class _Struct:
    def __init__(self, schema: StructType) -> None:
        self._names: Mapping[str, str] = {name.lower(): name for name in schema.names}
        self._spelled = frozenset(schema.names)
        parts = ((one.name, _part(one.dataType)) for one in schema)
        self._parts = [(name, part) for name, part in parts if part is not None]

    def respell(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        changed = False
        for key in [key for key in value if key not in self._spelled]:
            name = self._names.get(key.lower())
            if name is not None and name not in value:
                value[name] = value.pop(key)
                changed = True
        for name, part in self._parts:
            changed = part.respell(value.get(name)) or changed
        return changed


class _Elements:
    def __init__(self, part: "_Struct | _Elements", *, of_map: bool) -> None:
        self._part = part
        self._kind = dict if of_map else list

    def respell(self, value: Any) -> bool:
        if not isinstance(value, self._kind):
            return False
        elements = value.values() if isinstance(value, dict) else value
        changed = [self._part.respell(element) for element in elements]
        return any(changed)


def _part(data_type: DataType) -> "_Struct | _Elements | None":
    if isinstance(data_type, StructType):
        return _Struct(data_type)
    if isinstance(data_type, ArrayType | MapType):
        of_map = isinstance(data_type, MapType)
        part = _part(data_type.valueType if isinstance(data_type, MapType) else data_type.elementType)
        return None if part is None else _Elements(part, of_map=of_map)
    return None
