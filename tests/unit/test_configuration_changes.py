"""A configuration that changes between two runs: each change has an answer, and none loses or doubles a row."""

import json
import shutil
from typing import Any

import pytest

from blizzard.cli import main
from blizzard.errors import BlizzardError, PermanentError, RecoveryError
from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import run
from tests.unit.table_lake import lake, reasons, set_properties

__all__ = ["lake"]


def begin(lake: EngineLake, schema: str = "id STRING, n INT", **table: Any) -> None:
    lake.settings, lake.table_settings = {"schema": schema}, table
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()


def refused_before_reading(lake: EngineLake, match: str, error: type[BlizzardError] = PermanentError) -> None:
    lake.put("2.ndjson", {"id": "b", "n": 2})
    lake.events.clear()
    with pytest.raises(error, match=match):
        lake.run()
    assert lake.logged("batch_read") == []
    assert (lake.ids(), lake.letters()) == (["a"], [])


def continues(lake: EngineLake, *ids: str) -> None:
    """After the change is taken back."""
    lake.run()
    assert lake.ids() == [*ids]


def test_an_added_column_is_added_to_the_table(lake: EngineLake) -> None:
    begin(lake)
    lake.settings = {"schema": "id STRING, x DOUBLE COMMENT 'new', n INT"}
    lake.put("2.ndjson", {"id": "b", "n": 2, "x": 0.5})
    lake.run()
    assert [(row["id"], row["x"]) for row in lake.rows()] == [("a", None), ("b", 0.5)]
    assert lake.logged("columns_left_out") == []


def test_a_column_that_is_taken_out_stays_and_is_null_and_that_is_said_once(lake: EngineLake) -> None:
    begin(lake)
    lake.settings = {"schema": "id STRING"}
    lake.put("2.ndjson", {"id": "b", "n": 2})
    job = lake.job()
    run(job)
    lake.put("3.ndjson", {"id": "c", "n": 3})
    run(job)
    assert [(row["id"], row["n"]) for row in lake.rows()] == [("a", 1), ("b", None), ("c", None)]
    left_out = {"event": "columns_left_out", "source": "events:landing", "columns": ["n"]}
    assert lake.logged("columns_left_out") == [left_out]


def test_a_column_of_another_source_is_not_left_out(lake: EngineLake) -> None:
    begin(lake)
    lake.put("2.ndjson", {"id": "b"})
    for job in lake.jobs({"landing": {"schema": "id STRING"}, "other": {"schema": "id STRING, n INT"}}):
        run(job)
    assert lake.ids() == ["a", "b"]
    assert lake.logged("columns_left_out") == []


def test_a_wider_type_is_left_to_spark_before_anything_is_read(lake: EngineLake) -> None:
    begin(lake)
    lake.settings = {"schema": "id STRING, n BIGINT"}
    refused_before_reading(lake, "widening column n from int to bigint", NeedsSpark)


@pytest.mark.parametrize("kind", ["STRING", "SMALLINT", "DATE", "FLOAT", "DECIMAL(9,0)", "STRUCT<a: INT>"])
def test_any_other_type_is_refused_with_the_ways_out(lake: EngineLake, kind: str) -> None:
    begin(lake)
    lake.settings = {"schema": f"id STRING, n {kind}"}
    refused_before_reading(lake, "column n: expected .*, found int.* as a column of another name.*another `table_uri`")
    lake.settings = {"schema": "id STRING, n INT"}
    continues(lake, "a", "b")


def test_a_decimal_to_which_delta_does_not_widen_is_refused_before_anything_is_read(lake: EngineLake) -> None:
    """Delta asks for as many digits as an INT has, also of a TINYINT."""
    begin(lake, "id STRING, n TINYINT")
    lake.settings = {"schema": "id STRING, n DECIMAL(5,0)"}
    refused_before_reading(lake, "column n: expected decimal.5,0., found tinyint")
    lake.settings = {"schema": "id STRING, n DECIMAL(10,0)"}
    refused_before_reading(lake, r"widening column n from tinyint to decimal\(10,0\)", NeedsSpark)


def test_not_null_that_is_added_holds_for_new_records_alone(lake: EngineLake) -> None:
    begin(lake)
    lake.put("2.ndjson", {"id": "b"})
    lake.run()
    lake.settings = {"schema": "id STRING, n INT NOT NULL"}
    lake.put("3.ndjson", {"id": "c"}, {"id": "d", "n": 4})
    lake.run()
    assert lake.ids() == ["a", "b", "d"]
    assert reasons(lake) == {("3.ndjson", 0): "n: NOT NULL, but it is missing or null"}


