"""What a configuration wants of a new table: clustering, properties, comments, names of any characters. And tables that
others made with features of their own."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import PermanentError
from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake

pytestmark = pytest.mark.spark

ODD_NAMES = ["a b", "x.y", "größe", "1;2", "k=v", "日本", "q`q"]


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path, spark)
    yield made
    made.close()


def sql(lake: EngineLake, text: str) -> Any:
    return lake.spark().sql(text.replace("{t}", f"delta.`{lake.table}`")).collect()


def land_twice(lake: EngineLake, **more: Any) -> None:
    for name in "ab":
        lake.put(f"{name}.ndjson", {"id": name, "n": 1, **more})
        assert lake.run().commits == 1


def ids(lake: EngineLake) -> list[str]:
    return [row["id"] for row in sql(lake, "SELECT id FROM {t} ORDER BY id")]


def test_a_table_is_clustered_and_has_properties_and_comments(lake: EngineLake) -> None:
    lake.table_settings = {
        "cluster_by": ["day", "id"],
        "table_properties": {"delta.enableChangeDataFeed": "true", "owner": "me"},
        "constraints": {"positive": "n > 0"},
    }
    lake.settings = {
        "schema": "id STRING COMMENT 'the key', n BIGINT, s STRUCT<a: INT COMMENT 'inside'>",
        "derive": {"day": "date(timestamp_seconds(n))"},
    }
    lake.put("0.ndjson", {"id": "0", "n": 1})
    with pytest.raises(NeedsSpark, match=r"making table .* clustered by columns"):
        lake.run()
    lake.chosen = "auto"
    assert lake.run().commits == 1
    land_twice(lake)
    assert (ids(lake), lake.logged("rows_written_twice")) == (["0", "a", "b"], [])
    [detail] = sql(lake, "DESCRIBE DETAIL {t}")
    assert detail["clusteringColumns"] == ["day", "id"]
    wanted = {"delta.enableChangeDataFeed": "true", "owner": "me", "delta.constraints.positive": "n > 0"}
    assert wanted.items() <= detail["properties"].items()
    fields = lake.spark().read.format("delta").load(str(lake.table)).schema
    assert fields["id"].metadata == {"comment": "the key"}
    assert fields["s"].dataType["a"].metadata == {"comment": "inside"}
    sql(lake, "OPTIMIZE {t}")
    assert ids(lake) == ["0", "a", "b"]
    assert len(sql(lake, f"SELECT * FROM table_changes_by_path('{lake.table}', 0)")) == 3


@pytest.mark.parametrize("clustered", [False, True])
def test_columns_have_any_name(lake: EngineLake, clustered: bool) -> None:
    """With column mapping from the first commit on, so by Spark's writer."""
    lake.chosen = "auto"
    names = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in ODD_NAMES)
    lake.settings = {"schema": f"id STRING, n BIGINT, {names}", "derive": {"low er": "lower(`a b`)"}}
    lake.table_settings = {"cluster_by": ["a b"]} if clustered else {"partition_by": ["a b"]}
    land_twice(lake, **{name: f"V{at}" for at, name in enumerate(ODD_NAMES)})
    rows = [row.asDict() for row in sql(lake, "SELECT * FROM {t}")]
    expected = {name: f"V{at}" for at, name in enumerate(ODD_NAMES)} | {"low er": "v0"}
    assert [{name: row[name] for name in expected} for row in rows] == [expected] * 2
    assert len(lake.logged("rows_written_twice")) == 2
    if clustered:
        assert sql(lake, "DESCRIBE DETAIL {t}")[0]["clusteringColumns"] == ["`a b`"]


def test_what_takes_effect_when_a_table_is_made_changes_none_that_exists(lake: EngineLake) -> None:
    """As `validate --against-table` says; `tests/unit/test_against_table_stays.py` has the same of the local engine."""
    lake.chosen = "spark"
    lake.settings, lake.table_settings = {"schema": "id STRING, n INT"}, {"cluster_by": ["n"]}
    lake.put("0.ndjson", {"id": "0", "n": 1}, {"id": "1"})
    lake.run()
    lake.settings = {"schema": "id STRING COMMENT 'the key', n INT NOT NULL"}
    lake.table_settings = {"cluster_by": ["id"], "table_properties": {"owner": "me"}}
    lake.put("1.ndjson", {"id": "2", "n": 1}, {"id": "3"})
    lake.run()
    assert (ids(lake), [letter["row"] for letter in lake.letters()]) == (["0", "1", "2"], [1])
    [detail] = sql(lake, "DESCRIBE DETAIL {t}")
    assert (detail["clusteringColumns"], detail["properties"].get("owner")) == (["n"], None)
    fields = lake.spark().read.format("delta").load(str(lake.table)).schema
    assert (fields["id"].metadata, fields["n"].nullable) == ({}, True)


