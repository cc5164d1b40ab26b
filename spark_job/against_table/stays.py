"""What stays in a table as it is, although the configuration says otherwise."""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from blizzard.state.clustering import clustered_by
from blizzard.storage.base import ObjectStore
from spark_job.table.columns import FILLED_BY_DELTA, SOURCE_COLUMN, stored_name
from spark_job.table.constraints import constraints_of
from spark_job.table.file_layout import TableDescription
from spark_job.table.table_source import TableSource

ONLY_WHEN_MADE = "it is set only when a table is made"


def stays(
    store: ObjectStore, table: TableDescription, columns: Sequence[StructField], wanted: TableSource
) -> Iterator[str]:
    """`columns`: all of the source's rows."""
    yield from _not_null(table, columns)
    own_names = {name.lower() for name in wanted.constraints}
    for name, sql in sorted(constraints_of(table).items()):
        if name.lower() not in own_names:
            yield (
                f"constraint {name} ({sql}) stays, although the pipeline does not have it, until "
                f"ALTER TABLE … DROP CONSTRAINT {name}"
            )
    yield from _comments(table.schema, StructType([*columns]))
    yield from _properties(table, wanted.table_properties)
    yield from _clustering(store, table, wanted.cluster_by)


def _not_null(table: TableDescription, columns: Sequence[StructField]) -> Iterator[str]:
    compared = [*_fields(table.schema, StructType([*columns]))]
    held = [path for path, field, own in compared if not own.nullable and (field is None or field.nullable)]
    if held:
        stay = "columns stay" if len(held) > 1 else "column stays"
        yield (
            f"NOT NULL of {', '.join(held)} is not in the table: a new record without a value there becomes a dead "
            f"letter; the table's {stay} nullable, and rows that are there stay"
        )
    for path, field, own in compared:
        if own.nullable and field is not None and not field.nullable and not FILLED_BY_DELTA & {*field.metadata}:
            yield (
                f"column {path} is NOT NULL in the table, although the configuration allows null: a record without a "
                f"value there becomes a dead letter, until ALTER TABLE … ALTER COLUMN {path} DROP NOT NULL"
            )


def _comments(schema: StructType, columns: StructType) -> Iterator[str]:
    for path, field, own in _fields(schema, columns):
        comment, known = own.metadata.get("comment"), None if field is None else field.metadata.get("comment")
        if field is not None and comment not in (None, known):
            said = "no comment" if known is None else f"the comment {known!r}"
            yield f"column {path}: the table has {said}, not {comment!r}: it is set only when a column is made"


def _properties(table: TableDescription, wanted: Mapping[str, str]) -> Iterator[str]:
    """Case does not matter in the names of Delta's own."""
    known = {_property(name): value for name, value in table.properties.items()}
    for name, value in wanted.items():
        found = known.get(_property(name))
        if found != value:
            said = f"no {name}" if found is None else f"{name} = {found}"
            yield f"table_properties: the table has {said}, not {name} = {value}: {ONLY_WHEN_MADE}"


def _property(name: str) -> str:
    return name.lower() if name.lower().startswith("delta.") else name


def _clustering(store: ObjectStore, table: TableDescription, wanted: Sequence[str]) -> Iterator[str]:
    """The order of the columns makes no difference."""
    found = _clustered_by(store, table) if "clustering" in table.writer_features else []
    if {name.lower() for name in found} == {name.lower() for name in wanted}:
        return
    if not wanted:
        yield (
            f"cluster_by: the table is clustered by {', '.join(found)}, and stays so, although the pipeline has no "
            "`cluster_by`, until ALTER TABLE … CLUSTER BY NONE"
        )
        return
    said = f"clustered by {', '.join(found)}, not by {', '.join(wanted)}" if found else "not clustered"
    yield f"cluster_by: the table is {said}: that happens only when a table is made, or by ALTER TABLE … CLUSTER BY"


def _clustered_by(store: ObjectStore, table: TableDescription) -> list[str]:
    return [_shown(path, table.schema) for path in clustered_by(store)]


def _shown(path: Sequence[str], schema: StructType) -> str:
    """The log has the names under which files have the columns."""
    names, found = list[str](), schema
    for part in path:
        field = next((one for one in found.fields if stored_name(one) == part), None)
        names.append(part if field is None else field.name)
        found = field.dataType if field is not None and isinstance(field.dataType, StructType) else StructType()
    return ".".join(names)


def _fields(
    found: StructType, own: StructType, above: str = ""
) -> Iterator[tuple[str, StructField | None, StructField]]:
    """Each field of the source's rows, at any depth, with that of the table; None: the table lacks it."""
    by_name = {field.name.lower(): field for field in found.fields}
    for field in own.fields:
        if field.name == SOURCE_COLUMN.name and not above:
            continue
        path, same = f"{above}{field.name}", by_name.get(field.name.lower())
        yield path, same, field
        yield from _inside(None if same is None else same.dataType, field.dataType, path)


def _inside(found: DataType | None, own: DataType, path: str) -> Iterator[tuple[str, StructField | None, StructField]]:
    match own:
        case StructType():
            yield from _fields(found if isinstance(found, StructType) else StructType(), own, f"{path}.")
        case ArrayType():
            element = found.elementType if isinstance(found, ArrayType) else None
            yield from _inside(element, own.elementType, f"{path}.element")
        case MapType():
            value = found.valueType if isinstance(found, MapType) else None
            yield from _inside(value, own.valueType, f"{path}.value")
