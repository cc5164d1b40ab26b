"""The columns of a source's rows, compared with those of its table; and the properties of a new table."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from blizzard.config.provenance import PROVENANCE, PROVENANCE_DDL
from spark_job.formats.nullable_type import nullable_type
from spark_job.table.file_layout import GENERATED, PREFIX_PROPERTY, STATS_PROPERTY, TableDescription, leaf_paths
from spark_job.table.schema import columns_of
from spark_job.table.sql import quoted

SOURCE_COLUMN = StructField(PROVENANCE, columns_of(PROVENANCE_DDL))
MEMBER_FIELD = StructField("member", StringType())
"""Of `_source`: the name of the member of a zip file. A table has it from its first zip file on."""
FILLED_BY_DELTA = frozenset({GENERATED, "delta.identity.start", "CURRENT_DEFAULT"})
"""Keys of the metadata of columns that get values which no record has."""
MAPPING_PROPERTY = "delta.columnMapping.mode"
UNMAPPED = frozenset(" ,;{}()\n\t=")
"""Characters of names that a table has only with column mapping."""
STATS_COLUMNS = 26
"""How many of a table's columns get statistics. With the six of `_source` that makes Delta's default of 32."""
TYPES_WITH_STATS = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_NAMES_WITH_STATS = re.compile(r"((?:`(?:[^`]|``)*`,)*)" + quoted(PROVENANCE))
STATS_PREFIX_CHARS = 256
"""Length of the prefixes that statistics keep of strings: paths often differ only near their end."""


def source_column(*, members: bool) -> StructField:
    """`_source`, with the field `member` or without."""
    if not members:
        return SOURCE_COLUMN
    return StructField(PROVENANCE, StructType([*columns_of(PROVENANCE_DDL), MEMBER_FIELD]))


def names_members(table: TableDescription) -> bool:
    found = next((field.dataType for field in table.schema.fields if field.name == SOURCE_COLUMN.name), None)
    return isinstance(found, StructType) and MEMBER_FIELD.name in found.names


def nullable_schema(columns: Sequence[StructField]) -> StructType:
    """The table's columns are nullable; the reader enforces NOT NULL."""
    return StructType([_nullable(field) for field in columns])


def _nullable(field: StructField) -> StructField:
    return StructField(field.name, nullable_type(field.dataType), True, field.metadata)


def new_table_stats_columns(
    columns: Sequence[StructField], partition_by: Sequence[str], cluster_by: Sequence[str] = ()
) -> tuple[str, ...]:
    """Dotted paths, as `Snapshot.stats_columns` returns them for a table that exists."""
    return tuple(leaf_paths(StructType(_columns_with_stats(columns, partition_by, cluster_by))))


def new_table_properties(
    columns: Sequence[StructField], partition_by: Sequence[str], cluster_by: Sequence[str] = ()
) -> dict[str, str]:
    names = [field.name for field in _columns_with_stats(columns, partition_by, cluster_by)]
    found = {STATS_PROPERTY: ",".join(map(quoted, names)), PREFIX_PROPERTY: str(STATS_PREFIX_CHARS)}
    return found | ({MAPPING_PROPERTY: "name"} if needs_mapping(StructType([*columns])) else {})


def with_stats_of(properties: Mapping[str, str], added: Iterable[StructField]) -> dict[str, str]:
    """The property of a table that names the columns with statistics, with those of new ones, as for a new table. Empty
    if there is nothing to change: also if the property is not as a new table gets it, since others set it then."""
    found = _NAMES_WITH_STATS.fullmatch(properties.get(STATS_PROPERTY, ""))
    if found is None:
        return {}
    names = _QUOTED.findall(found[1])
    simple = [field for field in added if isinstance(field.dataType, TYPES_WITH_STATS)]
    names += [quoted(field.name) for field in simple[: STATS_COLUMNS - len(names)]]
    text = ",".join([*names, quoted(SOURCE_COLUMN.name)])
    return {} if text == found[0] else {STATS_PROPERTY: text}


def needs_mapping(found: DataType) -> bool:
    """Whether a column, or a field in it, has a name that Delta stores under another one."""
    match found:
        case StructType():
            return any(UNMAPPED & {*field.name} or needs_mapping(field.dataType) for field in found.fields)
        case ArrayType():
            return needs_mapping(found.elementType)
        case MapType():
            return needs_mapping(found.keyType) or needs_mapping(found.valueType)
    return False


