"""What differs between two schemas as Delta's log has them, without Spark."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from blizzard.config.field_places import in_place

_NAMES: Mapping[str, str] = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
"""Types by their name in the log, where DDL has another one."""
_ID = "delta.columnMapping.id"
"""The key of a field's metadata that stays when it is renamed."""


class Difference(NamedTuple):
    """`path`: as in `FieldChange`. `type`: in DDL; None: the field is gone. `was`: before; None: it is new.
    `renamed_from`: its path before, if that was another one."""

    path: str
    type: str | None
    was: str | None
    renamed_from: str | None = None


def differences(before: str | None, after: str) -> list[Difference]:
    """`before` and `after`: the texts of the log; None: there was no table. Raises what `json_fields.MALFORMED`
    names."""
    return [*_of_structs({"fields": []} if before is None else json.loads(before), json.loads(after), "")]


def _of_structs(before: Any, after: Any, prefix: str) -> Iterator[Difference]:
    known, now = ({field["name"]: field for field in struct["fields"]} for struct in (before, after))
    renamed = _renamed(known, now)
    for name, field in now.items():
        path = f"{prefix}{in_place(name)}"
        if name in known:
            yield from _of_fields(known[name], field, path)
        elif (former := renamed.get(name)) is not None:
            yield Difference(path, _field_text(field), _field_text(known[former]), f"{prefix}{in_place(former)}")
        else:
            yield Difference(path, _field_text(field), None)
    for name, field in known.items():
        if name not in now and name not in renamed.values():
            yield Difference(f"{prefix}{in_place(name)}", None, _field_text(field))


def _renamed(known: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """By name the former one."""
    former = {_id(field): name for name, field in known.items() if name not in now and _id(field) is not None}
    return {name: former[_id(field)] for name, field in now.items() if name not in known and _id(field) in former}


def _id(field: Any) -> Any:
    return field.get("metadata", {}).get(_ID)


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
