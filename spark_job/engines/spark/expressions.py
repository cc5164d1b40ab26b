"""Expressions that only Spark evaluates, on rows: one that fails on a row refuses the row and not the batch."""

from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from blizzard.errors import PermanentError
from spark_job.expressions.rules import RowRules
from spark_job.table.columns import MEMBER_FIELD
from spark_job.table.sql import quoted, type_sql
from spark_job.tasks.provenance import LETTER

STRICT: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # An expression that occurs twice would be evaluated before, outside of what catches its failure.
    "spark.sql.subexpressionElimination.enabled": "false",
}
"""As the fast reader evaluates expressions, whatever the platform's defaults."""
_VALUE = "_blizzard_value"
_FAULT = "_blizzard_fault"
_FAILS = "fails on the record"


def strict_session(spark: SparkSession) -> SparkSession:
    """Of the same application, with settings of its own. Nothing may make it the active session of a thread."""
    session = spark.newSession()
    for name, value in STRICT.items():
        session.conf.set(name, value)
    return session


def types_of(spark: SparkSession, expressions: Mapping[str, str], columns: StructType) -> StructType:
    """Raises PermanentError for an expression that has another value each time; Spark's AnalysisException for one that
    is none."""
    rows = _no_rows(strict_session(spark), columns)
    found = StructType()
    for name, sql in expressions.items():
        made = rows.select(_tried(sql).getField(_VALUE).alias(name))
        if not made._jdf.queryExecution().analyzed().deterministic():
            raise PermanentError(
                f"column {name}: {sql} has another value each time it is evaluated, so a batch that is read again "
                "would have other rows; derive it from the row alone"
            )
        found = found.add(name, made.schema[name].dataType)
    return found


def _no_rows(session: SparkSession, columns: StructType) -> DataFrame:
    """After `createDataFrame` the session would be the thread's active one, whose settings Delta's commits take."""
    return session.range(0).select([F.lit(None).cast(field.dataType).alias(field.name) for field in columns])


def completed_rows(staged: DataFrame, rules: RowRules, wanted: StructType, records: StructType) -> DataFrame:
    """The staged rows as `record`, a struct of all `wanted` columns, with the rules applied that only Spark evaluates;
    `fault` says why one is refused. The other columns are those of a dead letter, as the staged rows have it in LETTER;
    without that its `line` is JSON of the columns of `records`."""
    of_spark, types = rules.of_spark(), rules.struct()
    known = {*staged.columns, *(column.name for column in of_spark.derived)}
    missing = [F.lit(None).cast(f.dataType).alias(f.name) for f in types if f.name not in known]
    rows = staged.select("*", *missing)
    faults: list[Column] = []
    for index, column in enumerate(of_spark.derived):
        tried = f"_blizzard_derived_{index}"
        rows = rows.withColumn(tried, _tried(f"CAST(({column.sql}\n) AS {type_sql(types[column.name].dataType)})"))
        faults.append(F.when(F.col(tried).isNull(), F.lit(f"{column.label} {_FAILS}")))
    for index, column in enumerate(of_spark.derived):
        rows = rows.withColumn(column.name, F.col(f"_blizzard_derived_{index}").getField(_VALUE))
    stored = _as_stored(rows, rules)
    for index, check in enumerate(of_spark.checks):
        tried = f"_blizzard_check_{index}"
        stored = stored.withColumn(tried, _tried(check.sql))
        is_true = F.col(tried).getField(_VALUE).eqNullSafe(F.lit(True))
        faults.append(F.when(F.col(tried).isNull(), F.lit(f"{check.label} {_FAILS}")))
        faults.append(F.when(~is_true, F.lit(check.refusal)))
    return _with_dead_letters(stored, F.coalesce(*faults), rules, wanted, records)


def _as_stored(rows: DataFrame, rules: RowRules) -> DataFrame:
    """With null for "" where the table will have it. `_blizzard_as_read_…` keeps what the row itself has."""
    for index, name in enumerate(rules.empty_is_null):
        if name in rows.columns:
            column = F.col(quoted(name))
            rows = rows.withColumn(f"_blizzard_as_read_{index}", column)
            rows = rows.withColumn(name, F.when(column != "", column))
    return rows


def _with_dead_letters(
    rows: DataFrame, fault: Column, rules: RowRules, wanted: StructType, records: StructType
) -> DataFrame:
    as_read = {name: f"_blizzard_as_read_{index}" for index, name in enumerate(rules.empty_is_null)}
    known = {name: F.col(as_read[name] if as_read.get(name) in rows.columns else quoted(name)) for name in wanted.names}
    record = F.struct(*(known[name].alias(name) for name in wanted.names))
    line = F.to_json(F.struct(*(known[name].alias(name) for name in records.names)))
    letter = {"about": F.lit(None).cast(StringType()), "line": line, "undecodable": F.lit(None).cast(BinaryType())}
    if LETTER in rows.columns:
        letter = {name: F.col(f"{LETTER}.{name}") for name in letter}
    source = rows.schema["_source"].dataType
    has_member = isinstance(source, StructType) and MEMBER_FIELD.name in source.names
    member = F.col("_source.member") if has_member else F.lit(None).cast(StringType())
    return rows.select(
        F.col("_source.file").alias("file"),
        F.col("_source.etag").alias("etag"),
        F.col("_source.row").alias("row"),
        member.alias("member"),
        *(column.alias(name) for name, column in letter.items()),
        fault.cast(StringType()).alias("fault"),
        record.alias("record"),
    )


def _tried(sql: str) -> Column:
    """The expression's value in a struct, since the value may be null: the struct is null where it fails."""
    value = F.struct(F.expr(f"(\n{sql}\n)").alias(_VALUE))
    jvm: Any = SparkContext._active_spark_context._jvm  # type: ignore[union-attr]
    classic = jvm.org.apache.spark.sql.classic.ExpressionUtils
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(classic.expression(value._jc))
    return Column(classic.column(tried))
