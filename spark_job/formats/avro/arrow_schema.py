"""Avro's schemas as Arrow types, and as the plainer schemas by which fastavro decodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_WIDER: Mapping[frozenset[str], pa.DataType] = {
    frozenset({"int", "long"}): pa.int64(),
    frozenset({"float", "double"}): pa.float64(),
}
"""Unions of two types that Spark reads as one."""
_MAX_DEPTH = 50
BOUNDED_DECIMAL = "decimal-of-38-digits"
"""A logical type of fastavro whose reader `records.py` has."""
MAX_TYPES = 100_000
"""Of a schema, each counted wherever it is used: a few types that are used twice by others can make any number."""


class Unsupported(Exception):
    """A type that no column can hold, and why."""


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of the file's records."""

    name: str
    aliases: Sequence[str]
    schema: Any
    names: Mapping[str, Any]

    def kind(self) -> pa.DataType:
        """As the schema has it. Raises Unsupported."""
        return _Types(self.names).arrow(self.schema)

    def decoded(self) -> pa.DataType:
        """Of the values as fastavro returns them. Raises Unsupported."""
        return _Types(self.names, text_is_bytes=True, logical=False).arrow(self.schema)

    def converted(self) -> pa.DataType:
        """What the decoded values are cast to: text stays bytes, which may not be UTF-8. Raises Unsupported."""
        return _Types(self.names, text_is_bytes=True).arrow(self.schema)


