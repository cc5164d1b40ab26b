"""`schema: infer` with the rest of a configuration: what names columns is checked when they are known, in the words
that a written schema gets."""

import json
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from blizzard.errors import ConfigError
from spark_job.engines.needs_spark import NeedsSpark
from tests.contract.inferring_lake import Lake, drain, lake

__all__ = ["lake"]

DERIVE = 'derive: {day: "date(timestamp_seconds(at))", low: lower(name)}'


def found(lake: Lake, *columns: str) -> list[list[Any]]:
    rows = DeltaTable(lake.table).to_pyarrow_table().to_pylist()
    rows.sort(key=lambda row: (row["_source"]["file"], row["_source"]["row"]))
    return [[str(row[name]) if name == "day" else row[name] for name in columns] for row in rows]


def reasons(lake: Lake) -> list[str]:
    return [json.loads(line)["error"] for file in sorted(lake.letters()) for line in file.read_text().splitlines()]


def test_derived_columns_are_made_from_inferred_ones_and_partition_the_table(lake: Lake) -> None:
    for name, at in (("a", 0), ("b", 86400)):
        lake.land(f"{name}.ndjson", {"at": at, "name": name.upper()})
        lake.run(f"schema: infer, {DERIVE}", "partition_by: [day]")
    assert found(lake, "name", "low", "day") == [["A", "a", "1970-01-01"], ["B", "b", "1970-01-02"]]
    assert DeltaTable(lake.table).metadata().partition_columns == ["day"]
    assert len(lake.named("schema_inferred")) == 1


def test_a_process_that_goes_on_derives_from_what_it_inferred(lake: Lake) -> None:
    job = lake.job(f"schema: infer, {DERIVE}")
    for at, name in enumerate("ab"):
        lake.land(f"{name}.ndjson", {"at": at, "name": name})
        drain(job)
    assert found(lake, "low") == [["a"], ["b"]]
    assert not lake.named("race_lost") + lake.named("retrying")


@pytest.mark.parametrize(
    ("derive", "what"),
    [
        ("date(time)", r"derive\.day: has the name time, which is no column of the row; expected one of at, name"),
        ("null", r"derive\.day: has no type"),
    ],
)
def test_an_expression_that_does_not_fit_is_said_before_a_table_is_made(lake: Lake, derive: str, what: str) -> None:
    lake.land("a.ndjson", {"at": 0, "name": "x"})
    with pytest.raises(ConfigError, match=what) as failed:
        lake.run(f'schema: infer, derive: {{day: "{derive}"}}')
    assert "`schema: infer`" in str(failed.value)
    assert "Nothing was committed" in str(failed.value)
    assert not lake.table.joinpath("_delta_log").exists()
    lake.run(f"schema: infer, {DERIVE}")
    assert found(lake, "day") == [["1970-01-01"]]


def test_a_derived_column_that_the_records_have_is_refused(lake: Lake) -> None:
    lake.land("a.ndjson", {"at": 0, "name": "x", "day": "monday"})
    with pytest.raises(ConfigError, match=r"derive\.day: is a column of the record or its path already"):
        lake.run(f"schema: infer, {DERIVE}")


def test_an_expression_is_checked_against_the_columns_of_a_table_that_exists(lake: Lake) -> None:
    lake.land("a.ndjson", {"at": 0})
    lake.run()
    lake.land("b.ndjson", {"at": 1, "name": "x"})
    with pytest.raises(ConfigError, match=r"derive\.low: has the name name, .*expected one of at"):
        lake.run("schema: infer, derive: {low: lower(name)}")
    assert lake.rows("at") == [0]
    lake.run('schema: infer, derive: {day: "date(timestamp_seconds(at))"}')
    assert found(lake, "at", "day") == [[0, "None"], [1, "1970-01-01"]]
    lake.land("c.ndjson", {"at": 2, "day": "of the record"})
    lake.run('schema: infer, derive: {day: "date(timestamp_seconds(at))"}')
    assert found(lake, "at", "day")[2] == [2, "1970-01-01"]
    assert [field["name"] for field in lake.named("unknown_fields")[-1]["fields"]] == ["day"]


def test_what_only_spark_derives_is_left_to_it(lake: Lake) -> None:
    lake.land("a.ndjson", {"at": 1})
    with pytest.raises(NeedsSpark, match=r"evaluating column twice: at \* 2"):
        lake.run("schema: infer, derive: {twice: at * 2}")
    assert not lake.table.joinpath("_delta_log").exists()


def test_constraints_hold_from_the_first_batch_on(lake: Lake) -> None:
    pipeline = "constraints: {recent: at >= 1, named: length(low) > 0}"
    lake.land("a.ndjson", {"at": 0, "name": "x"}, {"at": 1, "name": "Y"})
    lake.run(f"schema: infer, {DERIVE}", pipeline)
    lake.land("b.ndjson", {"at": 2, "name": ""}, {"at": 3, "name": "Z"})
    lake.run(f"schema: infer, {DERIVE}", pipeline)
    assert found(lake, "at", "low") == [[1, "y"], [3, "z"]]
    assert [reason.partition(":")[0] for reason in reasons(lake)] == [
        "constraint recent (at >= 1)",
        "constraint named (length(low) > 0)",
    ]


