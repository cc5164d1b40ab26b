"""Names of columns for fields whose own a table cannot have, or only by column mapping, such as those with a blank."""

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

from blizzard.config.ddl import Struct
from blizzard.config.schema_limits import mapping_problems
from blizzard.infer.storable import Storable, is_reserved, storable

_ODD = re.compile(r"[ ,;{}()\n\t=]+")


@dataclass(frozen=True, slots=True)
class Named:
    """`keys`: by column, the field that it is read from, if that has another name."""

    columns: Storable
    keys: Mapping[str, str]


def named(found: Struct, *, is_typed: bool, may_rename: bool = True) -> Named:
    """The columns for fields of records. `is_typed`: as `storable` takes it. `may_rename`: whether a source of such
    files can have `fields`."""
    own = dict(_own_names(found)) if may_rename else {}
    renamed = [replace(column, name=own.get(column.name, column.name)) for column in found.columns]
    columns = storable(Struct(tuple(renamed)), is_typed=is_typed)
    known = {column.name for column in columns.schema.columns}
    return Named(columns, {name: key for key, name in own.items() if name in known})


def needs_own_name(name: str) -> bool:
    return is_reserved(name) or next(mapping_problems(name, name), None) is not None


def free_name(name: str, otherwise: str, taken: Set[str]) -> str:
    """The name without what needs column mapping; `otherwise` if nothing is left of it. `taken`: in lower case."""
    plain = _ODD.sub("_", name).strip("_") or otherwise
    found, at = plain, 1
    while found.lower() in taken:
        at += 1
        found = f"{plain}_{at}"
    return found


def _own_names(found: Struct) -> Iterator[tuple[str, str]]:
    """Pairs of a field's name and that of its column."""
    taken = {column.name.lower() for column in found.columns}
    for column in found.columns:
        if needs_own_name(column.name):
            name = free_name(column.name, "field", taken)
            taken.add(name.lower())
            yield column.name, name
