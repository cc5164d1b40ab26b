"""Spark's types without NOT NULL: as formats parse records, and as Delta requires of nested types."""

from collections.abc import Callable

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


def nullable_type(data_type: DataType) -> DataType:
    """The type without any NOT NULL, at any depth."""
    return nullable_with_leaves(data_type, lambda leaf: leaf)


def nullable_with_leaves(data_type: DataType, leaf_type: Callable[[DataType], DataType]) -> DataType:
    """The type without any NOT NULL, at any depth, and with each leaf replaced by its `leaf_type`."""
    if isinstance(data_type, StructType):
        fields = [(f.name, nullable_with_leaves(f.dataType, leaf_type), f.metadata) for f in data_type]
        return StructType([StructField(name, kind, True, metadata) for name, kind, metadata in fields])
    if isinstance(data_type, ArrayType):
        return ArrayType(nullable_with_leaves(data_type.elementType, leaf_type), True)
    if isinstance(data_type, MapType):
        key = nullable_with_leaves(data_type.keyType, leaf_type)
        return MapType(key, nullable_with_leaves(data_type.valueType, leaf_type), True)
    return leaf_type(data_type)
