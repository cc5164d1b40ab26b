"""From what inference found to columns that a Delta table can have."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from blizzard.config.ddl import Array, Column, Map, Struct, Type
from blizzard.config.provenance import PROVENANCE, RESERVED
from blizzard.config.schema_limits import mapping_problems, name_problems
from blizzard.infer.types import STRING, VOID


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A field that no column can be for. `path`: its names, divided by dots; `[]` after those of arrays. `why` is a
    sentence that names it."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Storable:
    """The columns of a table, and what they leave out."""

    schema: Struct
    left_out: tuple[LeftOut, ...]


def storable(found: Struct) -> Storable:
    """Void and structs without a column become STRING, which holds any value. Of names that differ only in case, the
    first remains. `schema` has no column if no name can be stored."""
    left_out: list[LeftOut] = []
    schema = _struct(found, "", left_out)
    return Storable(schema, tuple(left_out))


def _struct(found: Struct, path: str, left_out: list[LeftOut]) -> Struct:
    columns: list[Column] = []
    seen: dict[str, str] = {}
    for column in found.columns:
        place = f"{path}.{column.name}" if path else column.name
        why = next(_reasons(column.name, place, seen), None)
        if why is not None:
            left_out.append(LeftOut(place, why))
            continue
        seen[column.name.lower()] = column.name
        columns.append(replace(column, type=_type(column.type, place, left_out)))
    return Struct(tuple(columns))


def _type(kind: Type, path: str, left_out: list[LeftOut]) -> Type:
    match kind:
        case Struct():
            struct = _struct(kind, path, left_out)
            return struct if struct.columns else STRING
        case Array(element):
            return Array(_type(element, f"{path}[]", left_out))
        case Map(key, value):
            return Map(_type(key, path, left_out), _type(value, f"{path}{{}}", left_out))
    return STRING if kind == VOID else kind


def _reasons(name: str, place: str, seen: Mapping[str, str]) -> Iterator[str]:
    yield from name_problems(name, place)
    yield from mapping_problems(name, place)
    twin = seen.get(name.lower())
    if twin is not None:
        yield f"column `{place}` differs from `{twin}` only in case, and names are not case-sensitive; rename one"
    if place == name and (name.lower() == PROVENANCE or name.lower().startswith(RESERVED)):
        yield f"column `{name}` has a name that is reserved for Blizzard; rename it"
