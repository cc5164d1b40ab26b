"""Values that have a type in their file, as plain Python objects, and what a column has to make of them."""

import ctypes
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tests.proof.bad_input.values import Expected

_EPOCH, _FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_MICRO, _LAST_MICRO = -62_135_596_800_000_000, 253_402_300_800_000_000 - 1
_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


class Micros(int):
    """Since 1970."""


class Days(int):
    """Since 1970."""


class Single(float):
    """Of 32 bits: its text has as many digits as tell it from others of these."""


class SingleText(float):
    """The text of one."""


class NumberText(float):
    """The number that a text reads as."""


class AnyText:
    """A text, whichever."""


class Entries(list[tuple[Any, Any]]):
    """Of a map."""


def plain_values(values: pa.Array) -> list[Any]:
    """Text and bytes as bytes, times as numbers, whatever they are."""
    kind, types = values.type, pa.types
    if types.is_dictionary(kind):
        return plain_values(values.dictionary_decode())
    if isinstance(kind, pa.BaseExtensionType):
        return plain_values(values.storage)
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        large = types.is_large_string(kind) or types.is_large_binary(kind)
        return [*values.view(pa.large_binary() if large else pa.binary()).to_pylist()]
    if types.is_timestamp(kind):
        ticks = values.view(pa.int64()).to_pylist()
        if kind.unit == "ns":
            return [None if tick is None else Micros(tick // 1_000) for tick in ticks]
        return [None if tick is None else Micros(tick * _TICKS[kind.unit]) for tick in ticks]
    if types.is_date(kind):
        each = 1 if types.is_date32(kind) else 86_400_000
        days = values.view(pa.int32() if each == 1 else pa.int64()).to_pylist()
        return [None if day is None else Days(day // each) for day in days]
    if types.is_float32(kind):
        return [None if number is None else Single(number) for number in values.to_pylist()]
    return _nested(values)


def _nested(values: pa.Array) -> list[Any]:
    kind, types = values.type, pa.types
    there = values.is_valid().to_pylist()
    if types.is_struct(kind):
        each = {kind.field(at).name: plain_values(column) for at, column in enumerate(values.flatten())}
        return [
            {name: column[row] for name, column in each.items()} if is_there else None
            for row, is_there in enumerate(there)
        ]
    if types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
        ends = values.offsets.to_pylist()
        spans = [slice(start, end) for start, end in pairwise(ends)]
        if types.is_map(kind):
            keys, items = plain_values(values.keys), plain_values(values.items)
            entries = [Entries(zip(keys[span], items[span], strict=True)) for span in spans]
            return [entry if is_there else None for entry, is_there in zip(entries, there, strict=True)]
        inner = plain_values(values.values)
        return [inner[span] if is_there else None for span, is_there in zip(spans, there, strict=True)]
    return [*values.to_pylist()]


def expected(value: Any, field: StructField) -> Expected:
    if value is None:
        return Expected(field.nullable, lambda found: found is None)
    fits, wanted = _fitted(value, field.dataType)
    return Expected(fits, lambda found: _same(found, wanted))


def _all(each: Sequence[tuple[bool | None, Any]]) -> tuple[bool | None, list[Any]]:
    fits = [fit for fit, _ in each]
    return (False if False in fits else None if None in fits else True), [value for _, value in each]


def _same(found: Any, value: Any) -> bool:
    if isinstance(value, AnyText | NumberText):
        return isinstance(found, str) and (isinstance(value, AnyText) or _same(float(found), float(value)))
    if isinstance(value, SingleText):
        return isinstance(found, str) and _same(_single(float(found)), float(value))
    if isinstance(value, float) and isinstance(found, float):
        return found == value or (math.isnan(found) and math.isnan(value))
    if isinstance(value, Mapping) and isinstance(found, Mapping):
        return found.keys() == value.keys() and all(_same(found[name], value[name]) for name in value)
    if isinstance(value, list | tuple) and isinstance(found, list | tuple):
        return len(found) == len(value) and all(map(_same, found, value))
    return type(found) is type(value) and bool(found == value)


def _single(number: float) -> float:
    """The nearest of 32 bits."""
    return ctypes.c_float(number).value


def _fitted(value: Any, data_type: DataType) -> tuple[bool | None, Any]:
    """Whether it fits, and the value as a row has it."""
    if value is None:
        return True, None
    rule = _RULES.get(type(data_type))
    return (None, value) if rule is None or not isinstance(value, rule[0]) else rule[1](value, data_type)


def _text(value: Any, data_type: DataType) -> tuple[bool | None, Any]:
    match value:
        case bytes():
            try:
                return True, value.decode()
            except UnicodeDecodeError:
                return False, None
        case Days():
            fits, day = _date(value, data_type)
            return fits, day and day.isoformat()
        case Micros():
            fits, moment = _timestamp(value, data_type)
            return fits, moment and re.sub(r"(\.\d*?)0+$", r"\1", moment.replace(tzinfo=None).isoformat(" "))
        case bool() | int():
            return True, str(value).lower()
        case Single():
            return True, SingleText(value)
        case float() | Decimal():
            return True, NumberText(value)
    return None, AnyText()


def _double(value: Any, _: DataType) -> tuple[bool | None, Any]:
    number = float(value)
    if isinstance(value, bool | Micros | Days):
        return None, number
    return isinstance(value, float) or value in (Decimal(number), Decimal(str(number))), number


def _integer(value: int, data_type: DataType) -> tuple[bool | None, Any]:
    half = 1 << (_BITS[data_type.simpleString()] - 1)
    return (None, value) if isinstance(value, bool | Micros | Days) else (-half <= value < half, value)


def _decimal(value: int | Decimal, data_type: DataType) -> tuple[bool | None, Any]:
    assert isinstance(data_type, DecimalType)
    return abs(value) < Decimal(10) ** (data_type.precision - data_type.scale), Decimal(value)


def _date(value: Days, _: DataType) -> tuple[bool | None, Any]:
    fits = date.min.toordinal() <= value + _FIRST_DAY.toordinal() <= date.max.toordinal()
    return fits, _FIRST_DAY + timedelta(days=value) if fits else None


def _timestamp(value: Micros | Days, _: DataType) -> tuple[bool | None, Any]:
    if isinstance(value, Days):
        value = Micros(value * 86_400_000_000)
    fits = _FIRST_MICRO <= value <= _LAST_MICRO
    return fits, _EPOCH + value * _MICROSECOND if fits else None


def _array(value: list[Any], data_type: DataType) -> tuple[bool | None, Any]:
    assert isinstance(data_type, ArrayType)
    return _all([_fitted(element, data_type.elementType) for element in value])


def _map(value: Entries, data_type: DataType) -> tuple[bool | None, Any]:
    assert isinstance(data_type, MapType)
    fits_keys, keys = _all([_fitted(key, data_type.keyType) for key, _ in value])
    fits_items, items = _all([_fitted(item, data_type.valueType) for _, item in value])
    fits = False if False in (fits_keys, fits_items) else None if None in (fits_keys, fits_items) else True
    return fits, [*zip(keys, items, strict=True)]


def _struct(value: Mapping[str, Any], data_type: DataType) -> tuple[bool | None, Any]:
    assert isinstance(data_type, StructType)
    fits, inner = _all([_fitted(value.get(one.name), one.dataType) for one in data_type])
    return fits, dict(zip(data_type.names, inner, strict=True))


_RULES: Mapping[type[DataType], tuple[Any, Callable[[Any, Any], tuple[bool | None, Any]]]] = {
    StringType: (object, _text),
    BinaryType: (bytes, lambda value, _: (True, value)),
    BooleanType: (bool, lambda value, _: (True, value)),
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType), (int, _integer)),
    DoubleType: (int | float | Decimal, _double),
    DecimalType: (int | Decimal, _decimal),
    DateType: (Days, _date),
    TimestampType: (Micros | Days, _timestamp),
    ArrayType: (list, _array),
    MapType: (Entries, _map),
    StructType: (dict, _struct),
}
"""By column: the class of the values that may fit, and the rule."""
