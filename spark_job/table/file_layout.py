"""Whether a Delta table accepts data files as tasks write them, or needs Spark's writer: from its Metadata and
Protocol."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from blizzard.errors import PermanentError
from spark_job.table.sql import quoted

PREFIX_PROPERTY = "delta.dataSkippingStringPrefixLength"
STATS_PROPERTY = "delta.dataSkippingStatsColumns"
DEFAULT_PREFIX_CHARS = 32
_MOST_DIGITS = 18
CHECKPOINT_PROPERTY = "delta.checkpointInterval"
DEFAULT_CHECKPOINT_INTERVAL = 10

HARMLESS_FEATURES: Mapping[str, str] = {
    "appendOnly": "allows nothing but appends",
    "invariants": "the rows are checked before they are written: `row_rules`",
    "checkConstraints": "the rows are checked before they are written: `row_rules`",
    "generatedColumns": "their values are made, or checked, before the rows are written: `row_rules`",
    "identityColumns": "found in the columns' metadata, which is checked",
    "allowColumnDefaults": "found in the columns' metadata, which is checked",
    "columnMapping": "its mode is a property, which is checked",
    "changeDataFeed": "the change data of an append are the added files",
    "timestampNtz": "a type like any other",
    "typeWidening": "new files have the table's current types",
    "typeWidening-preview": "new files have the table's current types",
    "deletionVectors": "new files have none, and their statistics hold the number of records",
    "v2Checkpoint": "Delta writes its checkpoints itself",
    "v2Checkpoint-preview": "Delta writes its checkpoints itself",
    "checkpointProtection": "concerns only the log's clean-up",
    "vacuumProtocolCheck": "concerns only VACUUM",
    "domainMetadata": "the commit does not change it",
    "clustering": "new files are unclustered until OPTIMIZE; they have the statistics that Delta requires",
    "inCommitTimestamp": "Delta's own transaction sets the time",
    "inCommitTimestamp-preview": "Delta's own transaction sets the time",
}
"""Writer features of the Delta protocol that allow adding files, and why. Some are used only if a property or a column
says so, which is checked."""

SPARK_WRITER_PROPERTIES: Mapping[str, str] = {
    "delta.columnMapping.mode": "column mapping",
    "delta.enableRowTracking": "row tracking",
    "delta.enableIceberg": "compatibility with Iceberg",
    "delta.universalFormat.": "another table format in addition to Delta",
    "delta.compatibility.symlinkFormatManifest.": "manifests for other engines",
    "delta.redirect": "a redirect",
    "delta.randomizeFilePrefixes": "random prefixes of files",
    "delta.autoOptimize": "optimized writes or automatic compaction",
}
"""Properties (or prefixes of their names) that only Spark's writer implements."""
OFF_VALUES = ("", "false", "none")

HARMLESS_METADATA = frozenset({"comment", "delta.typeChanges"})
"""Keys of a column's metadata. Any other (identity, default, CHAR(n), collated, mapped) changes what is written."""
GENERATED = "delta.generationExpression"
INVARIANTS = "delta.invariants"
CHECKED_METADATA = frozenset({GENERATED, INVARIANTS})
"""Keys of the metadata of a whole column that `row_rules` knows."""