def test_not_null_that_is_taken_away_lets_nulls_in(lake: EngineLake) -> None:
    begin(lake, "id STRING NOT NULL, n INT NOT NULL")
    lake.settings = {"schema": "id STRING NOT NULL, n INT"}
    lake.put("2.ndjson", {"id": "b"})
    lake.run()
    assert lake.ids() == ["a", "b"]


def test_another_partitioning_is_refused(lake: EngineLake) -> None:
    begin(lake)
    lake.table_settings = {"partition_by": ["id"]}
    refused_before_reading(lake, r"partition_by: expected \['id'\], found \[\]")
    lake.table_settings = {}
    continues(lake, "a", "b")


@pytest.mark.parametrize("files", ["the same", "others"])
def test_a_renamed_source_is_refused_while_it_has_the_same_files(lake: EngineLake, files: str) -> None:
    begin(lake)
    lake.put("2.ndjson", {"id": "b", "n": 2})
    if files == "others":
        (lake.landing() / "1.ndjson").unlink()
    shutil.copytree(lake.landing(), lake.landing("renamed"), copy_function=shutil.move)
    [job] = lake.jobs({"renamed": lake.settings})
    if files == "others":
        run(job)
        assert sorted(lake.ids()) == ["a", "b"]
        return
    with pytest.raises(RecoveryError, match="came from source events:landing"):
        run(job)
    assert lake.ids() == ["a"]


def test_a_place_that_has_moved_with_its_files_doubles_none(lake: EngineLake) -> None:
    begin(lake)
    shutil.copytree(lake.landing(), lake.folder / "moved")
    (lake.folder / "moved" / "2.ndjson").write_text('{"id": "b", "n": 2}\n')
    lake.settings = {**lake.settings, "uri": str(lake.folder / "moved")}
    lake.run(late=True)
    assert lake.ids() == ["a", "b"]
    continues(lake, "a", "b")


# -- told beforehand


def told(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    file = str(lake.write_config())
    code = main(["validate", file, "--against-table", "--json"])
    [table] = json.loads(capsys.readouterr().out)["tables"]
    assert main(["validate", file, "--against-table"]) == code
    text = capsys.readouterr().out
    assert all(line in text for line in (*table["changes"], *table["notes"], *table["refused"]))
    return code, table


def test_validate_says_what_the_next_run_changes(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.settings = {"schema": "id STRING, n INT, old STRING"}
    assert told(lake, capsys)[1]["changes"] == ["makes the table"]
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    code, same = told(lake, capsys)
    assert (code, same["version"], same["changes"], same["notes"], same["refused"]) == (0, 0, [], [], [])
    lake.settings = {
        "schema": "id STRING, n BIGINT, x DOUBLE",
        "derive": {"low": "lower(id)", "twice": "n * 2"},
    }
    lake.table_settings = {
        "constraints": {"positive": "n > 0"},
        "cluster_by": ["id"],
        "table_properties": {"owner": "me"},
    }
    code, table = told(lake, capsys)
    assert code == 0
    assert table["changes"] == [
        "adds column x double; rows that are there have null",
        "adds column low string; rows that are there have null",
        "widens column n from int to bigint, by Spark; the table then needs Spark for every commit",
        "adds constraint positive (n > 0), by Spark, if every row of the table satisfies it",
    ]
    assert table["notes"] == [
        "column old stays, with null in new rows: no source of the pipeline has it",
        "Spark evaluates column twice: n * 2",
        "table_properties: the table has owner = None, not me: it is set only when a table is made",
        "cluster_by: the table is not clustered: that happens only when a table is made",
    ]
    assert lake.versions() == [0]


def test_validate_says_what_the_next_run_refuses(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    begin(lake)
    set_properties(lake, delta__setTransactionRetentionDuration="interval 1 day")
    lake.settings, lake.table_settings = {"schema": "id STRING, n DATE"}, {"partition_by": ["id"]}
    code, table = told(lake, capsys)
    assert code == 1
    assert [line.partition(":")[0] for line in table["refused"]][:2] == ["column n", "partition_by"]
    assert "setTransactionRetentionDuration" in table["refused"][2]


def test_validate_names_checks_and_a_renamed_source(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    begin(lake)
    set_properties(lake, {"minReaderVersion": 1, "minWriterVersion": 3}, delta__constraints__odd="n % 2 = 1")
    document = lake.document({"renamed": lake.settings})
    (lake.folder / "pipelines.yaml").write_text(json.dumps(document))
    assert main(["validate", str(lake.folder / "pipelines.yaml"), "--against-table"]) == 0
    text = capsys.readouterr().out
    assert "checks constraint odd (n % 2 = 1): by Spark" in text
    assert "source events:landing wrote to the table and is not in the configuration" in text
