"""From what inference found to columns that a Delta table can have."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from blizzard.config.ddl import Array, Column, Map, Struct, Type
from blizzard.config.provenance import PROVENANCE, RESERVED
from blizzard.config.schema_limits import mapping_problems, name_problems
from blizzard.infer.types import STRING, VOID

_SHOWN = 3


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


def storable(found: Struct, *, is_typed: bool = False) -> Storable:
    """Void and structs without a column become STRING, which holds any value; of files with types of their own, what
    has such a struct is left out, since no text is read from it. Of names that differ only in case, the first remains.
    `schema` has no column if no name can be stored."""
    left_out: list[LeftOut] = []
    schema = _struct(found, "", left_out, is_typed)
    return Storable(schema, tuple(left_out))


def no_column(fields: Sequence[tuple[str, str]]) -> str:
    """What to do if no field of the records can be a column. `fields`: the path of each, and why."""
    shown = "; ".join(why for _, why in fields[:_SHOWN])
    return (
        f"none of the {len(fields)} fields of the records can be a column ({shown}); write a `schema` with names of "
        f"your own, and `fields` with the name in the files for each, such as {{my_name: {json.dumps(fields[0][0])}}}"
    )


def is_reserved(name: str) -> bool:
    """Of a column."""
    return name.lower() == PROVENANCE or name.lower().startswith(RESERVED)


def _struct(found: Struct, path: str, left_out: list[LeftOut], is_typed: bool) -> Struct:
    columns: list[Column] = []
    seen: dict[str, str] = {}
    for column in found.columns:
        place = f"{path}.{column.name}" if path else column.name
        why = next(_reasons(column.name, place, seen), None)
        kind = _type(column.type, place, left_out, is_typed) if why is None else None
        if kind is None:
            left_out.append(LeftOut(place, why or f"column `{place}` has a struct of which no field can be a column"))
            continue
        seen[column.name.lower()] = column.name
        columns.append(replace(column, type=kind))
    return Struct(tuple(columns))


def _type(kind: Type, path: str, left_out: list[LeftOut], is_typed: bool) -> Type | None:
    """None: there is none for what it holds."""
    match kind:
        case Struct():
            struct = _struct(kind, path, left_out, is_typed)
            return struct if struct.columns else None if is_typed else STRING
        case Array(element):
            inner = _type(element, f"{path}[]", left_out, is_typed)
            return None if inner is None else Array(inner)
        case Map(key, value):
            keys = _type(key, path, left_out, is_typed)
            values = _type(value, f"{path}{{}}", left_out, is_typed)
            return None if keys is None or values is None else Map(keys, values)
    return STRING if kind == VOID else kind


def _reasons(name: str, place: str, seen: Mapping[str, str]) -> Iterator[str]:
    yield from name_problems(name, place)
    yield from mapping_problems(name, place)
    twin = seen.get(name.lower())
    if twin is not None:
        yield f"column `{place}` differs from `{twin}` only in case, and names are not case-sensitive; rename one"
    if place == name and is_reserved(name):
        yield f"column `{name}` has a name that is reserved for Blizzard; rename it"
