"""Tables that get columns from their files: the real job with the local engine, on real Delta tables."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from blizzard.state.delta_log import commit_key
from spark_job.engines.local.transaction import AppendTransaction
from spark_job.tasks.reader import BatchReader, BatchRows
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import no_spark, run
from tests.unit.growing_lake import ADD, Killed, die


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path, no_spark, dict(ADD))
    yield made
    made.close()


def columns(lake: EngineLake) -> dict[str, Any]:
    """Name to type, but for `_source`."""
    fields = json.loads(DeltaTable(str(lake.table)).schema().to_json())["fields"]
    return {field["name"]: field["type"] for field in fields if field["name"] not in ("_source", "_rescued")}


def values(lake: EngineLake) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("_source", "_rescued")} for row in lake.rows()]


def struct(**fields: str) -> dict[str, Any]:
    nullable = {"nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [{"name": n, "type": t, **nullable} for n, t in fields.items()]}


# -- what is added


def test_a_new_field_becomes_a_column_and_a_field_of_a_struct_one_of_the_struct(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "1", "x": 5}, {"id": "2", "address": {"city": "B", "zip": "1"}}, {"id": "3"})
    lake.run()
    assert columns(lake) == {"id": "string", "address": struct(city="string", zip="string"), "x": "long"}
    assert values(lake) == [
        {"id": "1", "address": None, "x": 5},
        {"id": "2", "address": {"city": "B", "zip": "1"}, "x": None},
        {"id": "3", "address": None, "x": None},
    ]
    assert [len(lake.logged(event)) for event in ("schema_changed", "batch_committed", "batch_planned")] == [1, 2, 2]
    lake.put("b.ndjson", {"id": "4", "x": 6})
    lake.run()
    assert [row["x"] for row in lake.rows()] == [5, None, None, 6]
    assert len(lake.logged("schema_changed")) == 1


def test_a_table_that_exists_gets_the_column_with_nulls_in_its_old_rows(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    lake.put("b.ndjson", {"id": "2", "n": {"k": 1}})
    lake.run()
    assert columns(lake)["n"] == struct(k="long")
    assert [row["n"] for row in lake.rows()] == [None, {"k": 1}]


def stats(lake: EngineLake) -> dict[str, Any]:
    """Of the newest data file: the greatest values."""
    (added,) = [action["add"] for action in lake.actions(lake.versions()[-1]) if "add" in action]
    found = json.loads(added["stats"])["maxValues"]
    return {name: value for name, value in found.items() if name != "_source"}


@pytest.mark.parametrize("new_fields", ["add", "count"])
def test_new_columns_get_statistics(lake: EngineLake, new_fields: str) -> None:
    """Those that files bring, and those that a changed configuration has."""
    lake.settings = {"schema": "id STRING", "new_fields": "count"}
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    lake.settings = {"schema": "id STRING" if new_fields == "add" else "id STRING, x BIGINT, s STRUCT<y: INT>"}
    lake.settings["new_fields"] = new_fields
    lake.put("b.ndjson", {"id": "2", "x": 5, "s": {"y": 6}}, {"id": "3", "x": 7})
    lake.run()
    assert stats(lake) == {"id": "3", "x": 7}
    lake.put("c.ndjson", {"id": "4", "x": 8})
    lake.run()
    assert stats(lake) == {"id": "4", "x": 8}


def test_columns_of_a_configuration_come_in_one_commit_with_their_statistics(lake: EngineLake) -> None:
    """A run that is killed leaves none without."""
    lake.settings = {"schema": "id STRING"}
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    lake.settings = {"schema": "id STRING, x BIGINT"}
    lake.put("b.ndjson", {"id": "2", "x": 5})
    lake.run()
    changes = [at for at in lake.versions() if any("metaData" in action for action in lake.actions(at))]
    assert changes == [0, 1]
    assert stats(lake) == {"id": "2", "x": 5}


def test_a_table_whose_statistics_somebody_else_has_chosen_keeps_them(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    chosen = {"delta.dataSkippingStatsColumns": "id,_source.file"}
    DeltaTable(str(lake.table)).alter.set_table_properties(chosen)
    lake.put("b.ndjson", {"id": "2", "x": 5})
    lake.run()
    assert stats(lake) == {"id": "2"}
    assert chosen.items() <= DeltaTable(str(lake.table)).metadata().configuration.items()


def test_what_is_no_column_is_rescued(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "1", "x": 5, "d e": [6]})
    lake.run()
    (row,) = lake.rows()
    assert (row["x"], json.loads(row["_rescued"])) == (5, {"d e": [6]})


def test_the_local_engine_widens_nothing_and_says_why(lake: EngineLake) -> None:
    lake.settings |= {"schema": "id STRING, n INT", "misfits": "widen"}
    lake.put("a.ndjson", {"id": "1", "n": 5_000_000_000, "x": 1})
    lake.run()
    (row,) = lake.rows()
    assert (row["n"], row["x"], json.loads(row["_rescued"])) == (None, 1, {"n": 5_000_000_000})
    (refused,) = lake.logged("schema_not_changed")
    assert [field["path"] for field in refused["fields"]] == ["n"]
    assert "deltalake" in refused["fields"][0]["reason"]


@pytest.mark.parametrize("by", ["derive", "constraint"])
def test_a_column_that_an_expression_names_is_not_widened_and_the_log_says_which(lake: EngineLake, by: str) -> None:
    lake.settings |= {"schema": "id STRING, n INT", "misfits": "widen"}
    if by == "derive":
        lake.settings["derive"] = {"c": "coalesce(n, 0)"}
    else:
        lake.table_settings = {"constraints": {"positive": "n > 0 OR n IS NULL"}}
    lake.put("a.ndjson", {"id": "1", "n": 5_000_000_000})
    lake.run()
    (row,) = lake.rows()
    assert (row["n"], json.loads(row["_rescued"]), lake.letters()) == (None, {"n": 5_000_000_000}, [])
    (refused,) = lake.logged("schema_not_changed")
    label = {
        "derive": "derived column c (coalesce(n, 0))",
        "constraint": "constraint positive (n > 0 OR n IS NULL)",
    }[by]
    assert [field["reason"] for field in refused["fields"]] == [f"{label} names it, and depends on its type"]


def test_fields_past_the_limit_and_with_odd_names_are_no_columns(lake: EngineLake) -> None:
    lake.settings["max_new_columns"] = 2
    lake.put("a.ndjson", {"id": "1", "a": 1, "b": 2, "c": 3, "d e": 4, "ID": 5, "_source": 6})
    lake.run()
    assert [*columns(lake)] == ["id", "address", "a", "b"]
    (refused,) = lake.logged("schema_not_changed")
    assert {field["path"] for field in refused["fields"]} == {"c", "d e", "ID", "_source"}
    (unknown,) = lake.logged("unknown_fields")
    assert {field["name"] for field in unknown["fields"]} == {"c", "d e", "ID", "_source"}
    lake.put("b.ndjson", {"id": "2", "c": 3})
    lake.run()
    assert [row["id"] for row in lake.rows()] == ["1", "2"]
    assert [*columns(lake)] == ["id", "address", "a", "b"]


def test_a_field_that_is_named_like_a_folder_is_no_second_column(lake: EngineLake) -> None:
    lake.settings["partition_columns"] = {"day": "int"}
    lake.table_settings["partition_by"] = ["day"]
    lake.put("day=7/a.ndjson", {"id": "1", "day": 8, "x": 1})
    lake.run()
    assert [(row["day"], row["x"]) for row in lake.rows()] == [(7, 1)]


def test_the_default_adds_nothing(lake: EngineLake) -> None:
    lake.settings["new_fields"] = "count"
    lake.put("a.ndjson", {"id": "1", "x": 5})
    lake.run()
    assert [*columns(lake)] == ["id", "address"]
    assert lake.versions() == [0]


def test_a_column_that_somebody_else_has_added_is_filled(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    DeltaTable(str(lake.table)).alter.add_columns([Field("x", PrimitiveType("string"))])
    lake.put("b.ndjson", {"id": "2", "x": "y"})
    lake.run()
    assert [row["x"] for row in lake.rows()] == [None, "y"]
    assert lake.logged("schema_changed") == []


def test_a_new_file_of_a_batch_in_slices_has_its_new_fields_in_columns(lake: EngineLake) -> None:
    lake.settings["checkpoint"] = {"interval_bytes": 2_000}
    lake.put("a.ndjson", *({"id": f"{n}", "pad": "x" * 90, f"late{n // 40}": n} for n in range(80)))
    lake.run()
    assert sorted(columns(lake)) == ["address", "id", "late0", "late1", "pad"]
    assert [row["late0"] or row["late1"] or 0 for row in lake.rows()] == [*range(80)]
    assert [row["id"] for row in lake.rows()] == [f"{n}" for n in range(80)]


# -- who dies, and who races


@pytest.mark.parametrize("event", ["batch_planned", "batch_read", "schema_changed", "batch_committed"])
def test_who_dies_around_the_change_of_a_schema_loses_nothing(lake: EngineLake, event: str) -> None:
    lake.put("a.ndjson", {"id": "1", "x": 5})
    lake.meanwhile[event] = die
    with pytest.raises(Killed):
        lake.run()
    lake.put("b.ndjson", {"id": "2", "x": 6, "y": 7})
    lake.run()
    assert [(row["id"], row["x"], row["y"]) for row in lake.rows()] == [("1", 5, None), ("2", 6, 7)]
    assert [*columns(lake)] == ["id", "address", "x", "y"]


def two_sources(lake: EngineLake, first: Mapping[str, Any], second: Mapping[str, Any], event: str) -> None:
    """The first one reads its batch; then the second one does all of its work."""
    jobs = lake.jobs({"landing": ADD, "partner": ADD})
    lake.put("a.ndjson", {"id": "1", **first})
    lake.put("b.ndjson", {"id": "2", **second}, source="partner")
    lake.meanwhile[event] = lambda: run(jobs[1])
    run(jobs[0])
    run(jobs[0])


@pytest.mark.parametrize("event", ["batch_planned", "batch_read"])
@pytest.mark.parametrize("table_exists", [False, True])
def test_two_drivers_that_add_the_same_column_at_once_end_with_one(
    lake: EngineLake, event: str, table_exists: bool
) -> None:
    if table_exists:
        lake.put("0.ndjson", {"id": "0"})
        lake.run()
    two_sources(lake, {"x": 1}, {"x": 2, "z": 3}, event)
    assert [(row["id"], row["x"], row["z"]) for row in lake.rows() if row["id"] != "0"] == [("1", 1, None), ("2", 2, 3)]
    assert [*columns(lake)] == ["id", "address", "x", "z"]
    schemas = [action for version in lake.versions() for action in lake.actions(version) if "metaData" in action]
    assert len(schemas) == 1 + table_exists


@pytest.mark.parametrize("event", ["batch_planned", "batch_read"])
def test_two_drivers_with_a_column_each_end_with_both(lake: EngineLake, event: str) -> None:
    two_sources(lake, {"x": 1}, {"y": 2}, event)
    assert [(row["x"], row["y"]) for row in lake.rows()] == [(1, None), (None, 2)]
    assert sorted(columns(lake)) == ["address", "id", "x", "y"]


def test_a_column_that_another_job_adds_while_a_batch_is_read_gets_the_values_of_that_batch(
    lake: EngineLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.put("0.ndjson", {"id": "0"})
    lake.run()
    jobs = lake.jobs({"landing": ADD, "partner": ADD})
    lake.put("a.ndjson", {"id": "1", "x": 1})
    lake.put("b.ndjson", {"id": "2", "x": 2}, source="partner")
    read, others = BatchReader.read, [jobs[1]]

    def slow_read(self: BatchReader, *files: Any, **named: Any) -> BatchRows:
        rows = read(self, *files, **named)
        while others:
            run(others.pop())
        return rows

    monkeypatch.setattr(BatchReader, "read", slow_read)
    run(jobs[0])
    assert [(row["id"], row["x"], row["_rescued"]) for row in lake.rows()][1:] == [("1", 1, None), ("2", 2, None)]
    assert len(lake.logged("schema_changed")) == 1


@pytest.mark.parametrize("other", ["x", "y"])
def test_a_commit_of_somebody_else_right_before_that_of_the_change_is_not_undone_by_it(
    lake: EngineLake, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    lake.put("0.ndjson", {"id": "0"})
    lake.run()
    jobs = lake.jobs({"landing": ADD, "partner": ADD})
    lake.put("a.ndjson", {"id": "1", "x": 1})
    lake.put("b.ndjson", {"id": "2", other: 2}, source="partner")
    commit, others = AppendTransaction.commit, [jobs[1]]

    def overtaken(self: AppendTransaction, *files: Any, **named: Any) -> int:
        while others:
            run(others.pop())
        return commit(self, *files, **named)

    monkeypatch.setattr(AppendTransaction, "commit", overtaken)
    run(jobs[0])
    assert sorted(columns(lake)) == sorted({"id", "address", "x", other})
    assert [(row["id"], row["x"], row[other]) for row in lake.rows()][1:] == [
        ("1", 1, 1 if other == "x" else None),
        ("2", 2 if other == "x" else None, 2),
    ]
    assert len(lake.logged("race_lost")) == 1


def test_a_job_that_has_lost_the_race_for_its_source_changes_nothing(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    other = lake.job()
    lake.put("b.ndjson", {"id": "2", "x": 1})

    def win() -> None:
        lake.put("b.ndjson", {"id": "2"})
        run(other)

    lake.meanwhile["batch_read"] = win
    lake.run()
    assert len(lake.logged("race_lost")) == 1
    assert [*columns(lake)] == ["id", "address"]
    assert lake.ids() == ["1", "2"]


def test_rows_whose_column_has_gone_meanwhile_are_read_again(lake: EngineLake) -> None:
    """As when somebody restores the table to the version before the column."""
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    lake.put("b.ndjson", {"id": "2", "x": 1})

    def restore() -> None:
        first = next(action for action in lake.actions(0) if "metaData" in action)
        lines = [{"commitInfo": {"operation": "RESTORE", "timestamp": 0}}, first]
        (lake.table / commit_key(lake.versions()[-1] + 1)).write_text("\n".join(map(json.dumps, lines)))

    lake.meanwhile["schema_changed"] = restore
    lake.run()
    assert [row["x"] for row in lake.rows()] == [None, 1]
    assert len(lake.logged("schema_changed")) == 2


def test_a_source_that_changes_nothing_goes_on_where_another_one_of_the_table_adds_fields(lake: EngineLake) -> None:
    jobs = lake.jobs({"landing": ADD, "partner": {"schema": ADD["schema"]}})
    lake.put("b.ndjson", {"id": "2", "address": {"city": "C"}}, source="partner")
    run(jobs[1])
    lake.put("a.ndjson", {"id": "1", "address": {"city": "B", "zip": "1"}, "x": 1})
    run(jobs[0])
    lake.put("c.ndjson", {"id": "3", "address": {"city": "D"}, "x": 2}, source="partner")
    run(jobs[1])
    assert [(row["id"], row["address"], row["x"]) for row in lake.rows()] == [
        ("1", {"city": "B", "zip": "1"}, 1),
        ("2", {"city": "C", "zip": None}, None),
        ("3", {"city": "D", "zip": None}, None),
    ]
    (unknown,) = lake.logged("unknown_fields")
    assert [(field["name"], field["file"]) for field in unknown["fields"]] == [("x", "c.ndjson")]


def test_data_files_of_a_type_that_a_column_has_no_more_are_not_committed(lake: EngineLake) -> None:
    jobs = lake.jobs({"landing": {"schema": ADD["schema"]}, "partner": ADD})
    lake.put("0.ndjson", {"id": "0"})
    run(jobs[0])
    lake.put("a.ndjson", {"id": "1", "address": {"city": "B"}})
    lake.put("b.ndjson", {"id": "2", "address": {"zip": "2"}}, source="partner")
    lake.meanwhile["batch_read"] = lambda: run(jobs[1])
    run(jobs[0])
    assert [row["address"] for row in lake.rows()] == [None, {"city": "B", "zip": None}, {"city": None, "zip": "2"}]
    (retried,) = lake.logged("retrying")
    assert "no longer accepts the files" in retried["error"]


def test_data_files_of_a_batch_that_is_read_again_do_not_stay(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "1", "x": 5})
    lake.run()
    assert len([*lake.table.glob("*.parquet")]) == 1


def test_fields_with_odd_names_do_not_keep_a_rare_one_from_being_added(lake: EngineLake) -> None:
    odd = {f"odd name {n}": n for n in range(150)}
    lake.put("a.ndjson", {"id": "1", **odd}, {"id": "2", **odd}, {"id": "3", "x": 1})
    lake.run()
    assert [row["x"] for row in lake.rows()] == [None, None, 1]
    (unknown,) = lake.logged("unknown_fields")
    assert (len(unknown["fields"]), unknown["more"]) == (100, 50)
