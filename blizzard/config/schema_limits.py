"""What a schema cannot have although Spark parses it: Delta cannot store it, or the files' format cannot hold it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from blizzard.config.ddl import Array, Atomic, Decimal, Map, Struct, Type


@dataclass(frozen=True, slots=True)
class FormatLimits:
    """What a schema cannot have because of a format, beside what Delta cannot store."""

    types: Mapping[str, str] = field(default_factory=dict)
    """Error texts for types, as `ddl.parse` takes them."""
    map_keys: str | None = None
    """Why the keys of a map have to be STRING; None: they may be of any type."""
    nested: str | None = None
    """Why a column cannot be a struct, an array or a map; None: it can."""


NO_LIMITS = FormatLimits()


def storage_problems(schema: Struct, limits: FormatLimits) -> list[str]:
    """What Delta cannot store or the format cannot hold; each with the column's path."""
    return [*_struct_problems(schema, "", limits)]


def _struct_problems(struct: Struct, path: str, limits: FormatLimits) -> Iterator[str]:
    seen: dict[str, str] = {}
    for column in struct.columns:
        shown = column.name if column.name.isprintable() else ascii(column.name)
        place = f"{path}.{shown}" if path else shown
        yield from name_problems(column.name, place)
        twin = seen.get(column.name.lower())
        if twin is not None:
            both = f"{twin!r} and {column.name!r}; names are not case-sensitive"
            yield f"column `{place}` occurs twice ({both}); rename one"
        seen[column.name.lower()] = column.name
        yield from _type_problems(column.type, place, limits)
    if not struct.columns:
        yield f"column `{path}` is a struct without columns, which Delta cannot store; add one, or remove the struct"


def name_problems(name: str, place: str) -> Iterator[str]:
    if not name:
        yield f"column `{place}` has no name; add one"


def mapping_problems(name: str, place: str) -> Iterator[str]:
    """Of a name that a table has only by column mapping, with which its rows are written twice."""
    odd = sorted(set(name) & set(" ,;{}()\n\t="))
    if odd:
        yield f"column `{place}` has {' '.join(map(repr, odd))} in its name, which Delta cannot store without mapping"


def _type_problems(kind: Type, place: str, limits: FormatLimits) -> Iterator[str]:
    match kind:
        case Struct() | Array() | Map() if limits.nested is not None:
            yield f"column `{place}` is nested; {limits.nested}: use STRING"
        case Struct():
            yield from _struct_problems(kind, place, limits)
        case Array(element):
            yield from _type_problems(element, f"{place}.element", limits)
        case Map(key, value):
            if limits.map_keys is None:
                yield from _type_problems(key, f"{place}.key", limits)
            elif key != Atomic("string"):
                yield f"column `{place}` is a map with keys of type {key}; {limits.map_keys}: use STRING"
            yield from _type_problems(value, f"{place}.value", limits)
        case Decimal(0, _):
            yield f"column `{place}` is a decimal of 0 digits; give it 1 to 38"
