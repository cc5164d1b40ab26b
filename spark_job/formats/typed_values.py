"""Values that have a type in their file, in the type of a schema's column: never narrowed, never changed.

Widening follows Spark's Parquet reader: SpecificParquetRecordReaderBase and ParquetVectorUpdaterFactory of Spark 4.1.
Beyond it, a column takes the values of all types that `blizzard.infer.types.merge` joins to its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from blizzard.config.field_places import in_place
from spark_job.formats.converted_column import ConvertedColumn, rows_outside, rows_where
from spark_job.formats.nested_columns import INTEGERS, column_type, compact, convert_nested, parents_of
from spark_job.formats.old_calendar import ANY, Earliest
from spark_job.formats.value_texts import texts_of

_LAST_SECOND = 253_402_300_799
"""Of the year 9999, since 1970."""
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SAME_SIZE = (8, 16, 32)
"""Bits of integers that a file may hold for a narrower column: Parquet has no narrower physical type."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Of a decimal that holds integers of so many bits."""
_EXACT = 1 << 53
"""Up to it, a double holds each integer."""


@lru_cache(maxsize=256)  # each batch of each file asks for its columns
def plain_type(found: pa.DataType) -> pa.DataType:
    """The type without dictionaries, extensions, and Arrow's other layouts of text, bytes and lists. Raises
    UnicodeDecodeError for a damaged name of a field or time zone, which pyarrow decodes when it is asked for."""
    types = pa.types
    if isinstance(found, pa.BaseExtensionType):
        return plain_type(found.storage_type)
    if types.is_dictionary(found):
        return plain_type(found.value_type)
    if types.is_large_string(found) or types.is_string_view(found):
        return pa.string()
    if types.is_large_binary(found) or types.is_fixed_size_binary(found) or types.is_binary_view(found):
        return pa.binary()
    if types.is_struct(found):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in found])
    if types.is_map(found):
        return pa.map_(plain_type(found.key_type), pa.field("value", plain_type(found.item_type)))
    if types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found):
        return pa.list_(pa.field("element", plain_type(found.value_type)))
    if types.is_timestamp(found):
        return pa.timestamp(found.unit, found.tz)
    return found


def plain_values(values: pa.Array) -> pa.Array:
    """In their `plain_type`. Raises ArrowInvalid for what is damaged."""
    plain = plain_type(values.type)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values if values.type == plain else values.cast(plain)


def misfit(found: pa.DataType, wanted: DataType, path: str) -> str | None:
    """Why a column of this type cannot be read as the schema's; None if it can. `found`: a `plain_type`."""
    types = pa.types
    if types.is_null(found):
        return None
    if isinstance(wanted, StructType) and types.is_struct(found):
        return _misfit_of_struct(found, wanted, path)
    if isinstance(wanted, ArrayType) and types.is_list(found):
        return misfit(found.value_type, wanted.elementType, f"{path}[]")
    if isinstance(wanted, MapType) and types.is_map(found):
        of_key = misfit(found.key_type, wanted.keyType, f"{path}{{key}}")
        return of_key or misfit(found.item_type, wanted.valueType, f"{path}{{}}")
    accepts = _ACCEPTS.get(type(wanted))
    if accepts is not None and accepts(found, wanted):
        return None
    return f"{path}: expected {wanted.simpleString()}, found {found}, which does not widen to it"


def _misfit_of_struct(found: pa.DataType, wanted: StructType, path: str) -> str | None:
    types = {field.name: field.type for field in found}
    if len(types) < found.num_fields:
        return f"{path}: two of its fields have the same name"
    for field in wanted:
        inner = f"{path}.{field.name}"
        why = misfit(types[field.name], field.dataType, inner) if field.name in types else None
        if why is not None:
            return why
    return None


def unknown_fields(found: pa.DataType, wanted: DataType, path: str) -> dict[str, pa.DataType]:
    """The fields that no column is for, by name. `found`: a `plain_type`."""
    return dict(_unknown_fields(found, wanted, path))


def _unknown_fields(found: pa.DataType, wanted: DataType, path: str) -> Iterator[tuple[str, pa.DataType]]:
    types = pa.types
    if isinstance(wanted, StructType) and types.is_struct(found):
        for field in found:
            name = f"{path}.{in_place(field.name)}" if path else in_place(field.name)
            if field.name in wanted.names:
                yield from _unknown_fields(field.type, wanted[field.name].dataType, name)
            else:
                yield name, field.type
    elif isinstance(wanted, ArrayType) and types.is_list(found):
        yield from _unknown_fields(found.value_type, wanted.elementType, f"{path}[]")
    elif isinstance(wanted, MapType) and types.is_map(found):
        yield from _unknown_fields(found.item_type, wanted.valueType, f"{path}{{}}")


