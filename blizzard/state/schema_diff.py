"""What differs between two schemas as Delta's log has them, without Spark."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from blizzard.config.field_places import in_place

_NAMES: Mapping[str, str] = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
"""Types by their name in the log, where DDL has another one."""


class Difference(NamedTuple):
    """`path`: as in `FieldChange`. `type`: in DDL; None: the field is gone. `was`: before; None: it is new."""

    path: str
    type: str | None
    was: str | None


def differences(before: str | None, after: str) -> list[Difference]:
    """`before` and `after`: the texts of the log; None: there was no table. Raises what `json_fields.MALFORMED`
    names."""
    return [*_of_structs({"fields": []} if before is None else json.loads(before), json.loads(after), "")]


def _of_structs(before: Any, after: Any, prefix: str) -> Iterator[Difference]:
    known, now = ({field["name"]: field for field in struct["fields"]} for struct in (before, after))
    for name, field in now.items():
        path = f"{prefix}{in_place(name)}"
        if name not in known:
            yield Difference(path, _field_text(field), None)
        else:
            yield from _of_fields(known[name], field, path)
    for name, field in known.items():
        if name not in now:
            yield Difference(f"{prefix}{in_place(name)}", None, _field_text(field))


def _of_fields(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if before.get("nullable", True) != after.get("nullable", True):
        yield Difference(path, _field_text(after), _field_text(before))
    else:
        yield from _of_types(before["type"], after["type"], path)


def _of_types(before: Any, after: Any, path: str) -> Iterator[Difference]:
    match before, after:
        case {"type": "struct"}, {"type": "struct"}:
            yield from _of_structs(before, after, f"{path}.")
        case {"type": "array"}, {"type": "array"}:
            yield from _of_types(before["elementType"], after["elementType"], f"{path}[]")
        case {"type": "map"}, {"type": "map"} if before["keyType"] == after["keyType"]:
            yield from _of_types(before["valueType"], after["valueType"], f"{path}{{}}")
        case _ if before != after:
            yield Difference(path, type_text(after), type_text(before))


def _field_text(field: Any) -> str:
    return type_text(field["type"]) + ("" if field.get("nullable", True) else " NOT NULL")


def type_text(found: Any) -> str:
    """A type of the log in DDL, as `simpleString` prints it."""
    match found:
        case {"type": "struct", "fields": fields}:
            return f"struct<{','.join(_quoted(one['name']) + ':' + type_text(one['type']) for one in fields)}>"
        case {"type": "array", "elementType": element}:
            return f"array<{type_text(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{type_text(key)},{type_text(value)}>"
    return _NAMES.get(str(found), str(found))


def _quoted(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_]+", name) else "`" + name.replace("`", "``") + "`"
