"""How fields of nested data are named: `address.zip`, `items[].sku` for all elements and `items[2].sku` for one of
them, `tags{}.sku` and `tags{k}.sku` for the values of a map."""

import re
from collections.abc import Sequence

_MARKS = re.compile(r"[.\[\]{}`]")
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.\[\]{}`]+)|\[[^\]]*\]|\{(?:`(?:[^`]|``)*`|[^}`]*)\}")


def in_place(name: str) -> str:
    """The name of a field, or the key of a map, as a part of a place. One that holds what separates parts is in
    backticks, each of its own doubled, so that two fields never have one place."""
    return f"`{name.replace('`', '``')}`" if _MARKS.search(name) else name


def place_of(names: Sequence[str]) -> str:
    """Of a field in structs, from the record on."""
    return ".".join(map(in_place, names))


def names_in(place: str) -> list[str]:
    """The names of the fields on the way, without elements and values."""
    return [(quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(place) if quoted or plain]