def stored_name(field: StructField) -> str:
    """Under which files and the log have it."""
    return str(field.metadata.get("delta.columnMapping.physicalName", field.name))


def gets_mapping(properties: Mapping[str, str], added: Iterable[StructField]) -> str | None:
    """The first of these columns for which a table with these properties has to get column mapping."""
    if properties.get(MAPPING_PROPERTY, "none") != "none":
        return None
    return next((field.name for field in added if needs_mapping(StructType([field]))), None)


def _columns_with_stats(
    columns: Sequence[StructField], partition_by: Sequence[str], cluster_by: Sequence[str]
) -> list[StructField]:
    """Delta requires statistics of the columns by which it clusters."""
    simple = [f for f in columns if f.name not in partition_by and isinstance(f.dataType, TYPES_WITH_STATS)]
    first = {f.name for f in sorted(simple, key=lambda f: f.name not in cluster_by)[:STATS_COLUMNS]}
    return [*(f for f in simple if f.name in first), SOURCE_COLUMN]


def column_conflicts(
    table: TableDescription, columns: Sequence[StructField], partition_by: Sequence[str]
) -> Iterator[str]:
    """Differences that adding columns does not remove: other types, another partitioning. Names are case-insensitive,
    as in Spark."""
    found_types = {field.name.lower(): field.dataType.simpleString() for field in table.schema.fields}
    for field in columns:
        expected = field.dataType.simpleString()
        found = found_types.get(field.name.lower(), expected)
        if found != expected:
            yield f"column {field.name}: expected {expected}, found {found}"
    names = {field.name.lower() for field in columns}
    for field in table.schema.fields:
        if field.name.lower() not in names and not FILLED_BY_DELTA & {*field.metadata}:
            for path in _required(field, field.name):
                yield f"column {path}: NOT NULL in the table, and the source does not have it"
    if table.partition_by != tuple(partition_by):
        yield f"partition_by: expected {list(partition_by)}, found {list(table.partition_by)}"


def _required(field: StructField, path: str) -> Iterator[str]:
    """What is NOT NULL of a column: the column itself, or else fields in its structs. A null struct violates these."""
    if not field.nullable:
        yield path
    elif isinstance(field.dataType, StructType):
        for inner in field.dataType:
            yield from _required(inner, f"{path}.{inner.name}")


def missing_columns(table: TableDescription, columns: Sequence[StructField]) -> list[StructField]:
    """The columns that are not in the table, nullable."""
    present = {field.name.lower() for field in table.schema.fields}
    return [_nullable(field) for field in columns if field.name.lower() not in present]


def added_fields(found: StructType, added: Sequence[StructField]) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """The path of each field of `added` that `found` lacks, at any depth, as ALTER TABLE takes it."""
    present = {field.name.lower(): field for field in found.fields}
    for field in added:
        same = present.get(field.name.lower())
        if same is None:
            yield (field.name,), field
        else:
            for path, inner in _added_inside(same.dataType, field.dataType):
                yield (same.name, *path), inner


def _added_inside(found: DataType, added: DataType) -> Iterator[tuple[tuple[str, ...], StructField]]:
    match found, added:
        case StructType(), StructType():
            yield from added_fields(found, added.fields)
        case ArrayType(), ArrayType():
            for path, inner in _added_inside(found.elementType, added.elementType):
                yield ("element", *path), inner
        case MapType(), MapType():
            for path, inner in _added_inside(found.valueType, added.valueType):
                yield ("value", *path), inner


def with_added(found: StructType, added: Sequence[StructField]) -> StructType:
    """`found` with the fields of `added` that it lacks, at any depth, each at the end of its struct."""
    given = {field.name.lower(): field for field in added}
    kept = [_with_fields_of(field, given.pop(field.name.lower(), field)) for field in found.fields]
    return StructType([*kept, *given.values()])


def _with_fields_of(found: StructField, added: StructField) -> StructField:
    return StructField(found.name, _with_added_inside(found.dataType, added.dataType), found.nullable, found.metadata)


def _with_added_inside(found: DataType, added: DataType) -> DataType:
    match found, added:
        case StructType(), StructType():
            return with_added(found, added.fields)
        case ArrayType(), ArrayType():
            return ArrayType(_with_added_inside(found.elementType, added.elementType), found.containsNull)
        case MapType(), MapType():
            value = _with_added_inside(found.valueType, added.valueType)
            return MapType(found.keyType, value, found.valueContainsNull)
    return found
