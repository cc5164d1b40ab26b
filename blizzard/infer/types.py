"""Types that inference finds, and the narrowest type that holds the values of two.

They are the types of `blizzard.config.ddl` and one more, `VOID`, which holds only null. `merge` joins two of them as a
semilattice does: the order in which values, files or tasks come does not matter, but for the order of columns, which
is that of their first appearance.

It follows Spark's `JsonInferSchema`. docs/schemas.md lists what differs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce

from blizzard.config.ddl import Array, Atomic, Column, Decimal, Map, Struct, Type

VOID = Atomic("void")
"""Of a value that is null, and of the elements of an empty array."""
BOOLEAN, STRING, BINARY = Atomic("boolean"), Atomic("string"), Atomic("binary")
BIGINT, FLOAT, DOUBLE = Atomic("bigint"), Atomic("float"), Atomic("double")
DATE, TIMESTAMP, TIMESTAMP_NTZ = Atomic("date"), Atomic("timestamp"), Atomic("timestamp_ntz")

MAX_DIGITS = 38
"""Of a decimal, in Spark and Delta."""

_INT_DIGITS: Mapping[Type, int] = {Atomic("tinyint"): 3, Atomic("smallint"): 5, Atomic("int"): 10, BIGINT: 20}
"""Digits of the decimal that holds each, as in Spark's `DecimalType.forType`."""
_EXACT_IN_FLOAT = (Atomic("tinyint"), Atomic("smallint"))
_TIMES = (DATE, TIMESTAMP_NTZ, TIMESTAMP)
"""Each holds those before it: a date is the start of its day, and a time without a zone is taken as UTC."""


def merge(one: Type, other: Type) -> Type:
    """The narrowest type that holds the values of both; STRING where no other does."""
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    match one, other:
        case Struct(), Struct():
            return _merge_structs(one, other)
        case Array(), Array():
            return Array(merge(one.element, other.element))
        case Map(), Map():
            return Map(merge(one.key, other.key), merge(one.value, other.value))
    return _merge_numbers(one, other) or _merge_times(one, other) or STRING


def merge_all(types: Iterable[Type]) -> Type:
    """VOID if there are none."""
    nothing: Type = VOID
    return reduce(merge, types, nothing)


def gives_up(kind: Type, joined: Type) -> bool:
    """Whether a column of the joined type holds values of the other as text, or, as a DOUBLE, perhaps not all of them:
    what a person may want to decide otherwise."""
    match kind, joined:
        case Struct(columns), Struct():
            theirs = {column.name: column.type for column in joined.columns}
            return any(gives_up(column.type, theirs[column.name]) for column in columns)
        case Array(), Array():
            return gives_up(kind.element, joined.element)
        case Map(), Map():
            return gives_up(kind.key, joined.key) or gives_up(kind.value, joined.value)
    if joined == DOUBLE:
        return kind == BIGINT or isinstance(kind, Decimal)
    return joined == STRING and kind not in (STRING, VOID)


def _merge_structs(one: Struct, other: Struct) -> Struct:
    """A column that one of them lacks is nullable."""
    theirs = {column.name: column for column in other.columns}
    merged = [_merge_columns(column, theirs.pop(column.name, None)) for column in one.columns]
    return Struct((*merged, *(_merge_columns(column, None) for column in theirs.values())))


def _merge_columns(one: Column, other: Column | None) -> Column:
    if other is None:
        return replace(one, nullable=True)
    return replace(one, type=merge(one.type, other.type), nullable=one.nullable or other.nullable)


def _merge_numbers(one: Type, other: Type) -> Type | None:
    """None unless both are numbers."""
    if not (_is_number(one) and _is_number(other)):
        return None
    if one in _INT_DIGITS and other in _INT_DIGITS:
        return max(one, other, key=lambda kind: _INT_DIGITS[kind])
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        return _merge_decimals(one, other)
    narrow = {one, other} <= {FLOAT, *_EXACT_IN_FLOAT}
    return FLOAT if narrow else DOUBLE


def _is_number(kind: Type) -> bool:
    return isinstance(kind, Decimal) or kind in _INT_DIGITS or kind in (FLOAT, DOUBLE)


def _merge_decimals(one: Type, other: Type) -> Type:
    (whole, scale), (other_whole, other_scale) = _digits(one), _digits(other)
    scale = max(scale, other_scale)
    precision = max(whole, other_whole) + scale
    return Decimal(precision, scale) if precision <= MAX_DIGITS else DOUBLE


def _digits(kind: Type) -> tuple[int, int]:
    """Before and after the decimal point. No decimal has as many as a FLOAT or a DOUBLE."""
    if isinstance(kind, Decimal):
        return kind.precision - kind.scale, kind.scale
    return _INT_DIGITS.get(kind, MAX_DIGITS + 1), 0


def _merge_times(one: Type, other: Type) -> Type | None:
    """None unless both are dates or times."""
    return max(one, other, key=_TIMES.index) if one in _TIMES and other in _TIMES else None
