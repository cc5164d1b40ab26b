"""Checks of a table that name columns which new rows do not have."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import StructField

from blizzard.config.expressions.tokens import names_in
from spark_job.expressions.evaluate import arrow_type
from spark_job.expressions.row_checker import RowChecker
from spark_job.expressions.rules import RowRules
from spark_job.expressions.spark_types import ddl_types
from spark_job.table.columns import FILLED_BY_DELTA, SOURCE_COLUMN
from spark_job.table.constraints import conditions_of
from spark_job.table.file_layout import TableDescription
from spark_job.table.row_rules import row_rules

DEPENDS = "a record for which it is not true then becomes a dead letter"


def checks_of_left_out(table: TableDescription, columns: Sequence[StructField]) -> Iterator[str]:
    """Constraints that may not be true any more, and of those that name no other column, whether they ever are.
    `columns`: all of the source's rows."""
    present = {field.name.lower() for field in columns} | {SOURCE_COLUMN.name}
    left_out = [
        field.name
        for field in table.schema
        if field.name.lower() not in present and not FILLED_BY_DELTA & {*field.metadata}
    ]
    rules = row_rules(table, columns, {})
    for name, sql in sorted(conditions_of(table).items()):
        names = names_in(sql)
        missing = [column for column in left_out if column.lower() in names]
        then = None if not missing else DEPENDS if present & names else _with_null(rules, sql)
        if then is not None:
            yield f"constraint {name} ({sql}) names {', '.join(missing)}, null in new rows: {then}"


def _with_null(rules: RowRules, sql: str) -> str | None:
    """What becomes of records whose columns in a condition are all null; None: nothing, it is true of null."""
    checks = tuple(check for check in rules.of_tasks().checks if check.sql == sql)
    if not checks:  # only Spark evaluates it
        return DEPENDS
    nulls = {name: pa.nulls(1, arrow_type(kind)) for name, kind in ddl_types(rules.struct().fields).items()}
    refused = RowChecker(RowRules((), checks, rules.columns)).apply(pa.table(nulls)).refused
    return "every record becomes a dead letter" if refused else None
