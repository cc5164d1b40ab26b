"""The SQL that the documentation shows for tables, by Spark: on a table of the record that docs/schemas.md shows."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from ruamel.yaml import YAML

from tests.spark.engine_lake import EngineLake
from tests.unit.documents import Fence, fences, section

pytestmark = pytest.mark.spark

PAGE, HEADING = "docs/schemas.md", "## Data that is not as the schema says"
OF_TABLES = [one for one in fences("sql") if "delta.`s3://" in one.body and one.document != "docs/kafka.md"]
"""Those of topics are in tests/spark/test_topics_on_spark.py."""


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    """With the settings, the schema and the record of the page."""
    shown = section(PAGE, HEADING)
    [record] = re.findall(r"^```text\n(.*)\n```$", shown, re.MULTILINE)
    [schema] = re.findall(r"^With the schema `([^`]+)` the record$", shown, re.MULTILINE)
    [block] = re.findall(r"^```yaml\n(.*?)^```$", shown, re.MULTILINE | re.DOTALL)
    settings: dict[str, Any] = YAML(typ="safe").load(io.StringIO(block))
    made = EngineLake(tmp_path, spark, {**settings, "schema": schema})
    made.put("a.ndjson", record, json.dumps({"id": 8}))
    made.run()
    yield made
    made.close()


def answers(lake: EngineLake, shown: Fence, spark: Callable[[], SparkSession]) -> list[list[tuple[Any, ...]]]:
    """Of each query, on the table of the lake in place of the one that the page names."""
    text = shown.body.replace("orders:shop", "events:landing")
    queries = re.sub(r"delta\.`s3://[^`]+`", f"delta.`{lake.table}`", text)
    return [[tuple(row) for row in spark().sql(query).collect()] for query in queries.split(";") if query.strip()]


def test_the_row_is_as_the_page_shows_it(lake: EngineLake) -> None:
    [cells] = re.findall(r"^\| (7 \|.*) \|$", section(PAGE, HEADING), re.MULTILINE)
    shown = [cell.strip().strip("`") for cell in cells.split(" | ")]
    row = lake.rows()[0]
    found = [row[name] for name in ("id", "value", "city", "_rescued")]
    assert ["null" if value is None else str(value) for value in found] == shown


@pytest.mark.parametrize("shown", OF_TABLES, ids=str)
def test_each_query_runs(lake: EngineLake, shown: Fence, spark: Callable[[], SparkSession]) -> None:
    [first, *others] = answers(lake, shown, spark)
    if "_rescued" in shown.body:
        assert first == [("a.ndjson", "3000")]
        return
    assert first == [], "no row is there twice"
    lake.spark().sql(f"INSERT INTO delta.`{lake.table}` SELECT * FROM delta.`{lake.table}` WHERE id = 8")
    [first, *others] = answers(lake, shown, spark)
    assert first == [("events:landing", "a.ndjson", 1, 2)]
    etag = lake.rows()[0]["_source"]["etag"]
    assert [other for answer in others for other in answer] == ([("a.ndjson", etag, 3)] if others else [])


def test_there_are_such_queries() -> None:
    assert {one.document for one in OF_TABLES} >= {"README.md", PAGE, "docs/storage-formats.md"}
