"""What a configuration changes in the table that it writes to, decided before anything is read."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from spark_job.formats.nullable_type import nullable_type
from spark_job.table.columns import FILLED_BY_DELTA, SOURCE_COLUMN, column_conflicts, missing_columns
from spark_job.table.constraints import constraint_conflicts, missing_constraints
from spark_job.table.dependents import dependents_of
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
    """`added`: columns, and for those that the table has, the fields that they lack, as `TableEngine.add_columns` takes
    them. `left_out`: columns of the table that no source of the pipeline has any more; new rows have null there.
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
    found = {field.name.lower(): field for field in table.schema}
    fitting, widened, further = list[StructField](), list[Widening](), list[StructField]()
    for field in columns:
        before = found.get(field.name.lower())
        steps = None if before is None else _steps_to_fit(table, before, field)
        if before is None or steps is None:
            fitting.append(field)
            continue
        fitting.append(StructField(field.name, before.dataType))
        widened += steps
        lacking = _lacking(before.dataType, field.dataType)
        if lacking is not None:
            further.append(StructField(before.name, lacking, before.nullable, before.metadata))
    kept = _kept(table, widened)
    return ConfiguredChanges(
        added=[*missing_columns(table, columns), *further],
        widened=[one for one in widened if one.path not in kept],
        constraints=missing_constraints(table, constraints),
        left_out=[*_left_out(table, columns, others)],
        refused=[
            *kept.values(),
            *column_conflicts(table, fitting, partition_by),
            *constraint_conflicts(table, constraints),
        ],
    )


def _steps_to_fit(table: TableDescription, before: StructField, after: StructField) -> Sequence[Widening] | None:
    """What has to be widened, apart from fields to add; None: the column of the table cannot become the other one."""
    if after.name == SOURCE_COLUMN.name:
        return None
    steps = [*_steps(before.dataType, after.dataType, (after.name,))]
    possible = [step for step in steps if step is not None]
    return None if len(possible) < len(steps) or (steps and after.name in table.partition_by) else possible


def _kept(table: TableDescription, widened: Sequence[Widening]) -> dict[tuple[str, ...], str]:
    """By path, those that Delta does not widen, since an expression of the table depends on their types, and why."""
    kept, dependents = dict[tuple[str, ...], str](), [*dependents_of(table)]
    for one in widened:
        label = next((dependent.label for dependent in dependents if dependent.names(one.path)), None)
        if label is not None:
            kept[one.path] = (
                f"column {'.'.join(one.path)}: expected {one.after.simpleString()}, found "
                f"{one.before.simpleString()}, and Delta does not widen it, since {label} names it"
            )
    return kept


def _left_out(table: TableDescription, columns: Sequence[StructField], others: Collection[str]) -> Iterator[str]:
    known = {field.name.lower() for field in columns} | {*others, SOURCE_COLUMN.name}
    for field in table.schema:
        if field.name.lower() not in known and not FILLED_BY_DELTA & {*field.metadata}:
            yield field.name


def _steps(before: DataType, after: DataType, path: tuple[str, ...]) -> Iterator[Widening | None]:
    """From one type to the other; None: that is not possible."""
    match before, after:
        case StructType(), StructType():
            fields = {field.name: field for field in after}
            for one in before:
                other = fields.get(one.name)
                yield from [None] if other is None else _steps(one.dataType, other.dataType, (*path, one.name))
        case ArrayType(), ArrayType():
            yield from _steps(before.elementType, after.elementType, (*path, "element"))
        case MapType(), MapType():
            yield from _steps(before.keyType, after.keyType, (*path, "key"))
            yield from _steps(before.valueType, after.valueType, (*path, "value"))
        case _ if before.simpleString() != after.simpleString():
            yield Widening(path, before, after) if widens(before, after) else None


def _lacking(before: DataType, after: DataType) -> DataType | None:
    """The second type with nothing but the fields that the first one lacks; None: it lacks none."""
    match before, after:
        case StructType(), StructType():
            known, fields = {field.name: field for field in before}, list[StructField]()
            for field in after:
                one = known.get(field.name)
                inner = nullable_type(field.dataType) if one is None else _lacking(one.dataType, field.dataType)
                if inner is not None:
                    nullable, metadata = (True, field.metadata) if one is None else (one.nullable, one.metadata)
                    fields.append(StructField(field.name, inner, nullable, metadata))
            return StructType(fields) if fields else None
        case ArrayType(), ArrayType():
            element = _lacking(before.elementType, after.elementType)
            return element and ArrayType(element, before.containsNull)
        case MapType(), MapType():
            value = _lacking(before.valueType, after.valueType)
            return value and MapType(before.keyType, value, before.valueContainsNull)
    return None
