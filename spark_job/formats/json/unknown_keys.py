"""Keys of JSON objects that no column is for.

A key whose value is null is not counted: nothing is dropped with it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from spark_job.formats.json.exact_records import quick_record
from spark_job.formats.protocol import UnknownField
from spark_job.formats.unknown_counts import UnknownCounts


class UnknownKeys:
    """Of lines, one by one."""

    def __init__(self, schema: StructType) -> None:
        self._known = _Struct(schema)

    def of(self, lines: Iterable[bytes], numbers: Iterable[int]) -> dict[str, UnknownField]:
        """Lines that are no JSON object have no keys."""
        counts = UnknownCounts()
        for line, number in zip(lines, numbers, strict=True):
            record = quick_record(line)
            if record is not None and (names := {*self._known.unknown(record, "")}):
                counts.add(sorted(names), number)
        return counts.found


class _Struct:
    """The keys of a struct, and what is known of those of its parts."""

    mark: str = "."

    def __init__(self, schema: StructType) -> None:
        self._names = frozenset(schema.names)
        parts = ((field.name, _part(field.dataType)) for field in schema)
        self._parts: Mapping[str, _Struct | _Elements] = {name: part for name, part in parts if part is not None}

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            return
        for name in value.keys() - self._names:
            if value[name] is not None:
                yield path + name
        for name, part in self._parts.items():
            if name in value:
                yield from part.unknown(value[name], f"{path}{name}{part.mark}")


class _Elements:
    """Of an array or a map, whose elements or values have parts."""

    def __init__(self, part: "_Struct | _Elements", *, of_map: bool) -> None:
        self._part = part
        self._of_map = of_map
        self.mark: str = ("{}" if of_map else "[]") + part.mark

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        elements = value.values() if self._of_map and isinstance(value, dict) else value
        if self._of_map is isinstance(value, dict) and isinstance(value, dict | list):
            for element in elements:
                yield from self._part.unknown(element, path)


def _part(data_type: DataType) -> "_Struct | _Elements | None":
    """None if the type contains no struct."""
    if isinstance(data_type, StructType):
        return _Struct(data_type)
    if isinstance(data_type, ArrayType):
        part = _part(data_type.elementType)
        return None if part is None else _Elements(part, of_map=False)
    if isinstance(data_type, MapType):
        part = _part(data_type.valueType)
        return None if part is None else _Elements(part, of_map=True)
    return None
