"""Identifiers, types and string literals in Spark SQL."""

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def quoted(name: str) -> str:
    """A column name in backticks; it may contain dots and backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def type_sql(data_type: DataType) -> str:
    """The type as in `simpleString`, but with field names quoted."""
    if isinstance(data_type, StructType):
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {type_sql(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{type_sql(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
    return data_type.simpleString()