def test_a_name_that_needs_column_mapping_is_added_to_a_table_without(lake: EngineLake) -> None:
    lake.put("0.ndjson", {"id": "0", "n": 1})
    lake.run()
    lake.settings = {"schema": "id STRING NOT NULL, n BIGINT, `a b` STRING COMMENT 'its'"}
    lake.put("1.ndjson", {"id": "1", "n": 1, "a b": "x"})
    with pytest.raises(NeedsSpark, match="column mapping"):
        lake.run()
    lake.chosen = "auto"
    lake.run()
    assert [row["a b"] for row in sql(lake, "SELECT `a b` FROM {t} ORDER BY id")] == [None, "x"]
    assert lake.spark().read.format("delta").load(str(lake.table)).schema["a b"].metadata["comment"] == "its"


def test_a_type_is_widened_and_no_row_is_lost(lake: EngineLake) -> None:
    """The rows before it stay in their files."""
    lake.settings = {"schema": "id STRING, n INT, d DATE, s STRUCT<a: TINYINT>, l ARRAY<FLOAT>, q DECIMAL(5, 2)"}
    first = {"id": "0", "n": 1, "d": "2024-01-28", "s": {"a": 1}, "l": [0.5], "q": 1.25}
    lake.put("0.ndjson", first)
    lake.run()
    wide = "id STRING, n BIGINT, d TIMESTAMP_NTZ, s STRUCT<a: INT>, l ARRAY<DOUBLE>, q DECIMAL(12, 4)"
    lake.settings, lake.chosen = {"schema": wide}, "auto"
    large = {"id": "1", "n": 1 << 40, "d": "2024-01-28T01:02:03", "s": {"a": 1 << 20}, "l": [1e300], "q": 12345678.1234}
    lake.put("1.ndjson", large)
    lake.run()
    rows = sql(lake, "SELECT id, n, CAST(d AS STRING) AS d, s.a AS a, l, CAST(q AS STRING) AS q FROM {t} ORDER BY id")
    assert [tuple(row) for row in rows] == [
        ("0", 1, "2024-01-28 00:00:00", 1, [0.5], "1.2500"),
        ("1", 1 << 40, "2024-01-28 01:02:03", 1 << 20, [1e300], "12345678.1234"),
    ]
    assert lake.run().commits == 0


NESTED = "s STRUCT<a: INT>, l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>"
NESTED_MORE = (
    "s STRUCT<`b c`: STRUCT<d: DATE> COMMENT 'its', a: BIGINT>, l ARRAY<STRUCT<a: INT, b: INT>>, "
    "m MAP<STRING, STRUCT<b: INT, a: INT>>"
)


@pytest.mark.parametrize("chosen", ["local", "spark", "mapped"])
def test_fields_are_added_in_columns_that_the_table_has(lake: EngineLake, chosen: str) -> None:
    """By both engines alike; a name that only column mapping takes, and another change of the same column, by Spark."""
    lake.chosen = chosen if chosen != "mapped" else "auto"
    more = NESTED_MORE if chosen == "mapped" else NESTED_MORE.replace("`b c`", "b").replace("BIGINT", "INT")
    name = "b c" if chosen == "mapped" else "b"
    few = {"s": {"a": 1}, "l": [{"a": 1}], "m": {"k": {"a": 1}}}
    lake.settings = {"schema": f"id STRING, {NESTED}"}
    lake.put("0.ndjson", {"id": "0", **few})
    lake.run()
    lake.settings = {"schema": f"id STRING, {more}"}
    large = 1 << 40 if chosen == "mapped" else 2
    full = {"s": {"a": large, name: {"d": "2026-11-21"}}, "l": [{"a": 2, "b": 3}], "m": {"k": {"a": 2, "b": 3}}}
    lake.put("1.ndjson", {"id": "1", **full}, {"id": "2", **few})
    lake.run()
    found = sql(lake, f"SELECT to_json(struct(s, l, m)) AS j, CAST(s.`{name}`.d AS STRING) AS d FROM {{t}} ORDER BY id")
    assert [json.loads(row["j"]) for row in found] == [few, full, few]
    assert [row["d"] for row in found] == [None, "2026-11-21", None]
    schema = lake.spark().read.format("delta").load(str(lake.table)).schema["s"].dataType
    assert schema[name].metadata.get("comment") == "its"


