"""Spark types without NOT NULL: nested NOT NULL is not allowed in the table, and the reader enforces it per record."""

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


def nullable_type(data_type: DataType) -> DataType:
    """The same type with all its fields, elements and values nullable, also inside structs, arrays and maps."""
    if isinstance(data_type, StructType):
        return StructType([StructField(f.name, nullable_type(f.dataType), True, f.metadata) for f in data_type])
    if isinstance(data_type, ArrayType):
        return ArrayType(nullable_type(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(nullable_type(data_type.keyType), nullable_type(data_type.valueType), True)
    return data_type
