"""Columns that are derived from the record: by the fast reader, without Java."""

import json
from datetime import date

import pytest

from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake
from tests.unit.table_lake import lake, newest, reasons

__all__ = ["lake"]


def test_derived_columns_are_in_the_table_and_partition_it(lake: EngineLake) -> None:
    lake.settings = {
        "derive": {
            "day": "date(timestamp_seconds(n))",
            "hour": "hour(timestamp_seconds(n))",
            "key": "concat(lower(id), '-', cast(n as string))",
            "folder": "substring(_source.file, 1, 2)",
            "kind": "'raw'",
            "shown": "coalesce(note, id)",
        },
        "schema": "id STRING NOT NULL, n BIGINT, note STRING",
    }
    lake.table_settings = {"partition_by": ["day", "kind"]}
    lake.put("aa/f.ndjson", {"id": "A", "n": 1706450400}, {"id": "Ä", "n": -1, "note": "x"}, {"id": "C"})
    lake.run()
    found = [[row[name] for name in ("day", "hour", "key", "folder", "kind", "shown")] for row in lake.rows()]
    assert found == [
        [date(2024, 1, 28), 14, "a-1706450400", "aa", "raw", "A"],
        [date(1969, 12, 31), 23, "ä--1", "aa", "raw", "x"],
        [None, None, None, "aa", "raw", "C"],
    ]
    assert newest(lake, "metaData")["partitionColumns"] == ["day", "kind"]


def test_a_record_for_which_an_expression_fails_is_a_dead_letter(lake: EngineLake) -> None:
    lake.settings = {"derive": {"number": "cast(id as int)"}}
    lake.put("f.ndjson", {"id": "7"}, {"id": "seven"}, {"id": " 8 "}, {"id": "2147483648"}, {"n": 1})
    lake.run()
    assert [row["number"] for row in lake.rows()] == [7, 8]
    fails = "column number: cast(id as int) fails: a string that does not fit int"
    missing = "id: NOT NULL, but it is missing or null"
    assert reasons(lake) == {("f.ndjson", 1): fails, ("f.ndjson", 3): fails, ("f.ndjson", 4): missing}
    assert [letter["raw"] for letter in lake.letters()] == ['{"id": "seven"}', '{"id": "2147483648"}', '{"n": 1}']


def test_what_spark_does_not_evaluate_does_not_fail(lake: EngineLake) -> None:
    """The right side of AND and OR, where the left one decides, and later arguments of coalesce."""
    expressions = ["n > 1 AND cast(id AS INT) > 0", "n < 2 OR cast(id AS INT) > 0", "coalesce(n, cast(id AS INT)) > 1"]
    lake.settings = {"derive": {f"v{at}": sql for at, sql in enumerate(expressions)}}
    lake.put("f.ndjson", {"id": "x", "n": 1}, {"id": "x", "n": 2}, {"id": "x"}, {"id": "5", "n": 2}, {"id": "5"})
    lake.run()
    found = [[row[f"v{at}"] for at in range(3)] for row in lake.rows()]
    assert found == [[False, True, False], [True, True, True], [None, True, True]]
    assert [*reasons(lake)] == [("f.ndjson", 1), ("f.ndjson", 2)]


def test_a_constraint_may_name_a_derived_column(lake: EngineLake) -> None:
    lake.settings = {"derive": {"day": "date(timestamp_seconds(n))"}}
    lake.table_settings = {"constraints": {"recent": "day >= DATE '2024-01-01'"}}
    lake.put("f.ndjson", {"id": "a", "n": 1706450400}, {"id": "b", "n": 0})
    lake.run()
    assert lake.ids() == ["a"]
    assert "constraint recent" in reasons(lake)["f.ndjson", 1]


def test_files_without_any_good_record_make_no_data_file(lake: EngineLake) -> None:
    lake.settings = {"derive": {"number": "cast(id as int)"}}
    lake.put("f.ndjson", {"id": "x"})
    lake.run()
    assert lake.rows() == []
    assert [*lake.table.glob("*.parquet")] == []


def test_a_derived_column_is_added_to_a_table_that_exists(lake: EngineLake) -> None:
    lake.put("1.ndjson", {"id": "a", "n": 0})
    lake.run()
    lake.settings = {"derive": {"day": "date(timestamp_seconds(n))"}}
    lake.put("2.ndjson", {"id": "b", "n": 0})
    lake.run()
    assert [row["day"] for row in lake.rows()] == [None, date(1970, 1, 1)]


def test_an_expression_that_only_spark_evaluates_is_left_to_it_before_anything_is_read(lake: EngineLake) -> None:
    lake.settings = {"derive": {"twice": "n * 2"}}
    lake.put("1.ndjson", {"id": "a", "n": 0})
    with pytest.raises(NeedsSpark, match=r"evaluating column twice: n \* 2.*engine: auto"):
        lake.run()
    assert lake.logged("batch_read") == []
    assert [*lake.table.rglob("*.parquet")] == []


def test_a_constant_has_the_statistics_of_a_text_and_may_be_checked(lake: EngineLake) -> None:
    lake.settings = {"derive": {"origin": "'landing'", "again": "'landing'"}}
    lake.table_settings = {"constraints": {"here": "origin = 'landing'", "known": "again IN ('landing', 'x')"}}
    for file in ("1.ndjson", "2.ndjson"):
        lake.put(file, {"id": file})
        lake.run()
    assert [(row["origin"], row["again"]) for row in lake.rows()] == [("landing", "landing")] * 2
    [add] = [action["add"] for action in lake.actions(lake.versions()[-1]) if "add" in action]
    assert json.loads(add["stats"])["minValues"]["origin"] == "landing"