def fit(values: pa.Array, wanted: DataType, earliest: Earliest = ANY, *, takes_out: bool = False) -> ConvertedColumn:
    """The values in the `column_type` of the schema. A row is doubtful if its value does not fit, or is before the
    earliest. `takes_out`: as in `convert_nested`. `misfit` must have found nothing."""
    return convert_nested(plain_values(values), wanted, partial(_leaf, earliest), takes_out=takes_out)


def _leaf(earliest: Earliest, values: pa.Array, wanted: DataType) -> ConvertedColumn:
    if pa.types.is_null(values.type):
        return ConvertedColumn(pa.nulls(len(values), column_type(wanted)))
    if pa.types.is_date(values.type):
        return _dates(values, wanted, earliest.day)
    if pa.types.is_timestamp(values.type):
        moments = _moments(values, earliest.second if values.type.tz else earliest.local_second)
        made = texts_of(moments.values) if isinstance(wanted, StringType) else moments.values.view(column_type(wanted))
        return replace(moments, values=made)
    if pa.types.is_nested(values.type):  # for STRING
        return ConvertedColumn(texts_of(values), _outside_times(values, earliest))
    convert = _CONVERT.get(type(wanted))
    return ConvertedColumn(values.cast(column_type(wanted))) if convert is None else convert(values, wanted)


def _text(values: pa.Array, wanted: DataType) -> ConvertedColumn:
    if not _is_raw(values.type):
        return ConvertedColumn(texts_of(values))
    try:
        values.validate(full=True)
        return ConvertedColumn(values.cast(pa.string()))
    except pa.ArrowInvalid:
        raw = values.view(pa.binary()).to_pylist()
    texts = [_utf8(value) for value in raw]
    bad = (row for row, (text, value) in enumerate(zip(texts, raw, strict=True)) if text is None and value is not None)
    return ConvertedColumn(pa.array(texts, pa.string()), frozenset(bad))


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _integers(values: pa.Array, wanted: DataType) -> ConvertedColumn:
    target = INTEGERS[type(wanted)]
    if values.type.bit_width <= target.bit_width:
        return ConvertedColumn(values.cast(target))
    half = 1 << (target.bit_width - 1)
    outside = rows_outside(values, pa.scalar(-half, values.type), pa.scalar(half - 1, values.type))
    return ConvertedColumn(_without(values, outside).cast(target), outside)


def _doubles(values: pa.Array, wanted: DataType) -> ConvertedColumn:
    """Integers that a double holds, and decimals that it gives back: those of up to 15 digits, and some others."""
    if pa.types.is_decimal(values.type):
        return _doubles_of_decimals(values)
    if pa.types.is_floating(values.type) or values.type.bit_width <= 32:
        return ConvertedColumn(values.cast(pa.float64()))
    first = 0 if pa.types.is_unsigned_integer(values.type) else -_EXACT
    large = rows_outside(values, pa.scalar(first, values.type), pa.scalar(_EXACT, values.type))
    inexact = frozenset(row for row in large if int(float(number := values[row].as_py())) != number)
    return ConvertedColumn(_without(values, inexact).cast(pa.float64(), safe=False), inexact)


def _doubles_of_decimals(values: pa.Array) -> ConvertedColumn:
    found: list[float | None] = []
    inexact = set[int]()
    for row, value in enumerate(values.to_pylist()):
        number = None if value is None else float(value)
        if number is not None and value not in (Decimal(repr(number)), Decimal(number)):
            inexact.add(row)
            number = None
        found.append(number)
    return ConvertedColumn(pa.array(found, pa.float64()), frozenset(inexact))


def _decimals(values: pa.Array, wanted: DataType) -> ConvertedColumn:
    assert isinstance(wanted, DecimalType)
    target = column_type(wanted)
    if pa.types.is_integer(values.type):
        return ConvertedColumn(values.cast(target))
    end = Decimal(10) ** (values.type.precision - values.type.scale)
    wide = values.cast(pa.decimal256(76, values.type.scale))
    # A file may say decimal(5,2) and hold larger numbers; Arrow does not look.
    beyond = pc.or_(pc.less_equal(wide, pa.scalar(-end, wide.type)), pc.greater_equal(wide, pa.scalar(end, wide.type)))
    outside = rows_where(beyond)
    return ConvertedColumn(_without(values, outside).cast(target), outside)


