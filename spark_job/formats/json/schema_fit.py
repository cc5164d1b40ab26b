"""Checks of a parsed record that Spark's JSON parser does not make itself: NOT NULL and ranges."""

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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_job.formats.nullable_type import nullable_with_leaves
from spark_job.formats.refusals import does_not_fit, is_missing


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """One way in which a record may not fit: `condition` is true where it does not. Null counts as false."""

    reason: str
    condition: Column


@dataclass(frozen=True, slots=True)
class _Range:
    """Smallest and largest value of a type, as SQL."""

    first: str
    last: str


# Spark's parser reads '19750' as a year, and milliseconds as seconds. The resulting year is outside the range of SQL's
# types, and hardly any other engine can read it.
_RANGES: Mapping[type[DataType], _Range] = {
    ByteType: _Range("-128S", "127S"),
    DateType: _Range("DATE'0001-01-01'", "DATE'9999-12-31'"),
    TimestampType: _Range("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    TimestampNTZType: _Range("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}


def parsing_type(data_type: DataType) -> DataType:
    """The type that `from_json` gets. It turns 200 into the TINYINT -56, so TINYINT is read as a wider type."""
    return nullable_with_leaves(data_type, lambda leaf: ShortType() if isinstance(leaf, ByteType) else leaf)


def schema_checks(schema: StructType, record: Column) -> Iterator[SchemaCheck]:
    """Every check of a record that was parsed with `parsing_type`, also inside structs, arrays and maps."""
    yield from _in_struct(schema, record, "")


def _in_struct(schema: StructType, parent: Column, prefix: str) -> Iterator[SchemaCheck]:
    for field in schema.fields:
        path, value = f"{prefix}{field.name}", parent.getField(field.name)
        if not field.nullable:
            yield SchemaCheck(is_missing(path), parent.isNotNull() & value.isNull())
        yield from _in_value(field.dataType, value, path)


def _in_value(data_type: DataType, value: Column, path: str) -> Iterator[SchemaCheck]:
    if isinstance(data_type, StructType):
        yield from _in_struct(data_type, value, f"{path}.")
    elif isinstance(data_type, ArrayType):
        yield from _in_each(data_type.elementType, value, f"{path}[]")
    elif isinstance(data_type, MapType):
        yield from _in_each(data_type.valueType, F.map_values(value), f"{path}{{}}")
    elif (limits := _RANGES.get(type(data_type))) is not None:
        inside = value.between(F.expr(limits.first), F.expr(limits.last))
        yield SchemaCheck(does_not_fit(path, data_type), ~inside)


def _in_each(element_type: DataType, elements: Column, path: str) -> Iterator[SchemaCheck]:
    for index, check in enumerate(_in_value(element_type, F.lit(None), path)):
        yield SchemaCheck(check.reason, F.exists(elements, _finder(element_type, path, index)))


def _finder(element_type: DataType, path: str, index: int) -> Callable[[Column], Column]:
    def found(element: Column) -> Column:
        condition = list(_in_value(element_type, element, path))[index].condition
        return F.coalesce(condition, F.lit(False))

    return found
