"""Spark's types from the DDL of a configuration, without a Spark session."""

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
from blizzard.errors import PermanentError

_ATOMIC: dict[str, type[DataType]] = {
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


def columns_of(text: str) -> StructType:
    """The columns of a schema in DDL. Raises PermanentError."""
    try:
        return _struct(ddl.parse(text))
    except ddl.DdlError as error:
        raise PermanentError(f"schema {text!r:.500}: {error}; correct the configuration") from error


def type_of(text: str) -> DataType:
    """One type in DDL. Raises PermanentError."""
    return columns_of(f"c {text}").fields[0].dataType


def has_ntz(found: DataType) -> bool:
    match found:
        case TimestampNTZType():
            return True
        case StructType():
            return any(has_ntz(field.dataType) for field in found.fields)
        case ArrayType():
            return has_ntz(found.elementType)
        case MapType():
            return has_ntz(found.keyType) or has_ntz(found.valueType)
    return False


def _struct(struct: ddl.Struct) -> StructType:
    return StructType([_field(column) for column in struct.columns])


def _field(column: ddl.Column) -> StructField:
    metadata = None if column.comment is None else {"comment": column.comment}
    return StructField(column.name, _type(column.type), column.nullable, metadata)


def _type(found: ddl.Type) -> DataType:
    match found:
        case ddl.Atomic(name):
            return _ATOMIC[name]()
        case ddl.Decimal(precision, scale):
            return DecimalType(precision, scale)
        case ddl.Array(element):
            return ArrayType(_type(element))
        case ddl.Map(key, value):
            return MapType(_type(key), _type(value))
        case ddl.Struct():
            return _struct(found)
