"""The required column value of a JSON value, by docs/formats.md and without code of the product."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_WHOLE = re.compile(r"-?[0-9]+")
_PLAIN_DECIMAL = re.compile(r"-?[0-9]{1,28}(\.[0-9]{1,10})?")
_LARGE_EXPONENT = re.compile(r"[eE][-+]?0*[1-9][0-9]{4}")
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})([T ].*)?)?)?", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_USUAL_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-](0\d|1[0-7]):[0-5]\d)?", re.ASCII)
_HAS_YEAR = re.compile(r"[\x00-\x20\x7f]*[-+]?[0-9]{4}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_NOT_FINITE = {"NaN": math.nan} | {
    f"{sign}{word}": float(f"{sign}inf")
    for sign in ("", "+", "-")
    for word in ("INF", "Infinity")
    if sign + word != "INF"
}


class Number(str):
    """As written. NaN and Infinity are numbers too."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object, which may have duplicate keys."""


class Expected(NamedTuple):
    """`fits`: whether the value can be in a row; None: either. `holds`: whether a row's value is the required one."""

    fits: bool | None
    holds: Callable[[Any], bool]


def read_json(text: str) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=Pairs)


def by_name(pairs: Pairs) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


# --- One value ---


_NEVER = Expected(False, lambda found: False)
_SOMETHING = Expected(None, lambda found: found is not None)
NULL = Expected(True, lambda found: found is None)


def _exactly(value: Any, fits: bool | None = True) -> Expected:
    return Expected(fits, lambda found: bool(found == value))


def expected(field: StructField, given: Sequence[Any]) -> Expected:
    """Of a duplicate key the last value counts, and the others must fit too."""
    each = [_value(value, field.dataType) for value in given]
    last = each[-1] if each else NULL
    if _all_fit(each) is False or (last is NULL and not field.nullable):
        return _NEVER
    return last if len(given) < 2 else Expected(None, last.holds)


def _value(value: Any, data_type: DataType) -> Expected:
    return NULL if value is None else _RULES[type(data_type)](value, data_type)


def _text(value: Any, _: DataType) -> Expected:
    """A value that is not a string becomes its JSON text."""
    if type(value) is str:
        return _exactly(value, None if "\0" in value else True)
    if isinstance(value, bool):
        return _exactly("true" if value else "false", None)
    return Expected(None, lambda found: isinstance(found, str) and _is_text_of(found, value))


def _is_text_of(found: str, value: Any) -> bool:
    if isinstance(value, Number):
        return _same(Number(found.strip('"')), value)
    try:
        return _same(read_json(found), value)
    except (ValueError, RecursionError):
        return False


def _same(found: Any, value: Any) -> bool:
    """Numbers with a decimal point may have lost what a double cannot hold; NaN and Infinity may have become
    strings."""
    if isinstance(value, Number):
        whole = _WHOLE.fullmatch(value) and _WHOLE.fullmatch(found) if isinstance(found, str) else None
        return isinstance(found, str) and (_plain(found) == _plain(value) if whole else _same_double(found, value))
    if isinstance(value, Pairs):
        return isinstance(found, Pairs) and _same([[*pair] for pair in found], [[*pair] for pair in value])
    if isinstance(value, list):
        return type(found) is list and len(found) == len(value) and all(map(_same, found, value))
    return type(found) is type(value) and bool(found == value)


def _plain(whole: str) -> str:
    return "0" if whole == "-0" else whole


def _same_double(found: str, value: str) -> bool:
    try:
        return _equal_doubles(float(found), float(value))
    except ValueError:
        return False


def _equal_doubles(found: float, value: float) -> bool:
    return found == value or (math.isnan(found) and math.isnan(value))


def _long(value: Any, _: DataType) -> Expected:
    whole = _whole(value, -(2**63), 2**63 - 1)
    return _NEVER if whole is None else _exactly(whole)


def _whole(value: Any, first: int, last: int) -> int | None:
    if not isinstance(value, Number) or not _WHOLE.fullmatch(value) or len(value) > 20:
        return None
    return int(value) if first <= int(value) <= last else None


def _boolean(value: Any, _: DataType) -> Expected:
    return _exactly(value) if isinstance(value, bool) else _NEVER


def _double(value: Any, _: DataType) -> Expected:
    if isinstance(value, Number):
        number = float(value)
    elif type(value) is str and value in _NOT_FINITE:
        number = _NOT_FINITE[value]
    else:
        return _NEVER
    fits = True if math.isfinite(number) else None
    return Expected(fits, lambda found: isinstance(found, float) and _equal_doubles(found, number))


