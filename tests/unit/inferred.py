"""What tests of inference draw and compare: types, values, and whether a type holds a value."""

from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import Any

from hypothesis import strategies as st

from blizzard.config.ddl import Array, Atomic, Column, Decimal, Map, Struct, Type
from blizzard.infer.types import VOID

ATOMS = ["void", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"]
ATOMS += ["date", "timestamp_ntz", "timestamp"]
NAMES = ["a", "b", "c", "odd name", "größe"]


@st.composite
def decimals(draw: st.DrawFn) -> Decimal:
    precision = draw(st.integers(1, 38))
    return Decimal(precision, draw(st.integers(0, precision)))


def structs(of: st.SearchStrategy[Type]) -> st.SearchStrategy[Struct]:
    columns = st.lists(st.tuples(st.sampled_from(NAMES), of, st.booleans()), max_size=3, unique_by=lambda c: c[0])
    return columns.map(lambda found: Struct(tuple(Column(name, kind, null) for name, kind, null in found)))


def nested(of: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    return st.builds(Array, of) | st.builds(Map, st.just(Atomic("string")), of) | structs(of)


types: st.SearchStrategy[Type] = st.recursive(st.sampled_from(ATOMS).map(Atomic) | decimals(), nested, max_leaves=6)

texts = st.text(max_size=5) | st.sampled_from(["2026-11-21", "2026-11-21T10:00:00Z", "2026-11-21 10:00:00.5", "007"])
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | texts,
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.sampled_from(NAMES), of, max_size=3),
    max_leaves=8,
)
typed_values: st.SearchStrategy[Any] = (
    json_values
    | st.decimals(allow_nan=False, allow_infinity=False, places=None)
    | st.binary(max_size=4)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
)


def in_name_order(kind: Type) -> Type:
    """The same type with the columns of each struct sorted, since their order is that of their first appearance."""
    match kind:
        case Struct(columns):
            ordered = sorted(columns, key=lambda column: column.name)
            return Struct(tuple(Column(c.name, in_name_order(c.type), c.nullable) for c in ordered))
        case Array(element):
            return Array(in_name_order(element))
        case Map(key, value):
            return Map(in_name_order(key), in_name_order(value))
    return kind


def holds(kind: Type, value: Any) -> bool:
    """Whether a column of this type can hold the value, numbers as exactly as a double does at least. STRING holds the
    JSON text of anything."""
    match kind:
        case _ if value is None or kind == Atomic("string"):
            return True
        case Struct(columns):
            known = {column.name: column for column in columns}
            return isinstance(value, dict) and (
                all(column.nullable or value.get(name) is not None for name, column in known.items())
                and all(name in known and holds(known[name].type, held) for name, held in value.items())
            )
        case Array(element):
            return isinstance(value, list) and all(holds(element, held) for held in value)
        case Decimal(precision, scale):
            return _is_exact(value) and _fits(Number(value), precision, scale)
    return kind != VOID and _HOLDS[str(kind)](value)


def _is_exact(value: Any) -> bool:
    return isinstance(value, int | Number) and not isinstance(value, bool)


def _fits(number: Number, precision: int, scale: int) -> bool:
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return -exponent <= scale or exponent >= 0
    return -exponent <= scale and len(digits) + exponent <= precision - scale


def _is_day(text: str) -> bool:
    return len(text) == 10 and text[:4].isdigit()


_HOLDS = {
    "boolean": lambda v: isinstance(v, bool),
    "bigint": lambda v: isinstance(v, int) and not isinstance(v, bool) and -(2**63) <= v < 2**63,
    "double": lambda v: isinstance(v, int | float | Number) and not isinstance(v, bool),
    "date": lambda v: _is_day(v) if isinstance(v, str) else isinstance(v, date) and not isinstance(v, datetime),
    "timestamp_ntz": lambda v: isinstance(v, date) and getattr(v, "tzinfo", None) is None,
    "timestamp": lambda v: isinstance(v, date) or (isinstance(v, str) and v[:4].isdigit()),
    "binary": lambda v: isinstance(v, bytes),
}