PARTITION_TYPES = (StringType, DateType, BooleanType, ByteType, ShortType, IntegerType, LongType)
"""Types whose values have only one possible text in the log."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    """One version of a table, from the Metadata and Protocol actions of its log."""

    schema: StructType
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    writer_version: int
    writer_features: frozenset[str]

    @classmethod
    def from_actions(cls, metadata_json: str, protocol_json: str) -> Self:
        metadata, protocol = json.loads(metadata_json)["metaData"], json.loads(protocol_json)["protocol"]
        return cls(
            schema=StructType.fromJson(json.loads(metadata["schemaString"])),
            partition_by=tuple(metadata["partitionColumns"]),
            properties=metadata.get("configuration", {}),
            writer_version=protocol["minWriterVersion"],
            writer_features=frozenset(protocol.get("writerFeatures", ())),
        )

    @property
    def string_prefix_chars(self) -> int:
        return _whole_number(self.properties, PREFIX_PROPERTY, DEFAULT_PREFIX_CHARS, least=0)

    @property
    def checkpoint_interval(self) -> int:
        return checkpoint_interval(self.properties)


NO_TABLE = TableDescription(StructType(), (), {}, 0, frozenset())
"""Of which nothing is known."""


def checkpoint_interval(properties: Mapping[str, str]) -> int:
    """Of a table with these properties: each version that is a multiple of this gets a checkpoint. Raises
    PermanentError for a value of another kind."""
    return _whole_number(properties, CHECKPOINT_PROPERTY, DEFAULT_CHECKPOINT_INTERVAL, least=1)


def _whole_number(properties: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) >= least):
        raise PermanentError(
            f"the table's property {name} is {text!r}; expected a whole number, {least} or greater. Nothing was "
            f"committed. Set it to the default: ALTER TABLE … SET TBLPROPERTIES ('{name}' = '{default}')."
        )
    return int(text)


def why_spark_must_write(table: TableDescription, source_columns: Sequence[StructField]) -> str | None:
    """The first reason why only Spark's writer can write the rows; None if the table accepts data files as they are.

    `source_columns`: all columns of the rows, NOT NULL only where they are sure to hold no nulls.
    """
    return next(_reasons(table, source_columns), None)


def _reasons(table: TableDescription, source_columns: Sequence[StructField]) -> Iterator[str]:
    if table.writer_version > 7:
        yield f"writer version {table.writer_version} of the Delta protocol, which is not known"
    for feature in sorted(table.writer_features - HARMLESS_FEATURES.keys()):
        yield f"table feature {feature}"
    for name, value in sorted(table.properties.items()):
        for prefix, what in SPARK_WRITER_PROPERTIES.items():
            if name.lower().startswith(prefix.lower()) and value.lower() not in OFF_VALUES:
                yield f"{what} ({name})"
    names = {field.name for field in source_columns}
    yield from _reasons_in_struct(table.schema, StructType(list(source_columns)), "")
    for field in table.schema.fields:
        if field.name not in names and field.name.lower() in {name.lower() for name in names}:
            yield f"column {field.name}, which the source spells differently"
        if field.name in table.partition_by and type(field.dataType) not in PARTITION_TYPES:
            yield f"partitions by {field.name} of type {field.dataType.simpleString()}"


def _reasons_in_struct(
    found: StructType, source_type: DataType | None, prefix: str, *, is_checked: bool = True
) -> Iterator[str]:
    """`is_checked`: whether `row_rules` knows what is NOT NULL here."""
    by_name = {field.name: field for field in source_type.fields} if isinstance(source_type, StructType) else {}
    for field in found.fields:
        path, own = f"{prefix}{field.name}", by_name.get(field.name)
        for key in sorted(field.metadata.keys() - HARMLESS_METADATA - (frozenset() if prefix else CHECKED_METADATA)):
            yield f"column {path} with {key}"
        if not (is_checked or field.nullable) and (own is None or own.nullable):
            yield f"column {path}, NOT NULL in the table and not in the source's schema"
        yield from _reasons_in_type(field.dataType, own.dataType if own else None, path, is_checked=is_checked)


def _reasons_in_type(
    found: DataType, source_type: DataType | None, path: str, *, is_checked: bool = False
) -> Iterator[str]:
    if isinstance(found, StructType):
        yield from _reasons_in_struct(found, source_type, f"{path}.", is_checked=is_checked)
    elif isinstance(found, ArrayType):
        if not found.containsNull:
            yield f"column {path}, whose elements are NOT NULL"
        own = source_type.elementType if isinstance(source_type, ArrayType) else None
        yield from _reasons_in_type(found.elementType, own, path)
    elif isinstance(found, MapType):
        if not found.valueContainsNull:
            yield f"column {path}, whose values are NOT NULL"
        own_map = source_type if isinstance(source_type, MapType) else None
        yield from _reasons_in_type(found.keyType, own_map and own_map.keyType, path)
        yield from _reasons_in_type(found.valueType, own_map and own_map.valueType, path)


def leaf_paths(schema: StructType, prefix: str = "") -> Iterator[str]:
    """Dotted paths of all fields that are not structs. A name with a dot or a backtick is quoted."""
    for field in schema.fields:
        path = prefix + (quoted(field.name) if {".", "`"} & set(field.name) else field.name)
        if isinstance(field.dataType, StructType):
            yield from leaf_paths(field.dataType, f"{path}.")
        else:
            yield path