def _decimal(value: Any, data_type: DataType) -> Expected:
    """Rounded half up; commas in strings are removed."""
    assert isinstance(data_type, DecimalType)
    if not isinstance(value, str):
        return _NEVER
    try:
        number = Decimal(str(value) if isinstance(value, Number) else value.replace(",", ""))
    except (InvalidOperation, ValueError):
        return _NEVER
    most = data_type.precision - data_type.scale
    if not number.is_finite() or (number and number.adjusted() >= most):
        return _NEVER
    smallest, exact = Decimal(1).scaleb(-data_type.scale), Context(prec=100)
    tiny = not number or number.adjusted() < -data_type.scale - 1
    rounded = Decimal(0) if tiny else number.quantize(smallest, ROUND_HALF_UP, exact)
    if abs(rounded) >= Decimal(10) ** most:
        return _NEVER
    plain = _PLAIN_DECIMAL.fullmatch(value) or (isinstance(value, Number) and not _LARGE_EXPONENT.search(value))
    return _exactly(rounded, True if plain else None)


def _date(value: Any, _: DataType) -> Expected:
    if type(value) is not str or not _HAS_YEAR.match(value):
        return _NEVER
    found = _DAY.fullmatch(value)
    if found is None:
        return _SOMETHING
    year, month, day, more = found.groups()
    try:
        expected = date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return _NEVER
    return _exactly(expected, True if len(value) == 10 and not more else None)


def _timestamp(value: Any, _: DataType) -> Expected:
    """Strings, UTC without a zone, cut after microseconds; and whole numbers of seconds since 1970."""
    if isinstance(value, Number):
        seconds = _whole(value, _FIRST_SECOND, _LAST_SECOND)
        return _NEVER if seconds is None else _exactly(_EPOCH + timedelta(seconds=seconds))
    if type(value) is not str or not _HAS_YEAR.match(value):
        return _NEVER
    found = _MOMENT.fullmatch(value)
    if found is None:
        return _SOMETHING
    *parts, fraction, zone = found.groups()
    try:
        moment = datetime(*(int(part or 0) for part in parts), tzinfo=UTC)  # type: ignore[arg-type, misc]
        moment += timedelta(microseconds=int((fraction or "").ljust(6, "0")[:6])) - _offset(zone or "Z")
    except (ValueError, OverflowError):
        return _NEVER
    return _exactly(moment, True if _USUAL_MOMENT.fullmatch(value) else None)


def _offset(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta()
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
    return -offset if zone[0] == "-" else offset


def _array(value: Any, data_type: DataType) -> Expected:
    assert isinstance(data_type, ArrayType)
    if type(value) is not list:
        return _NEVER
    each = [_value(element, data_type.elementType) for element in value]
    return Expected(_all_fit(each), lambda found: type(found) is list and _hold(each, found))


def _map(value: Any, data_type: DataType) -> Expected:
    """A duplicate key stays duplicate."""
    assert isinstance(data_type, MapType)
    if not isinstance(value, Pairs):
        return _NEVER
    keys, each = [key for key, _ in value], [_value(inner, data_type.valueType) for _, inner in value]
    fits = _all_fit(each) if len({*keys}) == len(keys) else _all_fit([*each, _SOMETHING])

    def holds(found: Any) -> bool:
        pairs = [*found.items()] if isinstance(found, dict) else found
        return type(pairs) is list and [key for key, _ in pairs] == keys and _hold(each, [inner for _, inner in pairs])

    return Expected(fits, holds)


def _struct(value: Any, data_type: DataType) -> Expected:
    assert isinstance(data_type, StructType)
    if not isinstance(value, Pairs):
        return _NEVER
    values = by_name(value)
    each = [expected(field, values.get(field.name, ())) for field in data_type]

    def holds(found: Any) -> bool:
        return isinstance(found, dict) and _hold(each, [found[field.name] for field in data_type])

    return Expected(_all_fit(each) if len(values) == len(value) else _all_fit([*each, _SOMETHING]), holds)


def _all_fit(each: Sequence[Expected]) -> bool | None:
    fits = [expected.fits for expected in each]
    return False if False in fits else None if None in fits else True


def _hold(each: Sequence[Expected], found: Sequence[Any]) -> bool:
    return len(each) == len(found) and all(expected.holds(value) for expected, value in zip(each, found, strict=True))


_RULES: Mapping[type[DataType], Callable[[Any, DataType], Expected]] = {
    StringType: _text,
    LongType: _long,
    BooleanType: _boolean,
    DoubleType: _double,
    DecimalType: _decimal,
    DateType: _date,
    TimestampType: _timestamp,
    ArrayType: _array,
    MapType: _map,
    StructType: _struct,
}
