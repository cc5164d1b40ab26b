"""Constraints, generated and derived columns: Spark evaluates what the fast reader does not, and what a table that SQL
made requires is satisfied by every row."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import PermanentError
from tests.spark.engine_lake import EngineLake

pytestmark = pytest.mark.spark


# -- what only Spark evaluates


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path, spark)
    yield made
    made.close()


def _errors(lake: EngineLake) -> dict[tuple[str, int], str]:
    return {(letter["path"], letter["row"]): letter["error"] for letter in lake.letters()}


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_spark_evaluates_what_the_reader_does_not(lake: EngineLake, engine: str) -> None:
    lake.chosen = engine
    derive = {"twice": "n * 2", "ratio": "100 / n", "part": "n % 3", "low": "lower(id)", "far": "_source.row + 1"}
    lake.settings = {"derive": derive}
    lake.table_settings = {
        "partition_by": ["part"],
        "constraints": {
            "small": "twice < 2 * 100",
            "named": "id <> 'none'",
            "sane": "cast(id as int) + 1 > 0 OR n > 3",
        },
    }
    records = [
        {"id": "1", "n": 1},
        {"id": "x", "n": 5},
        {"id": "y", "n": 2},
        {"id": "none", "n": 7},
        {"id": "8", "n": 0},
    ]
    lake.put("f.ndjson", *records, {"id": "11", "n": 500}, {"id": "9", "n": 1 << 62}, {"id": "2", "n": 2})
    assert lake.run().dead_records == 6
    assert [[row[name] for name in ("id", "twice", "ratio", "part", "low", "far")] for row in lake.rows()] == [
        ["1", 2, 100.0, 1, "1", 1],
        ["2", 4, 50.0, 2, "2", 8],
    ]
    assert _errors(lake) == {
        ("f.ndjson", 1): "constraint sane (cast(id as int) + 1 > 0 OR n > 3) fails on the record",
        ("f.ndjson", 2): "constraint sane (cast(id as int) + 1 > 0 OR n > 3) fails on the record",
        ("f.ndjson", 3): "constraint named (id <> 'none'): it is not true for the record",
        ("f.ndjson", 4): "column ratio: 100 / n fails on the record",
        ("f.ndjson", 5): "constraint small (twice < 2 * 100): it is not true for the record",
        ("f.ndjson", 6): "column twice: n * 2 fails on the record",
    }
    assert lake.logged("rows_written_twice") == []
    assert [*lake.table.glob("_blizzard/*/staging/**/*.parquet")] == []
    lake.put("g.ndjson", {"id": "3", "n": 3})
    lake.run()
    assert len(lake.rows()) == 3


def test_lines_that_spark_parses_satisfy_the_rules_too(lake: EngineLake) -> None:
    lake.chosen = "auto"
    lake.settings = {"schema": "id STRING, n BIGINT, t TIMESTAMP", "derive": {"day": "date(t)", "twice": "n * 2"}}
    lake.table_settings = {"constraints": {"positive": "n > 0"}}
    odd = "2024-1-28 1:2:3"
    lines = [f'{{"id": "{name}", "n": {n}, "t": "{odd}"}}' for name, n in (("a", 1), ("b", -1))]
    lake.put("f.ndjson", {"id": "c", "n": 2, "t": "2024-01-28T00:00:00Z"}, *lines)
    lake.run()
    assert [(row["id"], row["day"], row["twice"]) for row in lake.rows()] == [
        ("c", date(2024, 1, 28), 4),
        ("a", date(2024, 1, 28), 2),
    ]
    assert [letter["raw"] for letter in lake.letters()] == [lines[1]]


@pytest.mark.parametrize("sql", ["count(id)", "explode(array(n, 1))", "nowhere(id)"])
def test_what_is_no_expression_over_a_row_is_refused_before_anything_is_read(lake: EngineLake, sql: str) -> None:
    lake.chosen, lake.settings = "spark", {"derive": {"v": sql}}
    lake.put("f.ndjson", {"id": "a", "n": 1})
    with pytest.raises(PermanentError):
        lake.run()
    assert lake.versions() == []


def test_expressions_of_spark_leave_the_sessions_settings_to_the_commits(lake: EngineLake) -> None:
    """They are evaluated with settings of their own, in the thread that then commits."""
    setting = "spark.databricks.delta.properties.defaults.appendOnly"
    lake.chosen, lake.settings = "spark", {"derive": {"ratio": "100 / n"}}
    lake.put("f.ndjson", {"id": "a", "n": 1})
    lake.spark().conf.set(setting, "true")
    try:
        lake.run()
        lake.put("g.ndjson", {"id": "b", "n": 2})
        lake.run()
    finally:
        lake.spark().conf.unset(setting)
    [detail] = _sql(lake, "DESCRIBE DETAIL {t}")
    assert detail["properties"]["delta.appendOnly"] == "true"
    assert [row["ratio"] for row in lake.rows()] == [100.0, 50.0]
    active = lake.spark()._jvm.org.apache.spark.sql.classic.SparkSession.active()
    assert active.equals(lake.spark()._jsparkSession)


# -- what a table that SQL made requires


def _sql(lake: EngineLake, text: str) -> Any:
    return lake.spark().sql(text.replace("{t}", f"delta.`{lake.table}`")).collect()


@pytest.mark.parametrize("engine", ["local", "auto", "spark"])
def test_constraints_of_a_table_that_sql_made(lake: EngineLake, engine: str) -> None:
    """Before, one record that violates a constraint made the source fail for ever."""
    lake.chosen = "spark"
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    _sql(lake, "ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(id) < 3)")
    if engine != "local":
        _sql(lake, "ALTER TABLE {t} ADD CONSTRAINT odd CHECK (n % 2 = 1)")
    lake.chosen = engine
    lake.put(
        "2.ndjson",
        {"id": "b", "n": 3},
        {"id": "long", "n": 3},
        {"id": "c", "n": 5},
        {"id": "d"} if engine != "local" else {"id": "long"},
    )
    lake.run()
    assert lake.ids() == ["a", "b", "c"]
    assert [*_errors(lake)] == [("2.ndjson", 1), ("2.ndjson", 3)]
    assert lake.logged("rows_written_twice") == []


def test_a_constraint_is_added_to_a_table_if_its_rows_satisfy_it(lake: EngineLake) -> None:
    lake.chosen = "auto"
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    lake.table_settings = {"constraints": {"Positive": "n > 0"}}
    lake.put("2.ndjson", {"id": "b", "n": -1}, {"id": "c", "n": 2})
    lake.run()
    assert lake.ids() == ["a", "c"]
    assert "constraint positive (n > 0)" in _errors(lake)["2.ndjson", 0]
    lake.table_settings = {"constraints": {"Positive": "n > 0", "large": "n >= 2"}}
    lake.put("3.ndjson", {"id": "d", "n": 3})
    with pytest.raises(PermanentError, match=r"1 rows in .* violate the new CHECK constraint"):
        lake.run()
    assert lake.ids() == ["a", "c"]


def test_of_changes_with_a_constraint_that_a_row_violates_none_is_made(lake: EngineLake) -> None:
    lake.chosen = "auto"
    lake.put("1.ndjson", {"id": "a", "n": 1}, {"id": "b"})
    lake.run()
    before = lake.versions()
    lake.settings = {"schema": "id STRING, n DECIMAL(38,0), x DOUBLE"}
    lake.table_settings = {"constraints": {"free": "x IS NULL OR x > 0", "large": "n * 10000000000000000000 >= 2"}}
    lake.put("2.ndjson", {"id": "d", "n": 3, "x": 1})
    with pytest.raises(PermanentError, match=r"1 rows in .* violate the new CHECK constraint large"):
        lake.run()
    assert lake.versions() == before
    lake.table_settings["constraints"].pop("large")
    lake.run()
    rows = lake.spark().read.format("delta").load(str(lake.table)).orderBy("id").collect()
    assert [(row["id"], row["x"]) for row in rows] == [("a", None), ("b", None), ("d", 1.0)]


@pytest.mark.parametrize("mapped", [False, True])
def test_columns_that_a_table_generates_or_requires(lake: EngineLake, mapped: bool) -> None:
    """With column mapping, the rows are staged for Spark's writer, which computes and checks once more."""
    lake.chosen = "auto"
    session = lake.spark()
    columns = {"id": "STRING", "n": "BIGINT", "s": "STRUCT<a: INT NOT NULL>", "t": "TIMESTAMP"}
    builder = session._jvm.io.delta.tables.DeltaTable
    made = builder.create(session._jsparkSession).location(str(lake.table))
    for name, kind in columns.items():
        made = made.addColumn(name, kind)
    for name, kind, sql in (
        ("day", "DATE", "CAST(t AS DATE)"),
        ("twice", "BIGINT", "n * 2"),
        ("low", "STRING", "lower(id)"),
    ):
        column = builder.columnBuilder(session._jsparkSession, name).dataType(kind).generatedAlwaysAs(sql).build()
        made = made.addColumn(column)
    made = made.property("delta.columnMapping.mode", "name") if mapped else made
    made.execute()
    lake.settings = {"schema": "id STRING, n BIGINT, s STRUCT<a: INT>, t TIMESTAMP, low STRING"}
    good = {"id": "A", "n": 1, "s": {"a": 1}, "t": "2024-01-28T01:02:03Z", "low": "a"}
    lake.put(
        "f.ndjson",
        good,
        {**good, "low": "b"},
        {**good, "s": None},
        {**good, "n": 1 << 62},
        {**good, "id": "B", "low": "b"},
    )
    assert lake.run().commits == 1
    rows = _sql(lake, "SELECT id, day, twice, low FROM {t} ORDER BY id")
    assert [tuple(row) for row in rows] == [("A", date(2024, 1, 28), 2, "a"), ("B", date(2024, 1, 28), 2, "b")]
    assert {row: error[:24] for (_, row), error in _errors(lake).items()} == {
        1: "column low, which the ta",
        2: "s.a: NOT NULL, but it is",
        3: "column twice: n * 2 fail",
    }
    assert len(lake.logged("rows_written_twice")) == int(mapped)


def test_a_constraint_that_is_added_while_staged_rows_wait_discards_the_batch(lake: EngineLake) -> None:
    lake.chosen = "spark"
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    _sql(lake, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lake.put("2.ndjson", {"id": "long", "n": 1}, {"id": "b", "n": 1})
    add = "ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(id) < 3)"
    lake.meanwhile["batch_read"] = lambda: _sql(lake, add)
    lake.run()
    assert [row["id"] for row in _sql(lake, "SELECT id FROM {t} ORDER BY id")] == ["a", "b"]
    assert [*_errors(lake)] == [("2.ndjson", 0)]
