"""Spark's JSON parser, for the lines that the fast parser leaves undecided."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from spark_job.formats.json.schema_fit import parsing_type, schema_checks
from spark_job.formats.nullable_type import nullable_type
from spark_job.formats.refusals import does_not_fit

CORRUPT = "_blizzard_corrupt"
PARSING = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    # With the fallback, '20240128' as a DATE would be so many days after 1970, as in Spark 1.5.
    "enableDateTimeParsingFallback": "false",
}


def decided_by_spark(lines: DataFrame, schema: StructType) -> DataFrame:
    """The lines with their `record`; `fault` says why one is refused."""
    to_parse = F.when(F.col("fault").isNull(), F.col("line"))
    found = lines.withColumn("record", F.from_json(to_parse, _with_corrupt(schema.fields), PARSING))
    is_record = F.col("line").isNotNull() & F.col("fault").isNull()
    found = found.withColumn("fault", F.coalesce("fault", F.when(is_record, _schema_fault(schema))))
    wanted = F.struct(*[_as_wanted(field) for field in schema.fields])
    return found.withColumn("record", F.when(F.col("fault").isNull(), wanted))


def _schema_fault(schema: StructType) -> Column:
    """Why a record that is valid JSON does not fit the schema; null if it fits."""
    wrong_type = F.when(F.col(f"record.{CORRUPT}").isNotNull(), _which_column(schema))
    others = [F.when(check.condition, F.lit(check.reason)) for check in schema_checks(schema, F.col("record"))]
    return F.coalesce(wrong_type, *others)


def _which_column(schema: StructType) -> Column:
    """The first column whose value does not fit by itself. Evaluated for refused records only."""
    checks = []
    for field in schema.fields:
        alone = F.from_json("line", _with_corrupt([field]), PARSING)
        text = does_not_fit(field.name, field.dataType)
        checks.append(F.when(alone[CORRUPT].isNotNull(), F.lit(text)))
    return F.coalesce(*checks, F.lit("the record does not fit the schema"))


def _with_corrupt(fields: Iterable[StructField]) -> StructType:
    """These fields, and the column in which Spark reports that one of them did not fit."""
    columns = [StructField(field.name, parsing_type(field.dataType)) for field in fields]
    return StructType([*columns, StructField(CORRUPT, StringType())])


def _as_wanted(field: StructField) -> Column:
    column = F.col("record").getField(field.name)
    wanted = nullable_type(field.dataType)
    return (column if parsing_type(field.dataType) == wanted else column.cast(wanted)).alias(field.name)
