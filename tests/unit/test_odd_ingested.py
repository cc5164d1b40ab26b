"""Data that is not as the schema says, from the folder to the table, the log, the receipt and the status."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli import main
from tests.unit.local_runs import rows_in, run

SCHEMA = "schema: id BIGINT NOT NULL, value DOUBLE, city STRING"
RULES = ("new_fields: rescue", "misfits: rescue", "keys: ignore_case", "fields: {city: address.city}")
LINES = (
    '{"ID": 2, "Value": 2.5, "ADDRESS": {"City": "Bern", "zip": "3000"}}',
    '{"id": 3, "value": "n/a", "address": {"city": "Basel"}}',
    '{"id": "4"}',
)


def events(found: list[dict[str, Any]], name: str) -> list[Any]:
    return [event["fields"] for event in found if event["event"] == name]


def put(folder: Path, name: str, *lines: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("\n".join(lines))


def without_source(folder: Path) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_source"} for row in rows_in(folder)]


def test_a_table_of_before_gets_the_column_for_what_is_rescued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "a.ndjson", '{"id": 1, "VALUE": 5}')
    near = {"name": "VALUE", "records": 1, "file": "a.ndjson", "record": 0, "near": "value"}
    assert events(run(tmp_path, SCHEMA), "unknown_fields") == [[near]]
    assert main(["status", "--json", str(tmp_path / "pipelines.yaml")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["unknown_fields"]["fields"] == [near]

    put(tmp_path, "b.ndjson", *LINES)
    found = run(tmp_path, SCHEMA, *RULES)
    zip_code = {"name": "address.zip", "records": 1, "file": "b.ndjson", "record": 0}
    value = {"name": "value", "records": 1, "file": "b.ndjson", "record": 1}
    assert (events(found, "unknown_fields"), events(found, "misfits")) == ([[zip_code]], [[value]])
    assert without_source(tmp_path) == [
        {"id": 1, "value": None, "city": None, "_rescued": None},
        {"id": 2, "value": 2.5, "city": "Bern", "_rescued": '{"address.zip":"3000"}'},
        {"id": 3, "value": None, "city": "Basel", "_rescued": '{"value":"n/a"}'},
    ]
    (letter,) = [json.loads(file.read_text()) for file in tmp_path.glob("table/_blizzard/*/dead_letters/*/*.ndjson")]
    assert (letter["row"], letter["raw"]) == (2, LINES[2])
    assert main(["status", "--json", str(tmp_path / "pipelines.yaml")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["misfits"]["fields"] == [value]


def test_files_of_several_formats_follow_the_same_rules(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", "id;x", "1;one", "two;2")
    put(tmp_path, "b.json", '[{"id": 3, "x": {"y": 1}}, {"id": 4, "x": "a\nb"}, {"id": 5, "n": true}]')
    put(tmp_path, "c.ndjson", '{"id": 6}', '{"id": true, "x": null}')
    mixed = "mixed: [{pattern: '*.csv', format: csv, csv: {delimiter: ';'}}, {pattern: '*.json', format: json}, {pattern: '**', format: ndjson}]"  # noqa: E501
    found = run(tmp_path, "schema: id INT", "format: mixed", mixed, "new_fields: rescue", "misfits: rescue")
    kept = [(row["id"], row["_rescued"] and json.loads(row["_rescued"])) for row in rows_in(tmp_path)]
    expected = [
        (1, {"x": "one"}),
        (None, {"id": "two", "x": "2"}),
        (3, {"x": {"y": 1}}),
        (5, {"n": True}),
        (6, None),
        (None, {"id": True}),
    ]
    assert [one for one in kept if one not in expected] == []
    assert len(kept) == len(expected)
    [fields], [misfits] = events(found, "unknown_fields"), events(found, "misfits")
    assert Counter({one["name"]: one["records"] for one in fields}) == {"x": 3, "n": 1}
    assert [(one["name"], one["records"]) for one in misfits] == [("id", 2)]


def test_a_key_with_a_dot_adds_nothing_to_a_struct(tmp_path: Path) -> None:
    put(tmp_path, "a.ndjson", '{"id": "1", "address": {"city": "Bern"}, "address.zip": 5}')
    schema = "schema: 'id STRING, address STRUCT<city: STRING>'"
    found = run(tmp_path, schema, "new_fields: add")
    assert without_source(tmp_path) == [{"id": "1", "address": {"city": "Bern"}, "_rescued": '{"`address.zip`":5}'}]
    [[[refused]]] = [events(found, "schema_not_changed")]
    assert refused["path"] == "`address.zip`"
    assert "other characters" in refused["reason"]
    put(tmp_path, "b.ndjson", '{"id": "2", "address": {"zip": 1}, "address.zip": "two"}')
    run(tmp_path, schema, "new_fields: add")
    assert without_source(tmp_path)[-1] == {
        "id": "2",
        "address": {"city": None, "zip": 1},
        "_rescued": '{"`address.zip`":"two"}',
    }


def test_spellings_of_a_new_field_fill_one_column_and_are_not_reported(tmp_path: Path) -> None:
    put(tmp_path, "a.ndjson", '{"id": 1, "Coupon": 1}', '{"id": 2, "coupon": 2.5}', '{"id": 3, "Coupon": 3}')
    rules = ("new_fields: add", "keys: ignore_case")
    found = run(tmp_path, "schema: id BIGINT", *rules)
    assert [(row["Coupon"], row["_rescued"]) for row in without_source(tmp_path)] == [(1, None), (2.5, None), (3, None)]
    assert events(found, "schema_not_changed") == []
    put(tmp_path, "b.ndjson", '{"id": 4, "ID": 5, "COUPON": 4, "coupon": 6}')
    found = run(tmp_path, "schema: id BIGINT", *rules)
    assert without_source(tmp_path)[-1] == {"id": 4, "Coupon": 4, "_rescued": '{"ID":5,"coupon":6}'}
    [unknown] = events(found, "unknown_fields")
    assert [(field["name"], field.get("near")) for field in unknown] == [("ID", None), ("coupon", None)]
    assert {field["path"] for field in events(found, "schema_not_changed")[0]} == {"ID", "coupon"}
