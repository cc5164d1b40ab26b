"""Inference compared with Spark's, and `schema: infer` on Spark: what differs is in docs/schemas.md."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from blizzard.config.ddl import Array, Atomic, Column, Struct, Type
from blizzard.infer.ddl_text import ddl_of, type_ddl
from blizzard.infer.storable import storable
from blizzard.infer.text import text_type
from blizzard.infer.types import DATE, STRING, TIMESTAMP, merge_all
from blizzard.infer.values import type_of
from spark_job.table.columns import SOURCE_COLUMN
from spark_job.table.schema import columns_of
from spark_job.table.schema_ddl import schema_of
from tests.spark.lake import Lake
from tests.unit.inferred import json_values

pytestmark = pytest.mark.spark

Spark = Callable[[], SparkSession]


def json_by_spark(spark: Spark, lines: list[str]) -> StructType:
    return spark().read.json(spark().sparkContext.parallelize(lines, 1)).schema


def ours(records: list[dict[str, Any]]) -> Struct:
    found = merge_all(map(type_of, records))
    assert isinstance(found, Struct)
    return storable(found).schema


def by_name(kind: Type, leaf: Callable[[Type], Type] = lambda kind: kind) -> Type:
    """With fields in the order of their names. `leaf`: of what is neither a struct nor an array."""
    match kind:
        case Struct(columns):
            return Struct(tuple(Column(c.name, by_name(c.type, leaf)) for c in sorted(columns, key=lambda c: c.name)))
        case Array(element):
            return Array(by_name(element, leaf))
    return leaf(kind)


def as_spark_would(kind: Type) -> Type:
    """Times are text, and fields are in the order of their names."""
    return by_name(kind, lambda one: STRING if one in (DATE, TIMESTAMP) else one)


def is_filled(value: Any) -> bool:
    """Spark leaves empty objects out, and takes empty text for null."""
    if isinstance(value, dict):
        return bool(value) and all(map(is_filled, value.values()))
    return all(map(is_filled, value)) if isinstance(value, list) else value != ""


NAMES = ["a", "b", "größe"]
finite = json_values.filter(lambda value: "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value))
records = st.lists(
    st.dictionaries(st.sampled_from(NAMES), finite.filter(is_filled), min_size=1), min_size=1, max_size=4
).filter(lambda found: "odd name" not in json.dumps(found))


def test_records_of_json_have_the_types_that_spark_infers(spark: Spark) -> None:
    @settings(max_examples=25)
    @given(records)
    def agree(found: list[dict[str, Any]]) -> None:
        sparks = json_by_spark(spark, [json.dumps(record) for record in found])
        assert schema_of(sparks, without=()) == ddl_of(as_spark_would(ours(found)).columns, with_not_null=False)  # type: ignore[union-attr]

    agree()


JSON_DIFFERENCES = [
    ({"a": "2026-11-21"}, "a STRING", "a DATE"),
    ({"a": "2026-11-21T10:00:00Z"}, "a STRING", "a TIMESTAMP"),
    ({"b": 1, "a": 2}, "a BIGINT, b BIGINT", "b BIGINT, a BIGINT"),
    ({"a": {}, "b": 1}, "b BIGINT", "a STRING, b BIGINT"),
    ({"a": ["", 1]}, "a ARRAY<BIGINT>", "a ARRAY<STRING>"),
]


@pytest.mark.parametrize(("record", "sparks", "here"), JSON_DIFFERENCES, ids=[text for _, _, text in JSON_DIFFERENCES])
def test_json_that_differs(spark: Spark, record: dict[str, Any], sparks: str, here: str) -> None:
    assert schema_of(json_by_spark(spark, [json.dumps(record)]), without=()) == sparks
    assert ddl_of(ours([record]).columns, with_not_null=False) == here


CSV = {
    "flag": (["true", "False"], "BOOLEAN", "BOOLEAN"),
    "fraction": (["1.5", "2"], "DOUBLE", "DOUBLE"),
    "day": (["2026-11-21", "2026-01-01"], "DATE", "DATE"),
    "moment": (["2026-11-21T10:00:00", "2026-11-21T10:00:00"], "TIMESTAMP", "TIMESTAMP"),
    "text": (["x", "1"], "STRING", "STRING"),
    "large": (["3000000000", "1"], "BIGINT", "BIGINT"),
    "huge": (["9223372036854775808", "1"], "DECIMAL(19,0)", "DECIMAL(20,0)"),
    "nothing": (["", ""], "STRING", "VOID"),
    "whole": (["17", "-2"], "INT", "BIGINT"),
    "zeros": (["007", "008"], "INT", "STRING"),
    "signed": (["+49301234", "1"], "INT", "STRING"),
    "fraction_with_zeros": (["00.5", "01.5"], "DOUBLE", "STRING"),
    "endless": (["1" * 39, "1"], "DOUBLE", "STRING"),
    "infinite": (["1e999", "1"], "DOUBLE", "STRING"),
}
"""Values, Spark's type, and ours."""


