"""What Spark says of expressions that only it evaluates, before anything runs: `blizzard validate --ask-spark`."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.cli import main
from spark_job.expression_types.ask import asked
from tests.spark.engine_lake import EngineLake
from tests.unit.config_files import config

pytestmark = pytest.mark.spark


def answers(spark: Callable[[], SparkSession], derive: Mapping[str, str], **more: Any) -> dict[str, str]:
    """By expression, the type or the problem."""
    source = {"uri": "s3://landing", "schema": "id STRING NOT NULL, n INT, s STRUCT<a: INT>", "derive": derive}
    source["partition_columns"] = {"date": "date"}
    pipeline = {"table_uri": "s3://lake/t", "sources": {"s": {**source, **more.pop("source", {})}}, **more}
    found = asked(config(json.dumps({"pipelines": {"p": pipeline}})).pipelines["p"], spark())
    return {one.name: one.problem or str(one.type) for one in found}


def test_each_expression_of_spark_has_a_type_or_a_problem(spark: Callable[[], SparkSession]) -> None:
    found = answers(
        spark,
        {
            "low": "lower(id)",
            "twice": "n * 2",
            "month": "add_months(date, 1)",
            "made": "named_struct('a', n, 'b', _source.file)",
            "unknown": "foo(id)",
            "wrong": "size(n)",
            "field": "s.b + 1",
            "torn": "n +* 2",
            "nothing": "nullif(null, null)",
            "interval": "make_dt_interval(n)",
        },
    )
    assert {name: found.pop(name) for name in ("twice", "month", "made")} == {
        "twice": "int",
        "month": "date",
        "made": "struct<a:int,b:string>",
    }
    assert found.pop("nothing").startswith("has no type; cast it")
    assert found.pop("interval").startswith("has a value of type interval day to second, which no table has")
    begins = {
        "unknown": "Spark refuses 'foo(id)': [UNRESOLVED_ROUTINE] Cannot resolve routine `foo`",
        "wrong": "Spark refuses 'size(n)': [DATATYPE_MISMATCH",
        "field": "Spark refuses 's.b + 1': [FIELD_NOT_FOUND] No such struct field `b` in `a`; correct it",
        "torn": "Spark refuses 'n +* 2': [PARSE_SYNTAX_ERROR] Syntax error at or near '2'; correct it",
    }
    assert {name for name, begin in begins.items() if found[name].startswith(begin)} == {*found}
    assert not any(word in problem for problem in found.values() for word in ("SQLSTATE", "pos 0", "\n"))


def test_a_condition_may_name_what_spark_derives_and_has_to_be_one(spark: Callable[[], SparkSession]) -> None:
    conditions = {"small": "twice < 10", "odd": "n % 2", "bad": "foo(n) > 1", "of_bad": "wrong > 1", "plain": "n > 0"}
    found = answers(spark, {"twice": "n * 2", "wrong": "size(n)"}, constraints=conditions)
    assert (found.pop("twice"), found.pop("small")) == ("int", "boolean")
    assert found.pop("odd") == "has a value of type int; expected a condition, such as `value >= 0`"
    assert "UNRESOLVED_ROUTINE" in found.pop("bad")
    assert [*found] == ["wrong"]


def test_nothing_is_asked_of_columns_that_are_not_known_yet(spark: Callable[[], SparkSession]) -> None:
    late = {"schema": "infer"}
    assert answers(spark, {"twice": "n * 2"}, source=late, constraints={"odd": "n % 2 = 1"}) == {}


def test_validate_asks_spark_and_compares_the_types_with_the_table(
    tmp_path: Path, spark: Callable[[], SparkSession], capsys: pytest.CaptureFixture[str]
) -> None:
    lake = EngineLake(tmp_path, spark, {"schema": "id STRING, n INT, twice BIGINT"})
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    lake.close()
    lake.settings = {"schema": "id STRING, n INT", "derive": {"twice": "n * 2", "more": "n + 1"}}
    file = str(lake.write_config())
    assert main(["validate", file, "--against-table", "--ask-spark", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    derive = [(one["name"], one["type"], one["checked"]) for one in found["sources"][0]["derive"]]
    assert derive == [("twice", "int", True), ("more", "int", True)]
    [table] = found["tables"]
    assert table["refused"] == ["column twice: expected int, found bigint"]
    assert table["changes"] == ["adds column more int; rows that are there have null"]
    lake.settings["derive"]["more"] = "foo(n)"
    assert main(["validate", str(lake.write_config()), "--against-table", "--ask-spark"]) == 2
    text = capsys.readouterr().out
    assert f"{file}:1: pipelines.events.sources.landing.derive.more: Spark refuses 'foo(n)': [UNRESOLVED_ROUT" in text
    assert text.endswith("1 problem\n")
