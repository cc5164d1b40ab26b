"""The rules of a table's rows: what the table itself requires (CHECK constraints, NOT NULL, generated columns), and
what the configuration adds to the rows (derived columns)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql.types import DataType, StringType, StructField, StructType

from blizzard.config.expressions.syntax import NotUnderstood
from blizzard.config.expressions.tokens import names_in
from spark_job.expressions.rules import Check, Derived, RowRules
from spark_job.expressions.spark_types import spark_type
from spark_job.expressions.understood import understood
from spark_job.formats.nullable_type import nullable_type
from spark_job.formats.refusals import is_missing
from spark_job.table.columns import FILLED_BY_DELTA
from spark_job.table.constraints import conditions_of
from spark_job.table.file_layout import GENERATED, TableDescription
from spark_job.table.sql import quoted

_WRITER_FILLS = FILLED_BY_DELTA - {GENERATED}
"""Keys of a column's metadata that leave its value, and the checks of it, to Spark's writer."""


def row_rules(table: TableDescription, source_columns: Sequence[StructField], derive: Mapping[str, str]) -> RowRules:
    """`source_columns`: all columns of the rows, the derived ones included. `derive`: expressions by column."""
    by_name = {field.name.lower(): field for field in source_columns}
    read = [field for field in source_columns if field.name not in derive]
    others = [StructField(f.name, nullable_type(f.dataType)) for f in table.schema if f.name.lower() not in by_name]
    row = StructType([*read, *others])
    whole = StructType([*source_columns, *others])
    derived = [_derived(name, sql, by_name[name.lower()].dataType, StructType(read)) for name, sql in derive.items()]
    generated = [field for field in table.schema if GENERATED in field.metadata]
    made = [_generated(field, row) for field in generated if field.name.lower() not in by_name]
    late = {column.name.lower() for column in (*derived, *made) if column.by_spark}
    checks = [
        *(_check_generated(field, whole) for field in generated if field.name.lower() in by_name),
        *_not_null(table.schema, by_name, whole),
        *_constraints(table, whole),
    ]
    left_to_writer = [f.name for f in others if _WRITER_FILLS & {*table.schema[f.name].metadata}]
    checks = [_after(check, late) for check in checks if not _names(check.sql, left_to_writer)]
    empty = [f.name for f in table.schema if f.name in table.partition_by and isinstance(f.dataType, StringType)]
    if not derived and not made and not checks:
        return RowRules()
    return RowRules((*derived, *made), tuple(checks), whole.json(), tuple(empty))


def _derived(name: str, sql: str, kind: DataType, row: StructType) -> Derived:
    return Derived(name, sql, _is_for_spark(sql, row, kind))


def _generated(field: StructField, row: StructType) -> Derived:
    return _derived(field.name, field.metadata[GENERATED], nullable_type(field.dataType), row)


def _is_for_spark(sql: str, row: StructType, kind: DataType | None = None) -> bool:
    try:
        found = understood(sql, row)
        return kind is not None and spark_type(found.type) != kind
    except (NotUnderstood, KeyError):
        return True


# -- checks


def _check_generated(field: StructField, whole: StructType) -> Check:
    sql = field.metadata[GENERATED]
    # Of two values of one type, this is the comparison that Delta makes.
    comparison = f"{quoted(field.name)} <=> ({sql})"
    label = f"column {field.name}, which the table generates as {sql}"
    return Check(label, comparison, f"{label}: the record has another value", _is_for_spark(comparison, whole))


def _not_null(
    schema: StructType, source: Mapping[str, StructField], whole: StructType, above: str = "", sure: bool = True
) -> Iterator[Check]:
    """Of columns and of fields in structs. A field in a struct that is null is null, too. `sure`: whether the source's
    rows hold no null above."""
    for field in schema:
        own = source.get(field.name.lower())
        is_sure = sure and own is not None and not own.nullable
        path = f"{above}{quoted(field.name)}"
        if not field.nullable and not is_sure:
            shown = path.replace("`", "")
            refusal = f"{is_missing(shown)} (the table requires it)"
            sql = f"{path} IS NOT NULL"
            yield Check(f"column {shown}, NOT NULL in the table", sql, refusal, _is_for_spark(sql, whole))
        if isinstance(field.dataType, StructType):
            kind = own.dataType if own is not None else None
            inner = {one.name.lower(): one for one in kind.fields} if isinstance(kind, StructType) else {}
            yield from _not_null(field.dataType, inner, whole, f"{path}.", is_sure)


def _constraints(table: TableDescription, whole: StructType) -> Iterator[Check]:
    for name, sql in sorted(conditions_of(table).items()):
        label = f"constraint {name} ({sql})"
        yield Check(label, sql, f"{label}: it is not true for the record", _is_for_spark(sql, whole))


def _after(check: Check, late: Iterable[str]) -> Check:
    """A check of columns that only Spark derives is Spark's, too."""
    return replace(check, by_spark=True) if _names(check.sql, late) else check


def _names(sql: str, columns: Iterable[str]) -> bool:
    found = names_in(sql)
    return any(name.lower() in found for name in columns)