@pytest.mark.parametrize(
    ("sql", "what"),
    [("att >= 1", "constraints.recent: has the name att, which is no column"), ("name", "expected a condition")],
)
def test_a_constraint_that_does_not_fit_is_said_before_a_table_is_made(lake: Lake, sql: str, what: str) -> None:
    lake.land("a.ndjson", {"at": 0, "name": "x"})
    with pytest.raises(ConfigError, match=what):
        lake.run(pipeline=f"constraints: {{recent: {sql}}}")
    assert not lake.table.joinpath("_delta_log").exists()


@pytest.mark.parametrize("column", ["city", "place"])
def test_columns_by_which_a_table_cannot_be_clustered_are_refused(lake: Lake, column: str) -> None:
    lake.land("a.ndjson", {"id": 1, "place": {"x": 1}})
    with pytest.raises(ConfigError, match=rf"cluster_by\[0\]: found '{column}'"):
        lake.run(pipeline=f"cluster_by: [{column}]")


def test_a_type_that_another_source_writes_otherwise_is_refused_before_a_table_is_made(lake: Lake) -> None:
    lake.land("a.ndjson", {"id": 1, "n": 1})
    other = f", o: {{uri: {lake.landing.parent}/other, schema: 'n INT'}}"
    with pytest.raises(ConfigError, match="column `n` is int here and bigint in source p_s:s of the same table"):
        drain(lake.job(others=other))
    assert not lake.table.joinpath("_delta_log").exists()
    lake.run("schema: 'id BIGINT, n INT'")
    lake.land("b.ndjson", {"id": 2, "n": 2})
    drain(lake.job(others=other))
    assert lake.rows("n") == [1, 2]


# -- fields


def test_a_column_is_inferred_from_the_key_that_fields_names(lake: Lake) -> None:
    record = {"User Id": 7, "address": {"city": "Bern", "zip": "3000"}, "id": "own"}
    lake.land("a.ndjson", record)
    lake.run("schema: infer, fields: {id: User Id, city: address.city}")
    assert list(lake.columns()) == ["id", "address", "city"]
    assert found(lake, "id", "city", "address") == [[7, "Bern", {"zip": "3000"}]]
    (said,) = lake.named("schema_inferred")
    assert said["left_out"] == ["column `id` is read from another key"]
    assert [field["name"] for field in lake.named("unknown_fields")[-1]["fields"]] == ["id"]
    lake.land("b.ndjson", {"User Id": 8, "address": {"city": "Ulm"}})
    lake.run("schema: infer, fields: {id: User Id, city: address.city}")
    assert found(lake, "id", "city") == [[7, "Bern"], [8, "Ulm"]]


def test_fields_that_no_record_has_are_refused(lake: Lake) -> None:
    lake.land("a.ndjson", {"id": 1, "address": {"zip": "3000"}})
    with pytest.raises(ConfigError, match=r"has city: address.town, which none of the records has.*found id, address"):
        lake.run("schema: infer, fields: {city: address.town}")
    lake.run()
    lake.land("b.ndjson", {"id": 2})
    with pytest.raises(ConfigError, match=r"fields\.city: found 'city', which `schema` does not have"):
        lake.run("schema: infer, fields: {city: address.town}")


def test_keys_that_differ_in_case_only_are_one_column_if_they_fill_it(lake: Lake) -> None:
    lake.land("a.ndjson", {"ID": 1, "n": {"Price": 1}}, {"id": 2, "n": {"price": 1.5}})
    lake.run("schema: infer, keys: ignore_case")
    assert lake.columns()["ID"] == 'PrimitiveType("long")'
    assert found(lake, "ID", "n") == [[1, {"Price": 1.0}], [2, {"Price": 1.5}]]
    assert lake.named("schema_inferred")[0]["left_out"] == []


def test_fields_of_csv_are_renamed(lake: Lake) -> None:
    lake.land_bytes("a.csv", b"User Id,zip\n7,10115\n")
    lake.run("format: csv, schema: infer, fields: {id: User Id, code: zip}")
    assert found(lake, "id", "code") == [[7, "10115"]]


# -- before there is a column


@pytest.mark.parametrize("pipeline", ["partition_by: [day]", "constraints: {recent: at >= 0}"])
def test_no_table_is_made_before_its_columns_are_known(lake: Lake, pipeline: str) -> None:
    """Empty sweeps alone are committed for a table of which nothing else is to be known."""
    job = lake.job(f"schema: infer, {DERIVE}", pipeline)
    for _ in range(12):
        job.sweep(late=True, record_if_empty=True)
    job.ingest.drain()
    assert not lake.table.joinpath("_delta_log").exists()
    lake.land("a.ndjson", {"at": 0, "name": "x"})
    drain(job)
    assert found(lake, "low", "day") == [["x", "1970-01-01"]]


# -- validate


def test_validate_says_what_is_open(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    derive = "{day: date(at), kind: \"concat('a', 'b')\"}"
    source = f"{{uri: {lake.landing}, schema: infer, derive: {derive}}}"
    pipeline = f"{{table_uri: {lake.table}, constraints: {{c: day = 1}}, sources: {{s: {source}}}}}"
    file = lake.landing.parent / "pipelines.yaml"
    file.write_text(f"pipelines: {{p: {pipeline}}}\n")
    assert main(["validate", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "p:s: column day: date(at): checked when `schema: infer` has found the columns",
        "p:s: column kind: concat('a', 'b'): by the fast reader",
        "p: constraint c: day = 1: checked when `schema: infer` has found the columns",
    ]
    assert main(["validate", str(file), "--against-table"]) == 0
    said = capsys.readouterr().out
    assert "(its columns are those that the first batch shows, and `derive` and `constraints` are checked then)" in said
    assert "Spark" not in said