def fields_of(schema: Any) -> list[AvroField]:
    """Raises Unsupported if the records are no records."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        kind = schema.get("type") if isinstance(schema, dict) else schema
        raise Unsupported(f"its records are of the type {kind}; expected records with named fields")
    names = names_in(schema)
    least_bytes(schema, names)
    return [AvroField(field["name"], field.get("aliases", ()), field["type"], names) for field in schema["fields"]]


def names_in(schema: Any) -> dict[str, Any]:
    """The definitions of named types, by the names that refer to them."""
    names: dict[str, Any] = {}
    _collect(schema, "", names)
    return names


_LEAST_BYTES: Mapping[str, int] = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8}


def least_bytes(schema: Any, names: Mapping[str, Any]) -> int:
    """How many bytes a value takes at least. Raises Unsupported for a type whose size the bytes of a file do not bound:
    one that contains itself, and elements that take none; and for one with too many others in it."""
    return _LeastBytes(names).of(schema, ())


class _LeastBytes:
    """`inside`: the named types around a type."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._seen = 0

    def of(self, schema: Any, inside: tuple[str, ...]) -> int:
        self._seen += 1
        if self._seen > MAX_TYPES:
            raise Unsupported(f"it has more than {MAX_TYPES:,} types, each counted wherever its name is")
        if len(inside) > _MAX_DEPTH:
            raise Unsupported(f"it is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(schema, list):
            parts = [self.of(branch, inside) for branch in schema]
            return 1 + min(parts, default=0)
        if isinstance(schema, str):
            if schema in self._names:
                return self._of_complex(self._names[schema], inside)
            return _LEAST_BYTES.get(schema, 1)
        return self._of_complex(schema, inside)

    def _of_complex(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> int:
        kind, name = schema["type"], str(schema.get("name", ""))
        match kind:
            case "record" | "error":
                if name in inside:
                    raise Unsupported(f"its type {name} contains itself")
                around = (*inside, name)
                return sum(self.of(field["type"], around) for field in schema["fields"])
            case "array" | "map":
                element = schema["items"] if kind == "array" else schema["values"]
                around = (*inside, f"{kind} {len(inside)}")
                if not self.of(element, around) and kind == "array":
                    raise Unsupported("it has an array whose elements take no bytes")
                return 1
            case "fixed":
                return int(schema["size"])
            case "enum":
                return 1
        return self.of(kind, (*inside, f"type {len(inside)}"))


def plain_schema(schema: Any) -> Any:
    """The schema without logical types, except decimals, which become BOUNDED_DECIMAL, and with text as bytes: the
    columns are converted as a whole."""
    if isinstance(schema, list):
        return [plain_schema(branch) for branch in schema]
    if not isinstance(schema, dict):
        return "bytes" if schema == "string" else schema
    plain = dict(schema)
    if plain.pop("logicalType", None) == "decimal":
        plain["logicalType"] = BOUNDED_DECIMAL
    for key in ("type", "items", "values"):
        if key in plain:
            plain[key] = plain_schema(plain[key])
    if isinstance(plain.get("fields"), list):
        plain["fields"] = [{"name": field["name"], "type": plain_schema(field["type"])} for field in plain["fields"]]
    return plain


@dataclass(frozen=True, slots=True)
class _Types:
    names: Mapping[str, Any]
    text_is_bytes: bool = False
    logical: bool = True

    def arrow(self, schema: Any) -> pa.DataType:
        """`least_bytes` must have found that the schema has an end."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, dict):
            return self._complex(schema)
        if schema in _PRIMITIVES:
            return pa.binary() if self.text_is_bytes and schema == "string" else _PRIMITIVES[schema]
        named = self.names.get(schema)
        if named is None:
            raise Unsupported(f"its type {schema} is not defined")
        return self._complex(named)

    def _union(self, branches: list[Any]) -> pa.DataType:
        some = [branch for branch in branches if branch != "null"]
        if not some:
            return pa.null()
        if len(some) == 1:
            return self.arrow(some[0])
        simple = frozenset(branch for branch in some if isinstance(branch, str))
        if len(simple) == len(some) and simple in _WIDER:
            return _WIDER[simple]
        shown = ", ".join(str(branch.get("type") if isinstance(branch, dict) else branch) for branch in some)
        raise Unsupported(f"it is a union of {shown}; expected at most one type beside null")

    def _complex(self, schema: Mapping[str, Any]) -> pa.DataType:
        kind = schema.get("type")
        match kind:
            case "record":
                fields = [(field["name"], self.arrow(field["type"])) for field in schema["fields"]]
                return pa.struct([pa.field(name, inner) for name, inner in fields])
            case "array":
                return pa.list_(pa.field("element", self.arrow(schema["items"])))
            case "map":
                return pa.map_(pa.string(), pa.field("value", self.arrow(schema["values"])))
            case "enum":
                return pa.string()
            case "bytes" | "fixed" if schema.get("logicalType") == "decimal":
                return _decimal(schema)
            case "fixed":
                return pa.binary()
            case str() if self.logical and (kind, schema.get("logicalType")) in _LOGICAL:
                return _LOGICAL[kind, schema["logicalType"]]
        return self.arrow(kind)


def _decimal(schema: Mapping[str, Any]) -> pa.DataType:
    try:
        precision, scale = schema["precision"], schema.get("scale", 0)
        kind = pa.decimal128(precision, scale)
    except (KeyError, TypeError, ValueError) as error:
        raise Unsupported(f"its decimal has no precision of 1 to 38: {error}") from error
    if not 0 <= scale <= precision:
        raise Unsupported(f"its decimal has a scale of {scale}; expected 0 to its precision of {precision}")
    return kind


def _collect(schema: Any, space: str, names: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, space, names)
    if not isinstance(schema, dict):
        return
    if schema.get("type") in ("record", "enum", "fixed", "error"):
        name = schema["name"]
        space = name.rpartition(".")[0] or schema.get("namespace", space)
        names[name] = names[f"{space}.{name.rpartition('.')[2]}" if space else name] = schema
        names.setdefault(name.rpartition(".")[2], schema)
    for field in schema.get("fields", ()) if isinstance(schema.get("fields"), list) else ():
        _collect(field.get("type"), space, names)
    for key in ("type", "items", "values"):
        if isinstance(schema.get(key), dict | list):
            _collect(schema[key], space, names)