@pytest.mark.parametrize("configured", [False, True])
def test_columns_that_come_later_get_statistics(lake: EngineLake, configured: bool) -> None:
    """By Delta's own classes, as `tests/unit/test_schema_on_disk.py` has it for the local engine."""
    lake.chosen = "spark"
    lake.settings = {"schema": "id STRING"}
    lake.put("0.ndjson", {"id": "0"})
    lake.run()
    lake.settings = {"schema": "id STRING, `it's` INT"} if configured else {"schema": "id STRING", "new_fields": "add"}
    name = "it's" if configured else "x"
    lake.put("1.ndjson", {"id": "1", name: 5})
    lake.run()
    (added,) = [action["add"] for action in lake.actions(lake.versions()[-1]) if "add" in action]
    assert json.loads(added["stats"])["maxValues"][name] == 5
    [detail] = sql(lake, "DESCRIBE DETAIL {t}")
    names = detail["properties"]["delta.dataSkippingStatsColumns"].split(",")
    assert {"`id`", f"`{name}`", "`_source`"} <= {*names}
    assert names[-1] == "`_source`"


def test_inferred_columns_are_clustered_derived_from_and_checked_by_spark(lake: EngineLake) -> None:
    lake.chosen = "auto"
    lake.settings = {"schema": "infer", "derive": {"twice": "n * 2", "day": "date(timestamp_seconds(n))"}}
    lake.table_settings = {"cluster_by": ["day"], "constraints": {"small": "twice < 10"}}
    lake.put("0.ndjson", {"id": "0", "n": 1}, {"id": "1", "n": 7})
    lake.run()
    lake.put("1.ndjson", {"id": "2", "n": 3})
    lake.run()
    assert [tuple(row) for row in sql(lake, "SELECT id, n, twice FROM {t} ORDER BY id")] == [("0", 1, 2), ("2", 3, 6)]
    assert [letter["error"].partition(":")[0] for letter in lake.letters()] == ["constraint small (twice < 10)"]
    assert sql(lake, "DESCRIBE DETAIL {t}")[0]["clusteringColumns"] == ["day"]


def test_an_expression_that_spark_cannot_evaluate_over_inferred_columns_makes_no_table(lake: EngineLake) -> None:
    lake.chosen = "auto"
    lake.settings = {"schema": "infer", "derive": {"twice": "nn * 2"}}
    lake.put("0.ndjson", {"id": "0", "n": 1})
    with pytest.raises(PermanentError, match="nn"):
        lake.run()
    assert lake.versions() == []


# -- tables that others made

