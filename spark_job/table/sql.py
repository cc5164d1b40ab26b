"""Names, types and values as Spark's SQL spells them."""

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def quoted(name: str) -> str:
    """A column's name as an identifier: it may hold dots."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def type_sql(data_type: DataType) -> str:
    """With the names in it quoted, which `simpleString` does not."""
    if isinstance(data_type, StructType):
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {type_sql(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{type_sql(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
    return data_type.simpleString()
