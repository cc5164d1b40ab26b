"""Types of a configuration's DDL as Spark's own, and back."""

from collections.abc import Iterable, Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from blizzard.config import ddl

_ATOMIC: Mapping[str, type[DataType]] = {
    "boolean": BooleanType,
    "tinyint": ByteType,
    "smallint": ShortType,
    "int": IntegerType,
    "bigint": LongType,
    "float": FloatType,
    "double": DoubleType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ntz": TimestampNTZType,
    "string": StringType,
    "binary": BinaryType,
}
_NAMES = {kind: name for name, kind in _ATOMIC.items()}


def spark_struct(struct: ddl.Struct) -> StructType:
    return StructType([_field(column) for column in struct.columns])


def spark_type(found: ddl.Type) -> DataType:
    match found:
        case ddl.Atomic(name):
            return _ATOMIC[name]()
        case ddl.Decimal(precision, scale):
            return DecimalType(precision, scale)
        case ddl.Array(element):
            return ArrayType(spark_type(element))
        case ddl.Map(key, value):
            return MapType(spark_type(key), spark_type(value))
        case ddl.Struct():
            return spark_struct(found)


def ddl_types(fields: Iterable[StructField]) -> dict[str, ddl.Type]:
    """By name. Types that no DDL of a configuration has, such as VARIANT, are left out."""
    found = {field.name: _ddl_type(field.dataType) for field in fields}
    return {name: kind for name, kind in found.items() if kind is not None}


def _ddl_type(kind: DataType) -> ddl.Type | None:
    if isinstance(kind, DecimalType):
        return ddl.Decimal(kind.precision, kind.scale)
    if isinstance(kind, StructType):
        columns = ddl_types(kind.fields)
        return ddl.Struct(tuple(ddl.Column(name, inner) for name, inner in columns.items()))
    if isinstance(kind, ArrayType):
        element = _ddl_type(kind.elementType)
        return None if element is None else ddl.Array(element)
    if isinstance(kind, MapType):
        key, value = _ddl_type(kind.keyType), _ddl_type(kind.valueType)
        return None if key is None or value is None else ddl.Map(key, value)
    name = _NAMES.get(type(kind))
    return None if name is None or kind.simpleString() != name else ddl.Atomic(name)


def _field(column: ddl.Column) -> StructField:
    metadata = None if column.comment is None else {"comment": column.comment}
    return StructField(column.name, spark_type(column.type), column.nullable, metadata)