SOURCE = "STRUCT<source: STRING, file: STRING, row: BIGINT, etag: STRING, modified: TIMESTAMP, sequence: BIGINT>"
PLAIN = f"(id STRING, n BIGINT, _source {SOURCE})"
OTHERS: Mapping[str, tuple[str, dict[str, str]]] = {
    "deletion vectors": (PLAIN, {"delta.enableDeletionVectors": "true"}),
    "change data feed": (PLAIN, {"delta.enableChangeDataFeed": "true"}),
    "column mapping by name": (PLAIN, {"delta.columnMapping.mode": "name"}),
    "column mapping by id": (PLAIN, {"delta.columnMapping.mode": "id"}),
    "defaults": (
        f"(id STRING, n BIGINT DEFAULT 7, extra STRING DEFAULT 'none', _source {SOURCE})",
        {"delta.feature.allowColumnDefaults": "supported"},
    ),
    "row tracking": (PLAIN, {"delta.enableRowTracking": "true"}),
    "V2 checkpoints": (PLAIN, {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}),
    "in-commit timestamps": (PLAIN, {"delta.enableInCommitTimestamps": "true"}),
    "Iceberg compatibility": (PLAIN, {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"}),
    "type widening": (PLAIN, {"delta.enableTypeWidening": "true"}),
    "all of it": (
        f"(id STRING NOT NULL, n BIGINT, _source {SOURCE}) CLUSTER BY (id)",
        {
            "delta.enableDeletionVectors": "true",
            "delta.enableChangeDataFeed": "true",
            "delta.columnMapping.mode": "name",
            "delta.enableRowTracking": "true",
            "delta.enableInCommitTimestamps": "true",
            "delta.constraints.positive": "n > 0",
        },
    ),
}


def make(lake: EngineLake, made_with: str) -> None:
    columns, properties = OTHERS[made_with]
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    table, _, cluster = columns.partition(" CLUSTER BY")
    cluster = cluster and f"CLUSTER BY{cluster}"
    constraints = {name: value for name, value in properties.items() if "constraints" in name}
    plain = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items() if name not in constraints)
    sql(lake, f"CREATE TABLE {{t}} {table} USING delta {cluster} TBLPROPERTIES ({plain or listed})")
    for name, condition in constraints.items():
        sql(lake, f"ALTER TABLE {{t}} ADD CONSTRAINT {name.rpartition('.')[2]} CHECK ({condition})")
    lake.chosen = "auto"
    lake.settings = {"schema": "id STRING, n BIGINT"}


@pytest.mark.parametrize("made_with", OTHERS)
def test_tables_that_others_made_get_their_rows(lake: EngineLake, made_with: str) -> None:
    """Rows come, are changed by SQL, and come again, each once."""
    make(lake, made_with)
    properties = OTHERS[made_with][1]
    land_twice(lake)
    sql(lake, "DELETE FROM {t} WHERE id = 'a'")
    sql(lake, "UPDATE {t} SET n = 5 WHERE id = 'b'")
    lake.put("c.ndjson", {"id": "c", "n": 3}, {"id": "d", "n": 4})
    assert lake.run().commits == 1
    assert [tuple(row) for row in sql(lake, "SELECT id, n FROM {t} ORDER BY id")] == [("b", 5), ("c", 3), ("d", 4)]
    assert lake.run().commits == 0
    if "delta.enableChangeDataFeed" in properties:
        changes = sql(lake, f"SELECT id, _change_type FROM table_changes_by_path('{lake.table}', 1)")
        assert sorted(row["id"] for row in changes if row["_change_type"] == "insert") == ["a", "b", "c", "d"]
    if (
        made_with == "defaults"
    ):  # a column that a source does not have gets its default; a field that is missing is null
        found = sql(lake, "SELECT DISTINCT extra FROM {t}")
        assert [row["extra"] for row in found] == ["none"]
    if made_with == "row tracking":
        found = sql(lake, "SELECT DISTINCT _metadata.row_id AS id FROM {t}")
        assert len({row["id"] for row in found} - {None}) == 3


@pytest.mark.parametrize("made_with", OTHERS)
def test_tables_with_rows_that_others_wrote_and_changed_get_theirs(lake: EngineLake, made_with: str) -> None:
    """Rows of others were deleted and updated before the first run, and are again between two runs."""
    make(lake, made_with)
    rows = ", ".join(f"('o{number}', {number})" for number in range(1, 7))
    sql(lake, f"INSERT INTO {{t}} (id, n) VALUES {rows}")
    sql(lake, "DELETE FROM {t} WHERE id = 'o1'")
    sql(lake, "UPDATE {t} SET n = 20 WHERE id = 'o2'")
    land_twice(lake)
    sql(lake, "DELETE FROM {t} WHERE id IN ('o3', 'a')")
    sql(lake, "UPDATE {t} SET n = n * 10 WHERE id IN ('o4', 'b')")
    sql(lake, "MERGE INTO {t} t USING (SELECT 'o5' AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    lake.put("c.ndjson", {"id": "c", "n": 3})
    assert lake.run(late=True).commits == 1
    assert lake.run(late=True).commits == 0
    found = {row["id"]: (row["n"], row["file"]) for row in sql(lake, "SELECT id, n, _source.file AS file FROM {t}")}
    assert found == {
        "o2": (20, None),
        "o4": (40, None),
        "o6": (6, None),
        "b": (10, "b.ndjson"),
        "c": (3, "c.ndjson"),
    }
    assert sql(lake, "SELECT count(*) AS n FROM {t}")[0]["n"] == len(found)
