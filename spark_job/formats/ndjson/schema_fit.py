"""Whether a parsed record fits its schema, beyond what Spark's JSON parser looks at."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    MapType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """One thing that may be wrong with a record: `condition` is true where it is (null counts as false)."""

    reason: str
    condition: Column


@dataclass(frozen=True, slots=True)
class _Range:
    """First and last value that a type may have, as SQL."""

    first: str
    last: str


# Spark's parser takes '19750' for a year and a time in milliseconds for one in seconds; the year that comes of it lies
# beyond what SQL's types hold, and hardly any other engine can read it.
_RANGES: Mapping[type[DataType], _Range] = {
    ByteType: _Range("-128S", "127S"),
    DateType: _Range("DATE'0001-01-01'", "DATE'9999-12-31'"),
    TimestampType: _Range("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    TimestampNTZType: _Range("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}


def does_not_fit(path: str, data_type: DataType) -> str:
    """As dead letters say it."""
    return f"{path}: the value does not fit {data_type.simpleString()}"


def parsing_type(data_type: DataType) -> DataType:
    """The type for `from_json`, without NOT NULL. It reads 200 as a TINYINT of -56, so TINYINT is widened."""
    if isinstance(data_type, StructType):
        return StructType([StructField(f.name, parsing_type(f.dataType), True, f.metadata) for f in data_type])
    if isinstance(data_type, ArrayType):
        return ArrayType(parsing_type(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(parsing_type(data_type.keyType), parsing_type(data_type.valueType), True)
    return ShortType() if isinstance(data_type, ByteType) else data_type


def misfits(schema: StructType, record: Column) -> Iterator[Misfit]:
    """All that may be wrong with a record that was parsed with `parsing_type`, also inside structs, arrays and maps."""
    yield from _in_struct(schema, record, "")


def _in_struct(schema: StructType, parent: Column, prefix: str) -> Iterator[Misfit]:
    for field in schema.fields:
        path, value = f"{prefix}{field.name}", parent.getField(field.name)
        if not field.nullable:
            yield Misfit(f"{path}: NOT NULL, but it is missing or null", parent.isNotNull() & value.isNull())
        yield from _in_value(field.dataType, value, path)


def _in_value(data_type: DataType, value: Column, path: str) -> Iterator[Misfit]:
    if isinstance(data_type, StructType):
        yield from _in_struct(data_type, value, f"{path}.")
    elif isinstance(data_type, ArrayType):
        yield from _in_each(data_type.elementType, value, f"{path}[]")
    elif isinstance(data_type, MapType):
        yield from _in_each(data_type.valueType, F.map_values(value), f"{path}{{}}")
    elif (limits := _RANGES.get(type(data_type))) is not None:
        inside = value.between(F.expr(limits.first), F.expr(limits.last))
        yield Misfit(does_not_fit(path, data_type), ~inside)


def _in_each(element_type: DataType, elements: Column, path: str) -> Iterator[Misfit]:
    for index, misfit in enumerate(_in_value(element_type, F.lit(None), path)):
        yield Misfit(misfit.reason, F.exists(elements, _finder(element_type, path, index)))


def _finder(element_type: DataType, path: str, index: int) -> Callable[[Column], Column]:
    def found(element: Column) -> Column:
        condition = list(_in_value(element_type, element, path))[index].condition
        return F.coalesce(condition, F.lit(False))

    return found
