"""What a sample of records showed: the type of each column, and what speaks for it."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from blizzard.config.ddl import Array, Column, Decimal, Map, Struct, Type
from blizzard.infer.ddl_text import type_ddl
from blizzard.infer.storable import Storable, storable
from blizzard.infer.text import names_codes
from blizzard.infer.types import BIGINT, STRING, VOID, gives_up, merge, merge_all
from blizzard.infer.values import json_text_type, type_of

MAP_NAMES, MAP_SHARE = 64, 0.1
"""Objects with so many names, of which each object has on average less than this share, are maps."""
EXAMPLES = 3
TRIED = 50
"""Values of a field that are looked at for examples: a constant has one, and writing each value as text takes time."""
EXAMPLE_CHARS = 40
OBJECT, ARRAY = Struct(()), Array(VOID)
"""How objects and arrays are counted, whatever they hold."""


@dataclass(slots=True)
class FieldSeen:
    """One field of the records, at any depth. `kinds`: how many of its values have which type."""

    kinds: Counter[Type] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    shown: int = 0
    """Values that were tried for examples."""
    declared: Counter[Type] = field(default_factory=Counter)
    """How many files say in their schema that it has which type."""

    @property
    def values(self) -> int:
        """How many are not null."""
        return self.kinds.total()

    def add(self, kind: Type, value: Any, count: int = 1) -> None:
        self.kinds[kind] += count
        if self.shown < TRIED and len(self.examples) < EXAMPLES:
            self.shown += 1
            if (text := _shown(value)) not in self.examples:
                self.examples.append(text)

    def conflicts(self) -> dict[str, int]:
        """The types of the values with their numbers, if STRING alone holds them all and not all are text. Of files
        with types of their own: if one `gives_up`; the numbers of files where the values do not show it."""
        if self.declared:
            return self._declared_conflicts()
        if merge_all(self.kinds) != STRING or len(self.kinds) < 2:
            return {}
        return {kind_name(kind): count for kind, count in self.kinds.most_common()}

    def _declared_conflicts(self) -> dict[str, int]:
        joined = merge_all(self.declared)
        if not any(gives_up(kind, joined) for kind in self.declared):
            return {}
        if len(self.kinds) == len(self.declared):
            return {kind_name(kind): count for kind, count in self.kinds.most_common()}
        return {f"files of {kind_name(kind)}": count for kind, count in self.declared.most_common()}


def kind_name(kind: Type) -> str:
    return "STRUCT" if kind == OBJECT else "ARRAY" if kind == ARRAY else type_ddl(kind, with_not_null=False)


def is_under(path: str, name: str) -> bool:
    """Whether `fields` has what is in this field under the path, or the field itself."""
    return path == name or path.startswith((f"{name}.", f"{name}[]"))


@dataclass(slots=True)
class Observed:
    """`broken`: records that cannot be read. `fields`: by path; `[]` follows the path of an array. `found`: the merged
    type of all records."""

    records: int = 0
    broken: int = 0
    fields: dict[str, FieldSeen] = field(default_factory=dict)
    found: Struct | None = None
    is_text: bool = False
    """Whether values are text in their files."""
    is_typed: bool = False
    """Whether files have types of their own."""
    doubled: set[str] = field(default_factory=set)
    """Names in lower case of which one record, or one file's schema, has several spellings."""

    def add_record(self, record: Mapping[str, Any], *, text: Callable[[str], Type] = json_text_type) -> None:
        kind = type_of(record, text=text)
        assert isinstance(kind, Struct)
        self._merge(kind)
        self._see_names(record)
        self.records += 1
        self._see_members(record, "", text)

    def add_schema(self, schema: Struct) -> None:
        """Of a file that has one; its records follow with `add_typed_record`."""
        self.is_typed = True
        self._merge(schema)
        self._see_names([column.name for column in schema.columns])
        for column in schema.columns:
            self.fields.setdefault(column.name, FieldSeen()).declared[column.type] += 1

    def add_typed_record(self, record: Mapping[str, Any], schema: Struct) -> None:
        self.records += 1
        for column in schema.columns:
            value = record.get(column.name)
            if value is not None:
                self.fields[column.name].add(column.type, value)

    def add_text_columns(
        self, columns: Mapping[str, Sequence[str | None]], count: int, kind_of: Callable[[str], Type]
    ) -> None:
        """The fields of `count` records."""
        self.is_text = True
        self.records += count
        self._see_names(columns)
        self._merge(Struct(tuple(self._text_column(name, values, kind_of) for name, values in columns.items())))

    def _text_column(self, name: str, values: Sequence[str | None], kind_of: Callable[[str], Type]) -> Column:
        seen, types = self.fields.setdefault(name, FieldSeen()), list[Type]()
        for value, count in Counter(values).items():
            if value is not None:
                types.append(kind := kind_of(value))
                seen.add(kind, value, count)
        return Column(name, merge_all(types), nullable=None in values)

    def join(self, other: "Observed") -> None:
        """With what was seen elsewhere."""
        self.records += other.records
        self.broken += other.broken
        self.is_text |= other.is_text
        self.is_typed |= other.is_typed
        self.doubled |= other.doubled
        if other.found is not None:
            self._merge(other.found)
        for path, seen in other.fields.items():
            mine = self.fields.setdefault(path, FieldSeen())
            mine.kinds.update(seen.kinds)
            mine.declared.update(seen.declared)
            mine.examples += [text for text in seen.examples if text not in mine.examples][
                : EXAMPLES - len(mine.examples)
            ]

    def schema(self) -> Storable:
        """The columns that a table can have; none if no record was seen."""
        return storable(self.keys(), is_typed=self.is_typed)

    def keys(self) -> Struct:
        """The fields of the records, with any names."""
        found = self.found or Struct(())
        if self.is_text:
            return Struct(tuple(map(_as_codes, found.columns)))
        columns = [replace(column, type=self._with_maps(column.type, column.name)) for column in found.columns]
        return Struct(tuple(columns))

    def _with_maps(self, kind: Type, path: str) -> Type:
        """With a MAP for objects whose names are values, such as ids: many names, each in few of the objects."""
        match kind:
            case Array(element):
                return Array(self._with_maps(element, f"{path}[]"))
            case Struct(columns):
                parts = [self._with_maps(column.type, f"{path}.{column.name}") for column in columns]
                if self._are_values([f"{path}.{column.name}" for column in columns], path):
                    return Map(STRING, merge_all(parts))
                return Struct(tuple(replace(column, type=part) for column, part in zip(columns, parts, strict=True)))
        return kind

    def _are_values(self, names: Sequence[str], path: str) -> bool:
        """Whether the names of objects at this path are."""
        objects = self.fields[path].kinds[OBJECT] if path in self.fields else 0
        if len(names) < MAP_NAMES or not objects:
            return False
        values = sum(self.fields[name].values for name in names if name in self.fields)
        return values < MAP_SHARE * len(names) * objects

    def _see_names(self, names: Collection[str]) -> None:
        if len(set(map(str.lower, names))) < len(names):
            self.doubled |= {name for name, count in Counter(map(str.lower, names)).items() if count > 1}

    def _merge(self, kind: Struct) -> None:
        merged = kind if self.found is None else merge(self.found, kind)
        assert isinstance(merged, Struct)
        self.found = merged

    def _see_members(self, record: Mapping[str, Any], path: str, text: Callable[[str], Type]) -> None:
        for name, value in record.items():
            self._see(value, f"{path}.{name}" if path else name, text)

    def _see(self, value: Any, path: str, text: Callable[[str], Type]) -> None:
        seen = self.fields.get(path)
        if seen is None:
            seen = self.fields[path] = FieldSeen()
        if isinstance(value, dict):
            seen.add(OBJECT, value)
            self._see_members(value, path, text)
        elif isinstance(value, list):
            seen.add(ARRAY, value)
            for element in value:
                self._see(element, f"{path}[]", text)
        elif value is not None:
            seen.add(type_of(value, text=text), value)


def _as_codes(column: Column) -> Column:
    is_number = column.type == BIGINT or isinstance(column.type, Decimal)
    return replace(column, type=STRING) if is_number and names_codes(column.name) else column


def _shown(value: Any) -> str:
    of_json = isinstance(value, dict | list | bool | int | float)
    text = json.dumps(value, default=str, ensure_ascii=False) if of_json else str(value)
    return text if len(text) <= EXAMPLE_CHARS else f"{text[: EXAMPLE_CHARS - 1]}…"
