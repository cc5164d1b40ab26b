"""`blizzard validate --against-table` names what stays in a table, although the configuration says otherwise."""

import json
from typing import Any

import pytest

from tests.spark.engine_lake import EngineLake
from tests.unit.table_lake import change_metadata, commit, lake, newest, reasons, set_properties, told
from tests.unit.test_against_table import ONLY_WHEN_MADE
from tests.unit.test_configuration_changes import begin

__all__ = ["lake"]


# -- NOT NULL


def test_not_null_that_the_table_does_not_have_holds_for_new_records(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(lake, "id STRING, n INT, s STRUCT<a: INT>")
    lake.settings = {"schema": "id STRING NOT NULL, n INT, s STRUCT<a: INT NOT NULL>, x INT NOT NULL"}
    code, table = told(lake, capsys)
    assert (code, table["changes"]) == (0, ["adds column x int; rows that are there have null"])
    held = "NOT NULL of id, s.a, x is not in the table: a new record without a value there becomes a dead letter; the "
    held += "table's columns stay nullable, and rows that are there stay"
    assert table["notes"] == [held]
    lake.put("2.ndjson", {"id": "b", "x": 1, "s": {}}, {"id": "c", "x": 1, "s": {"a": 1}}, {"id": "d"})
    lake.run()
    assert [(row["id"], row["x"]) for row in lake.rows()] == [("a", None), ("c", 1)]
    assert {row: error.partition(":")[0] for (_, row), error in reasons(lake).items()} == {0: "s.a", 2: "x"}
    assert all(field["nullable"] for field in json.loads(newest(lake, "metaData")["schemaString"])["fields"])


def test_not_null_of_the_table_holds_for_records_that_may_have_null(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(lake, "id STRING NOT NULL, n INT NOT NULL")
    lake.settings = {"schema": "id STRING NOT NULL, n INT"}
    one = "NOT NULL of id is not in the table: a new record without a value there becomes a dead letter; the table's "
    one += "column stays nullable, and rows that are there stay"
    assert told(lake, capsys)[1]["notes"] == [one]
    change_metadata(lake, id={"nullable": False}, n={"nullable": False})
    held = "column n is NOT NULL in the table, although the configuration allows null: a record without a value there "
    held += "becomes a dead letter, until ALTER TABLE … ALTER COLUMN n DROP NOT NULL"
    checked = "checks column n, NOT NULL in the table: by the fast reader"
    assert told(lake, capsys)[1]["notes"] == [checked, held]
    lake.put("2.ndjson", {"id": "b", "n": 2}, {"id": "c"})
    lake.run()
    assert (lake.ids(), [*reasons(lake)]) == (["a", "b"], [("2.ndjson", 1)])


# -- constraints, comments, properties


def test_a_constraint_that_is_taken_out_stays(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    begin(lake, constraints={"Positive": "n > 0"})
    assert not any("stays" in note for note in told(lake, capsys)[1]["notes"])
    lake.table_settings = {}
    stays = "constraint positive (n > 0) stays, although the pipeline does not have it, until ALTER TABLE … DROP "
    stays += "CONSTRAINT positive"
    assert told(lake, capsys)[1]["notes"] == ["checks constraint positive (n > 0): by the fast reader", stays]
    lake.put("2.ndjson", {"id": "b", "n": 0})
    lake.run()
    assert lake.ids() == ["a"]


def test_validate_says_that_a_comment_of_a_column_that_is_there_changes_nothing(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(lake, "id STRING COMMENT 'the key', n INT, s STRUCT<a: INT>")
    more = "s STRUCT<a: INT COMMENT 'inner'>, x INT COMMENT 'new'"
    lake.settings = {"schema": f"id STRING COMMENT 'a key', n INT COMMENT 'many', {more}"}
    code, table = told(lake, capsys)
    assert (code, table["refused"]) == (0, [])
    assert table["changes"] == ["adds column x int; rows that are there have null"]
    assert table["notes"] == [
        "column id: the table has the comment 'the key', not 'a key': it is set only when a column is made",
        "column n: the table has no comment, not 'many': it is set only when a column is made",
        "column s.a: the table has no comment, not 'inner': it is set only when a column is made",
    ]


def test_properties_of_delta_are_compared_without_case(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    begin(lake, table_properties={"delta.appendOnly": "true", "Owner": "me"})
    lake.table_settings = {"table_properties": {"delta.appendonly": "true", "owner": "me"}}
    [note] = told(lake, capsys)[1]["notes"]
    assert note.startswith("table_properties: the table has no owner, not owner = me")


# -- clustering


def cluster(lake: EngineLake, *columns: str, stored: dict[str, str] | None = None) -> None:
    """Another program makes it a clustered table. `stored`: by which names files have its columns."""
    if stored:
        kept = {name: {"metadata": {"delta.columnMapping.physicalName": stored[name]}} for name in stored}
        change_metadata(lake, **kept)
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 7}
    set_properties(lake, {**protocol, "writerFeatures": ["clustering", "domainMetadata"]})
    paths = [[(stored or {}).get(name, name)] for name in columns]
    text = json.dumps({"clusteringColumns": paths, "domainName": "delta.clustering"})
    other = {"domain": "delta.rowTracking", "configuration": "{}", "removed": False}
    commit(lake, {"domainMetadata": {**other, "domain": "delta.clustering", "configuration": text}}, None)
    commit(lake, {"domainMetadata": other}, None)


STAYS = (
    "cluster_by: the table is clustered by {}, and stays so, although the pipeline has no `cluster_by`, until ALTER "
)
ONLY_MADE = f"cluster_by: the table is {{}}: {ONLY_WHEN_MADE}"


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (["n", "id"], ["ID", "n"], None),
        (["n"], ["id"], ONLY_MADE.format("clustered by n, not by id")),
        (["n"], [], f"{STAYS.format('n')}TABLE … CLUSTER BY NONE"),
        ([], ["id"], ONLY_MADE.format("not clustered")),
        ([], [], None),
    ],
)
def test_a_clustering_that_differs_is_named(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], found: list[str], wanted: list[str], said: str | None
) -> None:
    begin(lake)
    cluster(lake, *found)
    lake.table_settings = {"cluster_by": [name.replace("ID", "id") for name in wanted]}
    notes = told(lake, capsys)[1]["notes"]
    assert [note for note in notes if note.startswith("cluster_by")] == ([said] if said else [])
    needed = "cannot be told without Spark, which is needed for a table with the feature clustering"
    assert notes[-1] == f"whether `uri` has moved {needed}"


def test_columns_of_a_clustering_have_the_names_of_the_table(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(lake)
    cluster(lake, "n", stored={"id": "col-1", "n": "col-2"})
    assert f"{STAYS.format('n')}TABLE … CLUSTER BY NONE" in told(lake, capsys)[1]["notes"]


# -- derived columns


def test_an_expression_that_was_changed_is_named_until_the_newest_rows_have_its_values(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.table_settings = {"partition_by": ["part"]}
    derive = {"low": "lower(id)", "at": "_source.row", "part": "coalesce(id, 'none')", "when": "to_date(id)"}
    lake.settings = {"schema": "id STRING, n INT", "derive": derive}
    lake.put("1.ndjson", {"id": "2026-01-01", "n": 1}, {"id": "2026-01-02", "n": 2}, {"n": 3})
    lake.run()
    assert told(lake, capsys)[1]["notes"] == []
    lake.settings["derive"] = {**derive, "low": "upper(id)", "at": "CAST(n AS BIGINT)", "more": "n"}
    code, table = told(lake, capsys)
    assert (code, table["changes"]) == (0, ["adds column more int; rows that are there have null"])
    looked_at = "newest rows that were looked at have: rows that are there keep theirs, and new rows have those of"
    changed = f"column at: CAST(n AS BIGINT) gives other values than 1 of the 1 {looked_at} this expression"
    assert table["notes"] == [changed]
    lake.put("2.ndjson", {"id": "2026-01-03", "n": 4})
    lake.run()
    assert told(lake, capsys)[1]["notes"] == []
    assert [row["at"] for row in lake.rows()] == [0, 1, 2, 4]
