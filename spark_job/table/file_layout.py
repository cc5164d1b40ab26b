"""How a Delta table wants its data files, and whether it takes them as tasks write them. From its log's own words."""

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

from spark_job.table.sql import quoted

PREFIX_PROPERTY = "delta.dataSkippingStringPrefixLength"
STATS_PROPERTY = "delta.dataSkippingStatsColumns"
DELTAS_PREFIX_CHARS = 32
CHECKPOINT_PROPERTY = "delta.checkpointInterval"
DELTAS_CHECKPOINT_INTERVAL = 10

HARMLESS_FEATURES: Mapping[str, str] = {
    "appendOnly": "nothing but appends",
    "invariants": "are in the columns' metadata and NOT NULL, which are looked at",
    "checkConstraints": "are in the properties, which are looked at",
    "generatedColumns": "are in the columns' metadata, which is looked at",
    "identityColumns": "are in the columns' metadata, which is looked at",
    "allowColumnDefaults": "are in the columns' metadata, which is looked at",
    "columnMapping": "its mode is a property, which is looked at",
    "changeDataFeed": "the change data of an append are the added files",
    "timestampNtz": "a type like others",
    "typeWidening": "new files have the table's types of today",
    "typeWidening-preview": "new files have the table's types of today",
    "deletionVectors": "new files have none, and statistics with their number of records",
    "v2Checkpoint": "Delta writes its checkpoints itself",
    "v2Checkpoint-preview": "Delta writes its checkpoints itself",
    "checkpointProtection": "about cleaning the log up",
    "vacuumProtocolCheck": "about VACUUM",
    "domainMetadata": "the commit leaves it as it is",
    "clustering": "new files are unclustered until OPTIMIZE; statistics are those that Delta asks for",
    "inCommitTimestamp": "Delta's own transaction stamps the commit",
    "inCommitTimestamp-preview": "Delta's own transaction stamps the commit",
}
"""Writer features of the Delta protocol that ask nothing of who adds files, or only what is looked at, and why."""

WRITERS_PROPERTIES: Mapping[str, str] = {
    "delta.constraints.": "a CHECK constraint",
    "delta.columnMapping.mode": "column mapping",
    "delta.enableRowTracking": "row tracking",
    "delta.enableIceberg": "compatibility with Iceberg",
    "delta.universalFormat.": "another format beside Delta",
    "delta.compatibility.symlinkFormatManifest.": "manifests for other engines",
    "delta.redirect": "a redirect",
    "delta.randomizeFilePrefixes": "random prefixes of files",
    "delta.autoOptimize": "optimized writes or automatic compaction",
}
"""Properties, or what their names begin with, that Spark's writer sees to."""
OFF = ("", "false", "none")

HARMLESS_METADATA = ("comment", "delta.typeChanges")
"""Of a column. Anything else (generated, identity, default, CHAR(n), collated, mapped) changes what is written."""

PARTITION_TYPES = (StringType, DateType, BooleanType, ByteType, ShortType, IntegerType, LongType)
"""Whose values have one spelling in the log."""


@dataclass(frozen=True, slots=True)
class Described:
    """One version of a table, as the Metadata and Protocol actions of its log describe it."""

    schema: StructType
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    writer_version: int
    writer_features: frozenset[str]

    @classmethod
    def of(cls, metadata: str, protocol: str) -> Self:
        """From the two actions as JSON text."""
        told, version = json.loads(metadata)["metaData"], json.loads(protocol)["protocol"]
        return cls(
            schema=StructType.fromJson(json.loads(told["schemaString"])),
            partition_by=tuple(told["partitionColumns"]),
            properties=told.get("configuration", {}),
            writer_version=version["minWriterVersion"],
            writer_features=frozenset(version.get("writerFeatures", ())),
        )

    @property
    def string_prefix_chars(self) -> int:
        return int(self.properties.get(PREFIX_PROPERTY, DELTAS_PREFIX_CHARS))

    @property
    def checkpoint_interval(self) -> int:
        """Delta writes a checkpoint of its own at each multiple of this version."""
        return int(self.properties.get(CHECKPOINT_PROPERTY, DELTAS_CHECKPOINT_INTERVAL))


def why_staged(table: Described, wanted: Sequence[StructField]) -> str | None:
    """Why Spark's writer has to write the rows; None if the table takes data files as they are.

    `wanted`: the columns of the rows, NOT NULL where they hold no nulls for sure.
    """
    return next(_obstacles(table, wanted), None)


def _obstacles(table: Described, wanted: Sequence[StructField]) -> Iterator[str]:
    if table.writer_version > 7:
        yield f"writer version {table.writer_version} of the Delta protocol, which is not known"
    for feature in sorted(table.writer_features - HARMLESS_FEATURES.keys()):
        yield f"table feature {feature}"
    for name, value in sorted(table.properties.items()):
        for beginning, what in WRITERS_PROPERTIES.items():
            if name.lower().startswith(beginning.lower()) and value.lower() not in OFF:
                yield f"{what} ({name})"
    own = {field.name: field for field in wanted}
    yield from _in_struct(table.schema, StructType(list(wanted)), "")
    for field in table.schema.fields:
        if field.name not in own and field.name.lower() in {name.lower() for name in own}:
            yield f"column {field.name}, which the source spells otherwise"
        if field.name in table.partition_by and type(field.dataType) not in PARTITION_TYPES:
            yield f"partitions by {field.name} of type {field.dataType.simpleString()}"


def _in_struct(found: StructType, wanted: DataType | None, prefix: str) -> Iterator[str]:
    own = {field.name: field for field in wanted.fields} if isinstance(wanted, StructType) else {}
    for field in found.fields:
        path, there = f"{prefix}{field.name}", own.get(field.name)
        for key in sorted(field.metadata.keys() - set(HARMLESS_METADATA)):
            yield f"column {path} with {key}"
        if not field.nullable and (there is None or there.nullable):
            yield f"column {path}, NOT NULL in the table and not in the source's schema"
        yield from _in_type(field.dataType, there.dataType if there else None, path)


def _in_type(found: DataType, wanted: DataType | None, path: str) -> Iterator[str]:
    if isinstance(found, StructType):
        yield from _in_struct(found, wanted, f"{path}.")
    elif isinstance(found, ArrayType):
        if not found.containsNull:
            yield f"column {path}, whose elements are NOT NULL"
        yield from _in_type(found.elementType, wanted.elementType if isinstance(wanted, ArrayType) else None, path)
    elif isinstance(found, MapType):
        if not found.valueContainsNull:
            yield f"column {path}, whose values are NOT NULL"
        yield from _in_type(found.keyType, wanted.keyType if isinstance(wanted, MapType) else None, path)
        yield from _in_type(found.valueType, wanted.valueType if isinstance(wanted, MapType) else None, path)


def leaves(schema: StructType, prefix: str = "") -> Iterator[str]:
    """Dotted paths of what is no struct; in backticks what is no plain word."""
    for field in schema.fields:
        path = prefix + (quoted(field.name) if {".", "`"} & set(field.name) else field.name)
        if isinstance(field.dataType, StructType):
            yield from leaves(field.dataType, f"{path}.")
        else:
            yield path
