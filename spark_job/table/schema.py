"""Spark's columns from the DDL of a configuration, without a Spark session."""

from collections.abc import Collection, Iterable

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampNTZType

from blizzard.config import ddl
from blizzard.errors import PermanentError
from spark_job.expressions.spark_types import spark_struct

NTZ = "timestampNtz"
"""The table feature that a column of type TIMESTAMP_NTZ needs."""


def columns_of(text: str) -> StructType:
    """The columns of a schema in DDL; none for an empty one, which is not known yet. Raises PermanentError."""
    if not text:
        return StructType()
    try:
        return spark_struct(ddl.parse(text))
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


def gets_ntz(writer_features: Collection[str], added: Iterable[StructField]) -> str | None:
    """The first of these columns for which a table with these features has to get another one."""
    if NTZ in writer_features:
        return None
    return next((field.name for field in added if has_ntz(field.dataType)), None)
