"""Which tables take data files as they are, and which need Spark's writer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_job.engines.spark.snapshot import snapshot_partitions
from spark_job.table.add_action import url_path
from spark_job.table.columns import (
    SOURCE_COLUMN,
    column_conflicts,
    missing_columns,
    new_table_properties,
    new_table_stats_columns,
    with_stats_of,
)
from spark_job.table.file_layout import (
    CHECKED_METADATA,
    HARMLESS_FEATURES,
    STATS_PROPERTY,
    TableDescription,
    why_spark_must_write,
)
from spark_job.table.schema import columns_of

ID = StructField("id", StringType(), nullable=False)
N = StructField("n", LongType())
WANTED = [ID, N, SOURCE_COLUMN]
MANY = "".join(f"`c{number}`," for number in range(25))
"""Names in the property for statistics; one more may follow."""


def table(
    *fields: StructField,
    properties: Mapping[str, str] | None = None,
    partition_by: Sequence[str] = (),
    version: int = 2,
    features: Sequence[str] = (),
) -> TableDescription:
    columns = fields or (StructField("id", StringType()), N, SOURCE_COLUMN)
    metadata = {
        "schemaString": StructType(list(columns)).json(),
        "partitionColumns": list(partition_by),
        "configuration": dict(properties or {}),
    }
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": version}
    if features:
        protocol["writerFeatures"] = list(features)
    return TableDescription.from_actions(json.dumps({"metaData": metadata}), json.dumps({"protocol": protocol}))


def field(name: str, data_type: DataType, *, nullable: bool = True, **metadata: Any) -> StructField:
    return StructField(name, data_type, nullable, {key.replace("__", "."): value for key, value in metadata.items()})


def test_a_table_of_plain_columns_takes_files() -> None:
    assert why_spark_must_write(table(), WANTED) is None


def test_columns_of_other_sources_do_not_need_sparks_writer() -> None:
    found = table(StructField("id", StringType()), N, SOURCE_COLUMN, field("region", StringType()))
    assert why_spark_must_write(found, WANTED) is None


@pytest.mark.parametrize("feature", HARMLESS_FEATURES)
def test_a_harmless_feature_does_not_need_sparks_writer(feature: str) -> None:
    assert why_spark_must_write(table(version=7, features=[feature]), WANTED) is None


@pytest.mark.parametrize("version", range(1, 8))
def test_an_older_protocol_version_does_not_need_sparks_writer(version: int) -> None:
    assert why_spark_must_write(table(version=version), WANTED) is None


def test_a_later_protocol_version_needs_sparks_writer() -> None:
    assert (
        why_spark_must_write(table(version=8), WANTED) == "writer version 8 of the Delta protocol, which is not known"
    )


@pytest.mark.parametrize(
    "feature", ["rowTracking", "icebergCompatV2", "materializePartitionColumns", "collations", "catalogManaged", "new"]
)
def test_an_unknown_feature_needs_sparks_writer(feature: str) -> None:
    found = table(version=7, features=["appendOnly", feature])
    assert why_spark_must_write(found, WANTED) == f"table feature {feature}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.columnMapping.mode", "name"),
        ("delta.columnMapping.mode", "id"),
        ("delta.enableRowTracking", "true"),
        ("delta.enableIcebergCompatV2", "true"),
        ("delta.universalFormat.enabledFormats", "iceberg"),
        ("delta.randomizeFilePrefixes", "true"),
        ("delta.autoOptimize.optimizeWrite", "true"),
        ("delta.autoOptimize.autoCompact", "auto"),
        ("delta.compatibility.symlinkFormatManifest.enabled", "true"),
        ("DELTA.autoOptimize", "TRUE"),
    ],
)
def test_a_property_that_sparks_writer_implements_needs_it(name: str, value: str) -> None:
    reason = why_spark_must_write(table(properties={name: value}), WANTED)
    assert reason is not None
    assert f"({name})" in reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.columnMapping.mode", "none"),
        ("delta.autoOptimize.optimizeWrite", "false"),
        ("delta.appendOnly", "true"),
        ("delta.constraints.positive", "n > 0"),
        ("delta.checkpointInterval", "100"),
        ("owner", "delta.constraints."),
    ],
)
def test_other_properties_do_not_need_sparks_writer(name: str, value: str) -> None:
    assert why_spark_must_write(table(properties={name: value}), WANTED) is None


@pytest.mark.parametrize(
    "key",
    [
        "delta__invariants",
        "delta__generationExpression",
        "delta__identity__start",
        "CURRENT_DEFAULT",
        "delta__columnMapping__id",
        "unheard_of",
    ],
)
def test_a_column_with_metadata_needs_sparks_writer_at_any_depth(key: str) -> None:
    leaf = field("leaf", StringType(), **{key: "x"})
    inside = MapType(StringType(), ArrayType(StructType([leaf])))
    name = key.replace("__", ".")
    whole = None if name in CHECKED_METADATA else f"column leaf with {name}"
    assert why_spark_must_write(table(ID, N, SOURCE_COLUMN, leaf), WANTED) == whole
    assert why_spark_must_write(table(ID, N, SOURCE_COLUMN, field("c", inside)), WANTED) == f"column c.leaf with {name}"


def test_a_column_comment_does_not_need_sparks_writer() -> None:
    assert (
        why_spark_must_write(table(ID, N, SOURCE_COLUMN, field("c", StringType(), comment="what it is")), WANTED)
        is None
    )


def test_a_not_null_column_does_not_need_sparks_writer_since_rows_are_checked() -> None:
    lax = [StructField("id", StringType()), N, SOURCE_COLUMN]
    assert why_spark_must_write(table(ID, N, SOURCE_COLUMN), lax) is None


@pytest.mark.parametrize("nullable", [True, False])
def test_not_null_in_the_structs_of_an_array_needs_sparks_writer_unless_the_source_has_it_too(nullable: bool) -> None:
    strict = field("s", ArrayType(StructType([field("a", LongType(), nullable=False)])))
    own = field("s", ArrayType(StructType([field("a", LongType(), nullable=nullable)])))
    reason = why_spark_must_write(table(ID, SOURCE_COLUMN, strict), [ID, SOURCE_COLUMN, own])
    assert (reason is None) == (not nullable)


def test_not_null_elements_and_values_need_sparks_writer() -> None:
    elements = field("a", ArrayType(LongType(), containsNull=False))
    values = field("m", MapType(StringType(), LongType(), valueContainsNull=False))
    assert (
        why_spark_must_write(table(ID, N, SOURCE_COLUMN, elements), WANTED) == "column a, whose elements are NOT NULL"
    )
    assert why_spark_must_write(table(ID, N, SOURCE_COLUMN, values), WANTED) == "column m, whose values are NOT NULL"


def test_a_column_name_in_another_case_needs_sparks_writer() -> None:
    found = table(StructField("ID", StringType()), N, SOURCE_COLUMN)
    assert why_spark_must_write(found, WANTED) == "column ID, which the source spells differently"


@pytest.mark.parametrize(
    ("data_type", "plain"),
    [(StringType(), True), (DateType(), True), (LongType(), True), (DoubleType(), False), (TimestampType(), False)],
)
def test_only_partition_values_with_one_spelling_are_written_by_tasks(data_type: DataType, plain: bool) -> None:
    found = table(ID, SOURCE_COLUMN, field("p", data_type), partition_by=["p"])
    assert (why_spark_must_write(found, [ID, SOURCE_COLUMN, field("p", data_type)]) is None) == plain


def test_a_new_table_has_statistics_of_simple_columns_and_of_provenance() -> None:
    columns = [*(field(f"c{n}", LongType()) for n in range(40)), field("s", StructType([N])), field("a.b", DateType())]
    own = tuple(f"_source.{name}" for name in SOURCE_COLUMN.dataType.fieldNames())  # type: ignore[attr-defined]
    assert new_table_stats_columns(columns, ["c3"]) == (*(f"c{n}" for n in range(27) if n != 3), *own)
    assert new_table_stats_columns(columns[-2:], []) == ("`a.b`", *own)
    assert new_table_properties(columns[-2:], []) == {
        "delta.dataSkippingStatsColumns": "`a.b`,`_source`",
        "delta.dataSkippingStringPrefixLength": "256",
    }


def test_conflicting_and_missing_columns_of_a_table() -> None:
    found = table(StructField("ID", StringType()), StructField("n", StringType()), partition_by=["n"])
    assert list(column_conflicts(found, WANTED, [])) == [
        "column n: expected bigint, found string",
        "partition_by: expected [], found ['n']",
    ]
    assert [column.name for column in missing_columns(found, WANTED)] == ["_source"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("day=2024-02-29/part-0.parquet", "day=2024-02-29/part-0.parquet"),
        ("p=a b/f", "p=a%20b/f"),
        ("p=50%25/f", "p=50%2525/f"),
        ("p=né/日本", "p=né/日本"),
        ("p=x\u00a0y/[z]", "p=x%C2%A0y/%5Bz%5D"),
        ("p=a|b&c+d~!'/f", "p=a%7Cb&c+d~!'/f"),
    ],
)
def test_paths_are_escaped_as_delta_escapes_them(path: str, expected: str) -> None:
    assert url_path(path) == expected


def test_a_snapshot_partition_holds_fifty_thousand_files() -> None:
    found = [snapshot_partitions(files) for files in (0, 1, 50_000, 50_001, 200_000, 10_000_000)]
    assert found == [1, 1, 1, 2, 4, 50]


@pytest.mark.parametrize(
    ("found", "added", "after"),
    [
        ("`id`,`_source`", "x INT", "`id`,`x`,`_source`"),
        ("`_source`", "`a``b,` STRING, d DATE", "`a``b,`,`d`,`_source`"),
        ("`id`,`_source`", "s STRUCT<a: INT>, l ARRAY<INT>, b BINARY, f BOOLEAN", None),
        ("`id`,`_source`", "s STRUCT<a: INT>, x INT", "`id`,`x`,`_source`"),
        (f"{MANY}`_source`", "x INT, y INT", f"{MANY}`x`,`_source`"),
        (f"{MANY}`last`,`_source`", "x INT", None),
        ("id,_source", "x INT", None),
        ("`id`", "x INT", None),
        ("`_source`,`id`", "x INT", None),
        (None, "x INT", None),
    ],
)
def test_the_statistics_of_a_table_with_new_columns(found: str | None, added: str, after: str | None) -> None:
    properties = {} if found is None else {STATS_PROPERTY: found}
    assert with_stats_of(properties, columns_of(added)) == ({} if after is None else {STATS_PROPERTY: after})
