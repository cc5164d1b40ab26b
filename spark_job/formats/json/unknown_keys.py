"""Keys of JSON objects that no column is for: from the columns that Arrow found, or line by line.

A key whose value is null is not counted: nothing is dropped with it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from spark_job.formats.protocol import UnknownField
from spark_job.formats.unknown_counts import UnknownCounts


def unknown_in_table(table: pa.Table, schema: StructType, numbers: Sequence[int]) -> dict[str, UnknownField]:
    """Of a table with every key of its records. `numbers`: of its rows, ascending."""
    found: dict[str, UnknownField] = {}
    for name in table.schema.names:
        column = table.column(name)
        values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        wanted = schema[name].dataType if name in schema.names else None
        for path, rows in _unknown(values, wanted, pa.arange(0, len(values)), name):
            if len(rows):
                found[path] = UnknownField(pc.count_distinct(rows).as_py(), numbers[pc.min(rows).as_py()])
    return found


def _unknown(values: pa.Array, wanted: DataType | None, rows: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    """Each unknown path with the rows that have it. `rows`: to which row each value belongs; `wanted`: None if the
    values are unknown themselves."""
    if wanted is None:
        yield path, rows.filter(values.is_valid()) if values.null_count else rows
    elif isinstance(wanted, StructType) and pa.types.is_struct(values.type):
        for field, child in zip(values.type, values.flatten(), strict=True):
            inner = wanted[field.name].dataType if field.name in wanted.names else None
            yield from _unknown(child, inner, rows, f"{path}.{field.name}")
    elif isinstance(wanted, ArrayType) and pa.types.is_list(values.type):
        parents = rows.take(pc.list_parent_indices(values))
        yield from _unknown(values.flatten(), wanted.elementType, parents, f"{path}[]")


class UnknownKeys:
    """Of lines, one by one."""

    def __init__(self, schema: StructType) -> None:
        self._known = _Struct(schema)

    def of(self, lines: Iterable[bytes], numbers: Iterable[int]) -> dict[str, UnknownField]:
        """Lines that are no JSON object have no keys."""
        counts = UnknownCounts()
        for line, number in zip(lines, numbers, strict=True):
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(record, dict) and (names := {*self._known.unknown(record, "")}):
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
