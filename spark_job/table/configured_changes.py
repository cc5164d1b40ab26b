"""What a configuration changes in the table that it writes to, decided before anything is read."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from spark_job.table.columns import FILLED_BY_DELTA, SOURCE_COLUMN, column_conflicts, missing_columns
from spark_job.table.constraints import constraint_conflicts, missing_constraints
from spark_job.table.file_layout import TableDescription
from spark_job.table.widening import widens


@dataclass(frozen=True, slots=True)
class Widening:
    """Of a column, or of a field, an element or a value in one: `path` as ALTER TABLE takes it."""

    path: tuple[str, ...]
    before: DataType
    after: DataType

    @property
    def text(self) -> str:
        return f"{'.'.join(self.path)} from {self.before.simpleString()} to {self.after.simpleString()}"


@dataclass(frozen=True, slots=True)
class ConfiguredChanges:
    """`left_out`: columns of the table that no source of the pipeline has any more; new rows have null there.
    `refused`: why the run cannot write to this table."""

    added: Sequence[StructField]
    widened: Sequence[Widening]
    constraints: Mapping[str, str]
    left_out: Sequence[str]
    refused: Sequence[str]


def configured_changes(
    table: TableDescription,
    columns: Sequence[StructField],
    *,
    partition_by: Sequence[str],
    constraints: Mapping[str, str],
    others: Collection[str] = (),
) -> ConfiguredChanges:
    """`columns`: all of the source's rows; `others`: names, in lower case, of those of the pipeline's other sources."""
    found = {field.name.lower(): field.dataType for field in table.schema}
    widened = dict[str, list[Widening]]()
    for field in columns:
        before = found.get(field.name.lower())
        steps = None if before is None else [*_steps(before, field.dataType, (field.name,))]
        if steps and None not in steps and field.name not in table.partition_by:
            widened[field.name] = [step for step in steps if step is not None]
    fitting = [StructField(f.name, found[f.name.lower()]) if f.name in widened else f for f in columns]
    return ConfiguredChanges(
        added=missing_columns(table, columns),
        widened=[step for steps in widened.values() for step in steps],
        constraints=missing_constraints(table, constraints),
        left_out=[*_left_out(table, columns, others)],
        refused=[
            *column_conflicts(table, fitting, partition_by),
            *constraint_conflicts(table, constraints),
        ],
    )


def _left_out(table: TableDescription, columns: Sequence[StructField], others: Collection[str]) -> Iterator[str]:
    known = {field.name.lower() for field in columns} | {*others, SOURCE_COLUMN.name}
    for field in table.schema:
        if field.name.lower() not in known and not FILLED_BY_DELTA & {*field.metadata}:
            yield field.name


def _steps(before: DataType, after: DataType, path: tuple[str, ...]) -> Iterator[Widening | None]:
    """What has to be widened to get from one type to the other; None: that is not possible."""
    match before, after:
        case StructType(), StructType() if [f.name for f in before] == [f.name for f in after]:
            for one, other in zip(before, after, strict=True):
                yield from _steps(one.dataType, other.dataType, (*path, one.name))
        case ArrayType(), ArrayType():
            yield from _steps(before.elementType, after.elementType, (*path, "element"))
        case MapType(), MapType():
            yield from _steps(before.keyType, after.keyType, (*path, "key"))
            yield from _steps(before.valueType, after.valueType, (*path, "value"))
        case _ if before.simpleString() != after.simpleString():
            yield Widening(path, before, after) if widens(before, after) else None
