"""Records that a format did not turn into rows, as they travel to the driver."""

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
    """Columns of the deferred records. `fault`: why one is refused; null: Spark decides. `undecodable` has the bytes of
    a record that is not UTF-8, instead of `line`."""
    types: dict[str, DataType] = {"row": LongType(), "modified": TimestampType(), "undecodable": BinaryType()}
    fixed = ("file", "row", "etag", "modified", "line", "fault", "undecodable")
    names = [*fixed, *(f"partition_{index}" for index in range(partition_columns))]
    return StructType([StructField(name, types.get(name, StringType())) for name in names])


def all_refused(deferred: DataFrame, schema: StructType) -> DataFrame:
    """`Format.decide` of a format whose `parse` gives a reason for each record that it refuses."""
    no_reason: Column = F.lit("the record does not fit the schema")
    return deferred.withColumn("record", F.lit(None).cast(schema)).withColumn("fault", F.coalesce("fault", no_reason))