def test_fields_of_csv(spark: Spark, tmp_path: Path) -> None:
    rows = zip(*(values for values, _, _ in CSV.values()), strict=True)
    (tmp_path / "a.csv").write_text("\n".join(",".join(row) for row in [tuple(CSV), *rows]) + "\n")
    found = spark().read.csv(str(tmp_path / "a.csv"), header=True, inferSchema=True).schema
    sparks = {field.name: field.dataType.simpleString().upper() for field in found}
    assert sparks == {name: kind for name, (_, kind, _) in CSV.items()}
    here = {
        name: type_ddl(merge_all(text_type(value or None) for value in values)) for name, (values, _, _) in CSV.items()
    }
    assert here == {name: kind for name, (_, _, kind) in CSV.items()}


@pytest.mark.parametrize("name", ["a b", "größe", "1a", "a`b", "a.b", "select", "1e5", "interval", "NOT", "a-b"])
def test_spark_reads_the_names_of_our_ddl(spark: Spark, name: str) -> None:
    spark()
    text = ddl_of([Column(name, Struct((Column(name, Atomic("bigint")),)), nullable=False, comment="it's \\ one")])
    assert StructType.fromDDL(text) == columns_of(text)


def test_a_first_batch_on_spark_decides_and_mixed_values_are_kept_as_text(lake: Lake) -> None:
    lake.settings = {"schema": "infer"}
    lake.put("a.ndjson", {"id": 1, "reference": "R1", "n": {"at": "2026-11-21"}}, {"id": 2, "reference": 17})
    lake.run()
    lake.put("b.ndjson", {"id": 3, "reference": {"x": 1}, "new": True})
    lake.run()
    assert [(row["id"], row["reference"]) for row in lake.rows()] == [(1, "R1"), (2, "17"), (3, '{"x":1}')]
    (said,) = lake.logged("schema_inferred")
    assert said["schema"] == "id BIGINT, reference STRING, n STRUCT<at: DATE>"
    assert {*lake.rows()[0]} == {"id", "reference", "n", "_source"}


def test_the_loser_of_a_race_on_spark_takes_the_columns_of_the_winner(lake: Lake) -> None:
    lake.settings = {"schema": "infer"}
    lake.put("a.ndjson", {"id": 1, "ours": 1})

    def overtake() -> None:
        lake.put("b.ndjson", {"id": 2.5, "theirs": True})
        lake.run()

    lake.meanwhile["batch_read"] = overtake
    lake.run()
    assert [row["id"] for row in lake.rows()] == [1.0, 2.5]
    assert {*lake.rows()[0]} == {"id", "ours", "theirs", "_source"}


def test_a_table_that_others_made_gives_the_schema(lake: Lake, spark: Spark) -> None:
    lake.settings = {"schema": "infer"}
    made = DeltaTable.create(spark()).location(str(lake.table)).addColumn("id", "BIGINT", nullable=False)
    made = made.addColumn("name", "STRING").addColumn("twice", "BIGINT", generatedAlwaysAs="id * 2")
    made.addColumn("_source", SOURCE_COLUMN.dataType).execute()
    lake.put("a.ndjson", {"id": 1, "name": "x", "more": 1}, {"name": "no id"})
    lake.run()
    assert [(row["id"], row["name"], row["twice"]) for row in lake.rows()] == [(1, "x", 2)]
    assert not lake.logged("schema_inferred")
