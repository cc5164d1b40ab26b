"""Identifiers, types and string literals in Spark SQL."""

import re

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


def type_text(data_type: DataType) -> str:
    """The type as in `simpleString`, but with those field names quoted that a schema in DDL needs so."""
    if isinstance(data_type, StructType):
        return f"struct<{','.join(f'{_name(f.name)}:{type_text(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, ArrayType):
        return f"array<{type_text(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{type_text(data_type.keyType)},{type_text(data_type.valueType)}>"
    return data_type.simpleString()


def _name(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_]+", name) else quoted(name)
