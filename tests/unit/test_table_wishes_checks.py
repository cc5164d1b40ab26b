"""What `blizzard validate` says of derived columns, constraints, clustering and properties."""

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli import main
from blizzard.config.load import read_config

GOOD: dict[str, Any] = {
    "table_uri": "s3://lake/t",
    "sources": {
        "a": {"uri": "s3://landing/a/", "schema": "id STRING, n BIGINT, x DOUBLE, tags ARRAY<STRING>, ok BOOLEAN"}
    },
}


def problems(source: dict[str, Any] | None = None, **pipeline: Any) -> list[str]:
    found = {**GOOD, **pipeline, "sources": {"a": {**GOOD["sources"]["a"], **(source or {})}}}
    return [
        str(problem)
        for problem in read_config(json.dumps({"pipelines": {"p": found}}), {}, name="p.yaml", folder=None).problems
    ]


def test_what_fits_is_accepted() -> None:
    derive = {"day": "date(timestamp_seconds(n))", "twice": "n * 2", "a b": "lower(id)"}
    assert problems({"derive": derive}, cluster_by=["day", "twice", "a b"], constraints={"c": "twice > n"}) == []
    assert problems({"derive": derive}, partition_by=["day"], table_properties={"owner": "me"}) == []


@pytest.mark.parametrize(
    ("derive", "text"),
    [
        ({"v": "rand()"}, "sources.a.derive.v: has rand(), which has another value each time"),
        ({"v": "nothing"}, "has the name nothing, which is no column of the row; expected one of id, n, x, tags, ok"),
        ({"v": "lower(w)", "w": "id"}, "has the name w, which is no column"),
        ({"ID": "n"}, "is a column of the record or its path already"),
        ({"v": "id", "V": "n"}, "is a column of the record or its path already, or derived twice"),
        ({"_source": "id"}, "is reserved"),
        ({"v": ""}, "is empty; expected an expression"),
        ({"v": "null"}, "has no type; cast it"),
    ],
)
def test_a_derived_column_that_cannot_be_is_refused(derive: dict[str, str], text: str) -> None:
    assert any(text in problem for problem in problems({"derive": derive})), problems({"derive": derive})


@pytest.mark.parametrize(
    ("pipeline", "text"),
    [
        ({"constraints": {"c": "n"}}, "constraints.c: has a value of type bigint; expected a condition"),
        ({"constraints": {"c": "missing > 1"}}, "has the name missing, which is no column of the row; no source"),
        ({"constraints": {"c": "n > (select 1)"}}, "has SELECT, which needs other rows"),
        ({"constraints": {"a b": "n > 1"}}, "expected a name of letters"),
        ({"cluster_by": ["id", "ID"]}, "found 'ID' twice"),
        ({"cluster_by": ["idd"]}, "found 'idd', which source a does not have; did you mean `id`?"),
        ({"cluster_by": ["tags"]}, "found 'tags' of type array<string>, of which Delta keeps no statistics"),
        ({"cluster_by": ["ok"]}, "of which Delta keeps no statistics"),
        ({"cluster_by": ["id"], "partition_by": ["n"]}, "a table is either partitioned or clustered"),
        ({"cluster_by": ["id", "n", "x", "a", "b"]}, "cluster_by"),
        ({"table_properties": {"delta.setTransactionRetentionDuration": "1 day"}}, "rows would be doubled; remove it"),
        ({"table_properties": {"delta.constraints.c": "n > 1"}}, "that `constraints` of the pipeline sets"),
    ],
)
def test_what_a_table_cannot_be_is_refused(pipeline: dict[str, Any], text: str) -> None:
    assert any(text in problem for problem in problems(**pipeline)), problems(**pipeline)


def test_names_of_any_characters_are_accepted() -> None:
    assert problems({"schema": "`a b` STRING, `x.y` STRING, größe STRING".replace("größe", "`größe`")}) == []


def test_validate_says_who_evaluates_each_expression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = {**GOOD["sources"]["a"], "derive": {"day": "date(timestamp_seconds(n))", "twice": "n * 2"}}
    pipeline = {**GOOD, "sources": {"a": source}, "constraints": {"small": "twice < 5", "some": "n > 0"}}
    file = tmp_path / "pipelines.yaml"
    file.write_text(json.dumps({"pipelines": {"p": pipeline}}))
    assert main(["validate", str(file), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["sources"]
    assert [(one["name"], one["evaluated_by"], one["why_spark"]) for one in found["derive"]] == [
        ("day", "reader", None),
        ("twice", "spark", "the operator *"),
    ]
    assert [(one["name"], one["evaluated_by"], one["why_spark"]) for one in found["constraints"]] == [
        ("small", "spark", "column twice, which Spark derives"),
        ("some", "reader", None),
    ]
