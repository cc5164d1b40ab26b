"""`fields` of a source: columns whose keys in the files have other names, or are inside of others."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from blizzard.config.ddl import Array, Column, Map, Struct, Type
from blizzard.infer.types import VOID, merge

Keys = Sequence[str]
Same = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Renamed:
    """`missing`: columns whose key no record has. `replaced`: keys with the name of a column that is read from another
    key."""

    schema: Struct
    missing: Sequence[str]
    replaced: Sequence[str]


def renamed(found: Struct, fields: Mapping[str, Keys], *, ignore_case: bool) -> Renamed:
    """`found`: the records by their keys. A key from which a column is read is itself none. A column takes the place
    of its key; one whose key is inside of another comes last."""

    def same(one: str, other: str) -> bool:
        return one == other or (ignore_case and one.lower() == other.lower())

    found = folded(found) if ignore_case else found
    types = {name: _type_at(found, keys, same) for name, keys in fields.items()}
    placed = {name: Column(name, kind) for name, kind in types.items() if kind is not None}
    columns, replaced = list[Column](), list[str]()
    for own in found.columns:
        for name, keys in fields.items():
            if len(keys) == 1 and same(own.name, keys[0]) and name in placed:
                columns.append(placed.pop(name))
        rest = next(_without([own], fields.values(), same), None)
        if rest is not None and rest.name in fields:
            replaced.append(rest.name)
        elif rest is not None:
            columns.append(rest)
    missing = [name for name, kind in types.items() if kind is None]
    return Renamed(Struct((*columns, *placed.values())), missing, replaced)


def folded(found: Struct) -> Struct:
    """With one column for keys that differ in case only: the first of them, for the values of all."""
    by_name = dict[str, Column]()
    for column in found.columns:
        first = by_name.get(column.name.lower(), column)
        by_name[column.name.lower()] = replace(first, type=_folded_type(merge(first.type, column.type)))
    return Struct(tuple(by_name.values()))


def _folded_type(kind: Type) -> Type:
    match kind:
        case Struct():
            return folded(kind)
        case Array(element):
            return Array(_folded_type(element))
        case Map(key, value):
            return Map(key, _folded_type(value))
    return kind


def _type_at(found: Struct, keys: Keys, same: Same) -> Type | None:
    """None: the records have no such key."""
    first, *rest = keys
    kind = next((column.type for column in found.columns if same(column.name, first)), None)
    if kind is None or not rest:
        return kind
    return _type_at(kind, rest, same) if isinstance(kind, Struct) else VOID if kind == VOID else None


def _without(columns: Sequence[Column], read: Iterable[Keys], same: Same) -> Iterator[Column]:
    """Without the keys from which columns are read, and without structs of which nothing remains."""
    paths = [*read]
    for column in columns:
        below = [keys[1:] for keys in paths if same(column.name, keys[0])]
        if () in [tuple(keys) for keys in below]:
            continue
        if not below or not isinstance(column.type, Struct):
            yield column
        elif rest := tuple(_without(column.type.columns, below, same)):
            yield replace(column, type=Struct(rest))
