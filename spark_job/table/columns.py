"""The columns that the rows of a source have, and how a table with them is made and fitted."""

from collections.abc import Iterator, Sequence

from pyspark.sql.types import (
    DateType,
    LongType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from blizzard.errors import PermanentError
from spark_job.table.file_layout import PREFIX_PROPERTY, STATS_PROPERTY, Described, leaves
from spark_job.table.sql import quoted
from spark_job.write.nullable_type import nullable_type

SOURCE_COLUMN = StructField(
    "_source",
    StructType(
        [
            StructField("source", StringType()),
            StructField("file", StringType()),
            StructField("row", LongType()),
            StructField("etag", StringType()),
            StructField("modified", TimestampType()),
            StructField("sequence", LongType()),
        ]
    ),
)
STATS_COLUMNS = 26
"""Of the table's own columns; with those of `_source` that makes Delta's usual 32."""
HAS_STATS = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
STATS_PREFIX_CHARS = 256
"""Of a string's start that statistics keep: paths that differ late must still be told apart."""


def columns_of(ddl: str) -> StructType:
    """A DDL schema's columns. Needs a session: Spark's own parser reads it."""
    parsed_type = StructType.fromDDL(ddl)
    if not isinstance(parsed_type, StructType):
        raise PermanentError(f"schema {ddl!r}: expected columns, found the type {parsed_type.simpleString()}")
    return parsed_type


def nullable(columns: Sequence[StructField]) -> StructType:
    """As the table gets them: NOT NULL is the reader's to enforce."""
    return StructType([StructField(f.name, nullable_type(f.dataType)) for f in columns])


def stats_leaves(columns: Sequence[StructField], partition_by: Sequence[str]) -> tuple[str, ...]:
    """Of a table that is still to be made; dotted."""
    own = [f for f in columns if f.name not in partition_by and isinstance(f.dataType, HAS_STATS)]
    return tuple(leaves(StructType([*own[:STATS_COLUMNS], SOURCE_COLUMN])))


def new_table_properties(columns: Sequence[StructField], partition_by: Sequence[str]) -> dict[str, str]:
    own = [f for f in columns if f.name not in partition_by and isinstance(f.dataType, HAS_STATS)]
    names = [*(field.name for field in own[:STATS_COLUMNS]), SOURCE_COLUMN.name]
    return {STATS_PROPERTY: ",".join(map(quoted, names)), PREFIX_PROPERTY: str(STATS_PREFIX_CHARS)}


def misfits(found: Described, columns: Sequence[StructField], partition_by: Sequence[str]) -> Iterator[str]:
    """What the table has otherwise than the source needs it."""
    have = {field.name.lower(): field.dataType.simpleString() for field in found.schema.fields}
    for field in columns:
        expected = field.dataType.simpleString()
        there = have.get(field.name.lower(), expected)
        if there != expected:
            yield f"column {field.name}: expected {expected}, found {there}"
    if found.partition_by != tuple(partition_by):
        yield f"partition_by: expected {list(partition_by)}, found {list(found.partition_by)}"


def lacking(found: Described, columns: Sequence[StructField]) -> list[StructField]:
    """What the table has not got yet."""
    have = {field.name.lower() for field in found.schema.fields}
    return [StructField(f.name, nullable_type(f.dataType)) for f in columns if f.name.lower() not in have]
