"""Keys of JSON objects that differ from a column in case only."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from spark_job.formats.struct_parts import parts_of


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
        self._parts: list[tuple[str, _Struct | _Elements]] = parts_of(schema, _Struct, _Elements)

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
