"""Keys of JSON objects that no column is for.

A key whose value is null is not counted: nothing is dropped with it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.types import StructType

from blizzard.config.field_places import in_place
from spark_job.formats.json.exact_records import quick_record
from spark_job.formats.protocol import UnknownField
from spark_job.formats.struct_parts import parts_of
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
        parts: list[tuple[str, _Struct | _Elements]] = parts_of(schema, _Struct, _Elements)
        self._parts = [(name, in_place(name), part) for name, part in parts]

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            return
        for name in value.keys() - self._names:
            if value[name] is not None:
                yield path + in_place(name)
        for name, shown, part in self._parts:
            if name in value:
                yield from part.unknown(value[name], f"{path}{shown}{part.mark}")


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
