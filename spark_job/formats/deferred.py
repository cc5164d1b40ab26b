"""The records of a batch that a format did not turn into rows, as a DataFrame on the driver."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def deferred_records_type(partition_columns: int) -> StructType:
    """Columns of the deferred records. `line` is the text of a record, of whatever format; of one that is not UTF-8,
    `undecodable` has the bytes instead. `fault`: why the record is refused; null: Spark decides. `member`: of the zip
    file that holds it. `about`: what else a dead letter says of it, as JSON."""
    types: dict[str, DataType] = {"row": LongType(), "modified": TimestampType(), "undecodable": BinaryType()}
    fixed = ("file", "row", "etag", "modified", "line", "fault", "undecodable", "member", "about")
    names = [*fixed, *(f"partition_{index}" for index in range(partition_columns))]
    return StructType([StructField(name, types.get(name, StringType())) for name in names])


def all_refused(deferred: DataFrame, schema: StructType) -> DataFrame:
    """The deferred records as `Format.decide` returns them, each of them refused."""
    no_reason: Column = F.lit("the record does not fit the schema")
    return deferred.withColumn("record", F.lit(None).cast(schema)).withColumn("fault", F.coalesce("fault", no_reason))