def _dates(values: pa.Array, wanted: DataType, first_day: date) -> ConvertedColumn:
    days = values.cast(pa.date32())
    outside = rows_outside(days, pa.scalar(first_day), pa.scalar(date.max))
    days = _without(days, outside)
    if isinstance(wanted, StringType):
        return ConvertedColumn(texts_of(days), outside)
    if isinstance(wanted, TimestampType):  # the start of the day in UTC
        return ConvertedColumn(days.cast(pa.timestamp("us")).view(column_type(wanted)), outside)
    return ConvertedColumn(days.cast(column_type(wanted)), outside)


def _moments(values: pa.Array, first_second: int) -> ConvertedColumn:
    """In microseconds, without a zone."""
    unit, ticks = values.type.unit, values.view(pa.int64())
    each, end = _UNITS[unit], (1 << 63) - 1  # nanoseconds in 64 bits do not leave the years of a table
    first, last = max(first_second * each, -end - 1), min((_LAST_SECOND + 1) * each - 1, end)
    outside = rows_outside(ticks, pa.scalar(first), pa.scalar(last))
    moments = _without(ticks, outside).view(pa.timestamp(unit))
    if unit == "ns":
        moments = pc.floor_temporal(moments, unit="microsecond")
    return ConvertedColumn(moments.cast(pa.timestamp("us")), outside)


def _outside_times(values: pa.Array, earliest: Earliest) -> frozenset[int]:
    """Rows that hold a date or a time at any depth that a column of its type does not take."""
    kind, types = values.type, pa.types
    if types.is_struct(kind):
        return frozenset[int]().union(*(_outside_times(child, earliest) for child in values.flatten()))
    if types.is_list(kind) or types.is_map(kind):
        values = compact(values)
        parts = (values.keys, values.items) if types.is_map(kind) else (values.values,)
        inside = frozenset[int]().union(*(_outside_times(part, earliest) for part in parts))
        return parents_of(values.offsets, inside)
    if types.is_date(kind) or types.is_timestamp(kind):
        return _leaf(earliest, values, StringType()).doubtful
    return frozenset()


def _without(values: pa.Array, rows: frozenset[int]) -> pa.Array:
    """With null in these rows."""
    if not rows:
        return values
    kept = pa.array([row not in rows for row in range(len(values))])
    return pc.if_else(kept, values, pa.scalar(None, values.type))


def _is_raw(found: pa.DataType) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_binary(found))


def _is_integer(found: pa.DataType, wanted: DataType) -> bool:
    target = INTEGERS[type(wanted)]
    if pa.types.is_unsigned_integer(found):
        return bool(found.bit_width < target.bit_width)
    return bool(pa.types.is_signed_integer(found) and found.bit_width <= max(target.bit_width, *_SAME_SIZE))


def _is_double(found: pa.DataType, wanted: DataType) -> bool:
    types = pa.types
    return bool(types.is_floating(found) or types.is_integer(found) or _is_column_decimal(found))


def _is_float(found: pa.DataType, wanted: DataType) -> bool:
    exact = (pa.float16(), pa.float32(), pa.int8(), pa.int16(), pa.uint8())
    return found in exact


def _is_column_decimal(found: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(found) and found.scale >= 0)


def _is_decimal(found: pa.DataType, wanted: DataType) -> bool:
    assert isinstance(wanted, DecimalType)
    before = wanted.precision - wanted.scale
    if pa.types.is_integer(found):
        return bool(before >= _DIGITS[found.bit_width])
    if not pa.types.is_decimal(found):
        return False
    return bool(found.scale <= wanted.scale and found.precision - found.scale <= before)


_ACCEPTS: Mapping[type[DataType], Callable[[pa.DataType, DataType], bool]] = {
    StringType: lambda found, wanted: True,
    BinaryType: lambda found, wanted: _is_raw(found),
    BooleanType: lambda found, wanted: pa.types.is_boolean(found),
    **dict.fromkeys(INTEGERS, _is_integer),
    FloatType: _is_float,
    DoubleType: _is_double,
    DecimalType: _is_decimal,
    DateType: lambda found, wanted: pa.types.is_date(found),
    TimestampType: lambda found, wanted: pa.types.is_date(found) or pa.types.is_timestamp(found),
    TimestampNTZType: lambda found, wanted: (
        pa.types.is_date(found) or (pa.types.is_timestamp(found) and found.tz is None)
    ),
}
_CONVERT: Mapping[type[DataType], Callable[[pa.Array, DataType], ConvertedColumn]] = {
    StringType: _text,
    **dict.fromkeys(INTEGERS, _integers),
    DoubleType: _doubles,
    DecimalType: _decimals,
}
