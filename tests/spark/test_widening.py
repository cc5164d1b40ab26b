"""Columns that are widened for values that do not fit, by Delta's own classes, in a commit with the source's Txn."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaProtocolError
from pyspark.sql import SparkSession

from blizzard.cli import main
from blizzard.state.schema_changes import FieldChange, SchemaChange
from spark_job.engines.spark.table import USER_METADATA
from spark_job.table.effective_schema import EvolutionRules
from spark_job.table.widening import WIDENING_PROPERTY
from tests.spark.engine_lake import EngineLake
from tests.spark.table_world import World

pytestmark = pytest.mark.spark
WIDENED = {
    "a": ("tinyint", "smallint"),
    "b": ("smallint", "int"),
    "c": ("int", "bigint"),
    "d": ("float", "double"),
    "e": ("decimal(5,2)", "decimal(12,4)"),
    "f": ("date", "timestamp_ntz"),
    "g": ("int", "double"),
    "h": ("int", "decimal(12,2)"),
    "i": ("bigint", "decimal(20,0)"),
    "s.x": ("int", "bigint"),
    "l[]": ("int", "bigint"),
    "m{}": ("int", "bigint"),
    "n{}.x": ("int", "bigint"),
}
COLUMNS = (
    "id STRING, a TINYINT, b SMALLINT, c INT, d FLOAT, e DECIMAL(5,2), f DATE, g INT, h INT, i BIGINT, "
    "s STRUCT<x: INT>, l ARRAY<INT>, m MAP<STRING, INT>, n MAP<INT, STRUCT<x: INT>>"
)
OLD_ROW = (
    "INSERT INTO {t} (id, a, c, g, s, l, m, f) "
    "VALUES ('1', 1, 2, 3, struct(4), array(5), map('k', 6), DATE'2024-01-02')"
)


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path, spark, {"schema": "id STRING, n INT"}, chosen="auto")
    yield made
    made.close()


def rows(lake: EngineLake) -> list[dict[str, Any]]:
    """deltalake reads no table with widened columns."""
    found = lake.spark().read.format("delta").load(str(lake.table)).orderBy("id").collect()
    return [{name: value for name, value in row.asDict().items() if name != "_source"} for row in found]


def as_in_log(world: World) -> tuple[Any, Any, Any]:
    """The newest columns, properties and protocol."""
    actions = [action for number in range(len(world.versions())) for action in world.actions(number)]
    metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
    protocol = [action["protocol"] for action in actions if "protocol" in action][-1]
    sorted_protocol = {name: sorted(value) if isinstance(value, list) else value for name, value in protocol.items()}
    return json.loads(metadata["schemaString"]), metadata["configuration"], sorted_protocol


def test_the_log_says_of_a_widened_column_what_alter_table_says(
    tmp_path: Path, spark: Callable[[], SparkSession]
) -> None:
    ours, altered = (World(tmp_path / name, spark, schema=COLUMNS) for name in ("ours", "altered"))
    for world in (ours, altered):
        world.source().append(None, sequence=0, user_metadata="made")
        world.sql(OLD_ROW)
    change = SchemaChange(tuple(FieldChange(path, to, was, 1, "f") for path, (was, to) in WIDENED.items()))
    ours.source(evolution=EvolutionRules(widen=True)).change_schema(change, sequence=1, user_metadata="widened")
    features = f"'{WIDENING_PROPERTY}' = 'true', 'delta.feature.timestampNtz' = 'supported'"
    altered.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({features})")
    for path, (_, to) in WIDENED.items():
        column = path.replace("[]", ".element").replace("{}", ".value")
        altered.sql(f"ALTER TABLE {{t}} ALTER COLUMN {column} TYPE {to}")
    assert as_in_log(ours) == as_in_log(altered)
    assert ours.sql("SELECT * FROM {t}") == altered.sql("SELECT * FROM {t}")
    assert [action["txn"]["version"] for action in ours.actions() if "txn" in action] == [1]


def test_a_column_is_widened_and_goes_on_to_adopt_data_files(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.settings |= {"misfits": "widen", "new_fields": "add"}
    lake.put("a.ndjson", {"id": "1", "n": 1})
    lake.run()
    lake.put("b.ndjson", {"id": "4", "n": "text"}, {"id": "2", "n": 5_000_000_000, "x": 1.5}, {"id": "3", "n": 2})
    lake.run()
    assert [(row["n"], row["x"]) for row in rows(lake)] == [(1, None), (5_000_000_000, 1.5), (2, None), (None, None)]
    assert json.loads(rows(lake)[3]["_rescued"]) == {"n": "text"}
    (changed,) = lake.logged("schema_changed")
    assert [(field["path"], field["type"]) for field in changed["fields"]] == [("x", "double"), ("n", "bigint")]
    assert (changed["added"], changed["widened"]) == (1, 1)
    lake.put("c.ndjson", {"id": "5", "n": 6_000_000_000})
    lake.run()
    assert len(lake.logged("schema_changed")) == 1
    assert lake.logged("rows_written_twice") == []
    (added,) = [action["add"] for action in lake.actions(lake.versions()[-1]) if "add" in action]
    assert json.loads(added["stats"])["maxValues"]["n"] == 6_000_000_000
    assert [
        row["id"] for row in lake.spark().sql(f"SELECT id FROM delta.`{lake.table}` WHERE n > 5500000000").collect()
    ] == ["5"]
    assert lake.logged("spark_needed")
    with pytest.raises(DeltaProtocolError, match="typeWidening"):
        DeltaTable(str(lake.table)).to_pyarrow_dataset()
    assert main(["schema-history", str(lake.write_config()), "--json", "--source", "landing"]) == 0
    (history,) = json.loads(capsys.readouterr().out)
    _, change = history["changes"]
    assert [(f["path"], f["was"], f["file"], f["record"]) for f in change["fields"] if f["was"]] == [
        ("n", "int", "b.ndjson", 1)
    ]


@pytest.mark.parametrize("chosen", ["auto", "spark"])
def test_the_history_names_the_source_whose_configuration_has_changed(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], chosen: str
) -> None:
    lake.chosen = chosen
    lake.put("a.ndjson", {"id": "1", "n": 1})
    lake.run()
    lake.settings["schema"] = "id STRING, n BIGINT, more DOUBLE"
    lake.put("b.ndjson", {"id": "2", "n": 5_000_000_000})
    lake.run()
    assert main(["schema-history", str(lake.write_config()), "--json", "--source", "landing"]) == 0
    (history,) = json.loads(capsys.readouterr().out)
    fields = [field for entry in history["changes"][1:] for field in entry["fields"]]
    assert [(one["path"], one["was"], one["origin"]) for one in fields] == [
        ("n", "int", "configuration"),
        ("more", None, "configuration"),
    ]
    assert lake.spark().conf.get(USER_METADATA, None) is None


def test_a_column_that_a_derived_one_is_made_of_is_not_widened_and_the_record_is_a_row(lake: EngineLake) -> None:
    lake.settings |= {"misfits": "widen", "derive": {"c": "coalesce(n, 0)"}}
    lake.put("a.ndjson", {"id": "1", "n": 1})
    lake.run()
    lake.put("b.ndjson", {"id": "2", "n": 5_000_000_000})
    lake.run()
    assert [(row["n"], row["c"], row["_rescued"]) for row in rows(lake)] == [
        (1, 1, None),
        (None, 0, '{"n":5000000000}'),
    ]
    assert (lake.letters(), lake.logged("schema_changed"), lake.logged("spark_needed")) == ([], [], [])


def test_of_types_that_conflict_the_new_column_is_a_string(lake: EngineLake) -> None:
    lake.settings["new_fields"] = "add"
    lake.put("a.ndjson", {"id": "1", "x": 5}, {"id": "2", "x": "five"}, {"id": "3", "x": {"y": [1]}})
    lake.run()
    assert [row["x"] for row in rows(lake)] == ["5", "five", '{"y":[1]}']


def test_a_column_of_a_table_that_spark_has_to_write_is_added(lake: EngineLake) -> None:
    """As one with a CHECK constraint, and with other names in its files."""
    lake.settings["new_fields"] = "add"
    lake.put("a.ndjson", {"id": "1", "n": 1})
    lake.run()
    lake.spark().sql(f"ALTER TABLE delta.`{lake.table}` ADD CONSTRAINT positive CHECK (n > 0)")
    lake.spark().sql(f"ALTER TABLE delta.`{lake.table}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    for number in (2, 3):
        lake.put(f"{number}.ndjson", {"id": f"{number}", "n": number, "x": 7})
        lake.run()
    assert [(row["n"], row["x"], row["_rescued"]) for row in rows(lake)] == [
        (1, None, None),
        (2, 7, None),
        (3, 7, None),
    ]
    assert len(lake.logged("schema_changed")) == 1
    assert lake.logged("rows_written_twice")
