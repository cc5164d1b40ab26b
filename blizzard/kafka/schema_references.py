"""A schema of Avro with the definitions of other schemas in it, to which it refers by their names.

Each definition is where its name comes first. All names in the result are full ones, so that they mean the same
wherever they are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


class DefinedTwice(Exception):
    """Two schemas define the same name in different ways; the text is the name."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A type by its name, as a schema in this namespace writes it."""

    name: str
    space: str


def self_contained(schema: Any, others: Iterable[Any]) -> Any:
    """`schema`, `others`: as JSON values. A name that none of them defines stays as it is. Raises DefinedTwice."""
    definitions: dict[str, Any] = {}
    for other in others:
        _lifted(other, "", definitions)
    return _Inlined(definitions).of(_lifted(schema, "", definitions))


def _lifted(schema: Any, space: str, definitions: dict[str, Any]) -> Any:
    """The schema without the definitions in it, which are added to `definitions` under their full names."""
    if isinstance(schema, str):
        return _Name(schema, space)
    if isinstance(schema, list):
        return [_lifted(branch, space, definitions) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") not in _NAMED or not isinstance(schema.get("name"), str):
        return _with_parts(schema, space, definitions)
    space, full = _full_name(schema, space)
    own = {key: value for key, value in schema.items() if key != "namespace"} | {"name": full}
    if not space:
        own["namespace"] = ""
    found = _with_parts(own, space, definitions)
    if definitions.setdefault(full, found) != found:
        raise DefinedTwice(full)
    return _Name(full, space)


def _full_name(schema: dict[str, Any], around: str) -> tuple[str, str]:
    """Namespace and full name of a definition in this namespace."""
    name = schema["name"]
    if "." in name:
        return name.rpartition(".")[0], name
    space = str(schema.get("namespace", around) or "")
    return space, f"{space}.{name}" if space else name


def _with_parts(schema: dict[str, Any], space: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """With the types in it lifted."""
    found = dict(schema)
    for key in ("items", "values"):
        if key in found:
            found[key] = _lifted(found[key], space, definitions)
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {**field, "type": _lifted(field["type"], space, definitions)}
            if isinstance(field, dict) and "type" in field
            else field
            for field in found["fields"]
        ]
    kind = found.get("type")
    if isinstance(kind, dict | list):
        found["type"] = _lifted(kind, space, definitions)
    elif isinstance(kind, str) and kind not in (*_PRIMITIVES, *_NAMED, "array", "map"):
        found["type"] = _Name(kind, space)
    return found


class _Inlined:
    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._done: set[str] = set()

    def of(self, schema: Any) -> Any:
        if isinstance(schema, _Name):
            return self._named(schema)
        if isinstance(schema, list):
            return [self.of(branch) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        found = {key: self.of(value) if key in ("type", "items", "values") else value for key, value in schema.items()}
        if isinstance(found.get("fields"), list):
            found["fields"] = [
                {**field, "type": self.of(field["type"])} if isinstance(field, dict) and "type" in field else field
                for field in found["fields"]
            ]
        return found

    def _named(self, reference: _Name) -> Any:
        name = reference.name
        if name in _PRIMITIVES:
            return name
        qualified = [f"{reference.space}.{name}"] if reference.space and "." not in name else []
        full = next((each for each in (*qualified, name) if each in self._definitions), None)
        if full is None or full in self._done:
            return full or name
        self._done.add(full)
        return self.of(self._definitions[full])
