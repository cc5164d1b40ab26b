"""What Spark says of the expressions of one pipeline that only it evaluates, by the analysis that a run makes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BooleanType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    NullType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from blizzard.config.expression_checks import Evaluation, constraints, derived
from blizzard.config.expressions.tokens import names_in
from blizzard.config.model import Pipeline, Source
from blizzard.errors import PermanentError
from spark_job.engines.spark.expressions import types_of
from spark_job.formats.nullable_type import nullable_type
from spark_job.table.columns import SOURCE_COLUMN
from spark_job.table.derived_columns import known_columns
from spark_job.table.schema import columns_of, type_of

_NOT_STORED = (CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType)
_BEHIND = re.compile(r"[.;]?(?: SQLSTATE: \w+)?[;,]?\s*(?:\(?line \d+,? pos \d+\)?;?)?\s*$")
"""The number of the error, and its place in a text around the expression that nobody has written."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`source`: its name; None: of a constraint. `field`: of a column, as Spark's JSON has it. `type`: as people write
    it. `problem`: why Spark does not take the expression."""

    pipeline: str
    source: str | None
    name: str
    field: dict[str, Any] | None = None
    type: str | None = None
    problem: str | None = None


def asked(pipeline: Pipeline, spark: SparkSession) -> Iterator[Answer]:
    """Not of what has to wait until `schema: infer` has found the columns, nor of a condition over a column that Spark
    refuses."""
    row, refused = dict[str, StructField](), set[str]()
    for source in pipeline.sources.values():
        own = {field.name: field for field in _row(source)}
        row |= own | known_columns(source.derive, [*own.values()])
        if source.infers_schema:
            continue
        for name, found in _of_spark(derived(source)).items():
            answer = _column(pipeline, source, name, found, StructType([*own.values()]), spark)
            if answer.field is None:
                refused.add(name.lower())
            else:
                row[name] = StructField.fromJson(answer.field)
            yield answer
    if any(source.infers_schema for source in pipeline.sources.values()):
        return
    for name, found in _of_spark(constraints(pipeline)).items():
        if names_in(found.sql) & refused:
            continue
        kind, problem = _analysed(found.sql, StructType([*row.values()]), spark)
        if kind is not None and not isinstance(kind, BooleanType):
            problem = f"has a value of type {kind.simpleString()}; expected a condition, such as `value >= 0`"
        shown = None if kind is None else kind.simpleString()
        yield Answer(pipeline.name, None, name, type=shown, problem=problem)


def _column(
    pipeline: Pipeline, source: Source, name: str, found: Evaluation, row: StructType, spark: SparkSession
) -> Answer:
    kind, problem = _analysed(found.sql, row, spark)
    if isinstance(kind, NullType):
        problem = "has no type; cast it, such as: cast(null as string)"
    elif isinstance(kind, _NOT_STORED):
        problem = f"has a value of type {kind.simpleString()}, which no table has; cast it, such as to STRING"
    if kind is None or problem is not None:
        return Answer(pipeline.name, source.name, name, problem=problem)
    field = StructField(name, nullable_type(kind))
    return Answer(pipeline.name, source.name, name, field.jsonValue(), kind.simpleString())


def _row(source: Source) -> list[StructField]:
    """The columns that expressions of a source may name, as far as they are known."""
    paths = [StructField(name, type_of(kind)) for name, kind in source.partition_columns.items()]
    found = [*columns_of(source.row_ddl or ""), *paths, SOURCE_COLUMN]
    return [StructField(field.name, nullable_type(field.dataType)) for field in found]


def _of_spark(found: dict[str, Evaluation]) -> dict[str, Evaluation]:
    return {name: one for name, one in found.items() if one.by == "spark"}


def _analysed(sql: str, row: StructType, spark: SparkSession) -> tuple[DataType | None, str | None]:
    """The type of its value, or why Spark does not take it."""
    try:
        return types_of(spark, {"value": sql}, row)["value"].dataType, None
    except AnalysisException as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return None, f"Spark refuses {sql!r:.200}: {_BEHIND.sub('', first, count=1)}; correct it"
    except PermanentError:
        return None, f"{sql!r:.200} has another value each time it is evaluated; derive it from the row alone"
