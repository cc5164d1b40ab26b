"""`blizzard schema-history`: what changed in the schema of a table, and which files have brought it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType

from blizzard.cli import main
from blizzard.state.delta_log import commit_key
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_changes import ChangeRecords, FieldChange, SchemaChange
from blizzard.state.schema_history import table_history
from spark_job.loop.evolution import Evolution
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import no_spark, run
from tests.unit.growing_lake import ADD, Killed, die
from tests.unit.strategies import memory_store
from tests.unit.table_lake import change_metadata


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path, no_spark, dict(ADD))
    yield made
    made.close()


def history(lake: EngineLake, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["schema-history", str(lake.write_config()), "--json", *options]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    changes: list[dict[str, Any]] = found["changes"]
    return changes


def texts(entry: Mapping[str, Any]) -> list[str]:
    return [f"{field['path']}: {field['was']} -> {field['type']}" for field in entry["fields"]]


def test_the_history_names_versions_files_and_records(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    lake.put("b.ndjson", {"id": "2"}, {"id": "3", "x": 1}, {"id": "4", "address": {"zip": "1"}})
    lake.run()
    DeltaTable(str(lake.table)).alter.add_columns([Field("note", PrimitiveType("string"))])
    lake.settings["schema"] = "id STRING, address STRUCT<city: STRING>, more BIGINT"
    lake.put("c.ndjson", {"id": "5"})
    lake.run()
    made, brought, by_hand, configured = history(lake, capsys)
    assert texts(made)[0] == "id: None -> string"
    assert (made["version"], made["source"]) == (0, "events:landing")
    assert {field["origin"] for field in made["fields"]} == {"configuration"}
    assert texts(brought) == ["address.zip: None -> string", "x: None -> bigint"]
    assert (brought["version"], brought["source"], brought["operation"]) == (1, "events:landing", "ADD COLUMNS")
    assert [(f["file"], f["record"], f["records"]) for f in brought["fields"]] == [
        ("b.ndjson", 2, 1),
        ("b.ndjson", 1, 1),
    ]
    assert (texts(by_hand), by_hand["source"]) == (["note: None -> string"], None)
    assert {field["origin"] for field in brought["fields"]} == {"files"}
    assert by_hand["fields"][0]["origin"] is None
    assert (texts(configured), configured["source"]) == (["more: None -> bigint"], "events:landing")
    assert (configured["fields"][0]["origin"], configured["fields"][0]["file"]) == ("configuration", None)
    own = history(lake, capsys, "--source", "landing")
    assert [entry["version"] for entry in own] == [made["version"], brought["version"], configured["version"]]


def test_the_history_outlives_the_log(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    for name, field in (("a", "x"), ("b", "y")):
        lake.put(f"{name}.ndjson", {"id": "1", field: 1})
        lake.run()
    DeltaTable(str(lake.table)).create_checkpoint()
    for version in lake.versions()[:-1]:
        (lake.table / commit_key(version)).unlink()
    changes = history(lake, capsys)
    assert [(entry["version"], texts(entry), entry["fields"][0]["file"]) for entry in changes] == [
        (0, ["x: None -> bigint"], "a.ndjson"),
        (2, ["y: None -> bigint"], "b.ndjson"),
    ]


def test_what_a_lost_attempt_has_noted_is_not_in_the_history(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("a.ndjson", {"id": "1", "x": 5})
    lake.meanwhile["batch_read"] = die
    with pytest.raises(Killed):
        lake.run()
    assert [*lake.table.glob("_blizzard/*/schema_changes/*.json")]
    assert history(lake, capsys) == []
    lake.run()
    assert len(history(lake, capsys)) == 1


def test_a_change_whose_job_died_right_after_it_is_in_the_history_at_once(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    lake.put("b.ndjson", {"id": "1", "x": 5})
    with monkeypatch.context() as patch:
        patch.setattr(Evolution, "publish", lambda _, checkpoint: checkpoint.schema_change and die())
        with pytest.raises(Killed):
            lake.run()
    entry = history(lake, capsys)[-1]
    assert (entry["version"], texts(entry), entry["fields"][0]["file"]) == (1, ["x: None -> bigint"], "b.ndjson")
    for version in lake.versions():
        (lake.table / commit_key(version)).unlink()
    (entry,) = history(lake, capsys)
    assert (entry["version"], texts(entry)) == (None, ["x: None -> bigint"])


def test_the_history_is_a_table_for_people(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.put("a[bold].ndjson", {"id": "1", "x": 5})
    lake.run()
    capsys.readouterr()
    assert main(["schema-history", str(lake.write_config())]) == 0
    shown = capsys.readouterr().out
    assert "+ x bigint" in shown
    assert "a[bold].ndjson" in shown.replace("\n", "")
    assert main(["schema-history", str(lake.write_config()), "--pipeline", "other"]) == 2
    assert main(["schema-history", str(lake.write_config()), "--source", "other"]) == 2
    assert "expected one of landing" in capsys.readouterr().err


def test_without_a_change_it_says_whether_there_is_a_table(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(lake.write_config())
    assert main(["schema-history", config]) == 0
    assert "there is no table yet; the first run that finds a file or message makes it" in capsys.readouterr().out
    write_deltalake(str(lake.log_folder.parent), pa.table({"id": ["1"]}))
    assert main(["schema-history", config, "--source", "landing"]) == 0
    assert "of this source no change of the schema is known" in capsys.readouterr().out
    assert main(["schema-history", config]) == 0
    assert "+ id string" in capsys.readouterr().out


def origins(entry: Mapping[str, Any]) -> dict[str, tuple[str | None, str | None, int | None]]:
    return {field["path"]: (field["origin"], field["file"], field["records"]) for field in entry["fields"]}


def test_an_inferred_schema_names_the_first_file_and_outlives_the_log(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.settings |= {"schema": "infer", "derive": {"word": "lower(id)"}}
    lake.put("a.ndjson", {"id": "1", "n": {"x": 1}})
    lake.put("b.ndjson", {"id": "2", "a.b": True})
    lake.run()
    lake.put("c.ndjson", {"id": "3", "more": 5})
    lake.run()
    made, brought = history(lake, capsys)
    shown = ("inferred", "a.ndjson", 2)
    expected = {"id": shown, "n": shown, "`a.b`": shown}
    own = dict.fromkeys(("word", "_rescued", "_source"), ("configuration", None, None))
    assert (origins(made), made["source"]) == (expected | own, "events:landing")
    assert origins(brought) == {"more": ("files", "c.ndjson", 1)}
    assert [len(event["fields"]) for event in lake.logged("schema_changed")] == [1]
    assert main(["schema-history", str(lake.write_config())]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "+ id string events:landing: inferred from 2 records, first of a.ndjson" in text
    assert "+ word string events:landing: its configuration" in text
    for version in lake.versions():
        (lake.table / commit_key(version)).unlink()
    assert [origins(entry) for entry in history(lake, capsys)] == [expected, {"more": ("files", "c.ndjson", 1)}]


def test_a_source_that_was_taken_out_has_brought_what_it_brought(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("a.ndjson", {"id": "1"}, {"id": "2", "x": 5}, source="old")
    lake.put("b.ndjson", {"id": "1", "y": 5})
    for sources in ({"old": lake.settings}, {"landing": lake.settings}):
        for job in lake.jobs(sources):
            run(job)
    DeltaTable(str(lake.table)).create_checkpoint()
    for is_forgotten in (False, True):
        if is_forgotten:
            for version in lake.versions():
                (lake.table / commit_key(version)).unlink()
        brought = [(one, field) for one in history(lake, capsys) for field in one["fields"] if field["file"]]
        assert [(one["source"], field["path"], field["file"], field["record"]) for one, field in brought] == [
            ("events:old", "x", "a.ndjson", 1),
            ("events:landing", "y", "b.ndjson", 0),
        ]
    assert [one["source"] for one in history(lake, capsys, "--source", "landing")] == ["events:landing"]


def test_a_column_that_somebody_renames_is_one_change(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.put("a.ndjson", {"id": "1"})
    lake.run()
    change_metadata(lake, address={"metadata": {"delta.columnMapping.id": 7}})
    change_metadata(lake, address={"metadata": {"delta.columnMapping.id": 7}, "name": "place"})
    [[field]] = [entry["fields"] for entry in history(lake, capsys) if entry["version"] == lake.versions()[-1]]
    assert (field["path"], field["renamed_from"], field["was"]) == ("place", "address", field["type"])
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["schema-history", str(lake.write_config())]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "address -> place struct<city:string> another writer: other" in shown


def test_a_widened_array_or_map_is_one_change_that_its_file_has_brought() -> None:
    """The log has the types of elements and values, a record those of the whole columns."""
    store, source = memory_store(), SourceIdentity("events", "landing", "_blizzard/events.landing")
    for version, kind in enumerate(("integer", "long")):
        array = {"type": "array", "elementType": kind, "containsNull": True}
        values = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": True}
        columns = {"items": array, "tags": values, "n": kind}
        fields = [{"name": name, "type": found, "nullable": True, "metadata": {}} for name, found in columns.items()]
        schema = json.dumps({"type": "struct", "fields": fields})
        txn = {"appId": source.app_id, "version": version, "lastUpdated": 0}
        actions = [{"commitInfo": {"timestamp": version}}, {"metaData": {"schemaString": schema}}, {"txn": txn}]
        store.put(commit_key(version), "\n".join(map(json.dumps, actions)).encode())
    widened = [
        FieldChange("items", "array<bigint>", "array<int>", 2, "b.ndjson", 3),
        FieldChange("tags", "map<string,array<bigint>>", "map<string,array<int>>", 1, "c.ndjson", 0),
    ]
    records = ChangeRecords(store, source.state_prefix, source.source_id)
    change = SchemaChange(tuple(widened))
    name = records.put(change, sequence=1, attempt="a", after_version=0, previous=None, now_ts=1.0).name
    records.confirm(name, lambda _: 1)
    entry = table_history(store, [source])[-1]
    assert entry.fields is not None
    assert [(str(field), field.file, field.origin) for field in entry.fields] == [
        ("items[]: int -> bigint", "b.ndjson", "files"),
        ("tags{}[]: int -> bigint", "c.ndjson", "files"),
        ("n: int -> bigint", None, "configuration"),
    ]
