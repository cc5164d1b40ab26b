"""Records that only Spark can judge, of sources with rules for data that is not as their schema says."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.config.schema_rules import RESCUED, SchemaRules
from spark_job.formats.deferred import deferred_records_type
from spark_job.formats.protocol import MISFITS, Limits
from spark_job.formats.registry import open_format
from spark_job.table.schema import columns_of
from tests.unit.format_reading import read_file

pytestmark = pytest.mark.spark

RULES = SchemaRules("rescue", "rescue", "ignore_case", {"city": ("address", "city")})
DDL = (
    "id INT NOT NULL, v DOUBLE, t STRING, day DATE, i8 TINYINT, s STRUCT<a: INT, b: STRING>, l ARRAY<INT>, city STRING"
)
NOTHING = dict.fromkeys(["v", "t", "day", "i8", "s", "l", "city"])
LINES: Sequence[tuple[str, Any]] = [
    ('{"id": 1, "t": 5, "x": 1.10}', ({"t": "5"}, {"x": 1.1})),
    (
        '{"ID": 2, "T": {"K": 1}, "Address": {"CITY": 7, "zip": "3000"}}',
        ({"t": '{"K":1}', "city": "7"}, {"address.zip": "3000"}),
    ),
    ('{"id": 3, "day": "2026-02-30", "t": 1}', ({"t": "1"}, {"day": "2026-02-30"})),
    ('{"id": 4, "i8": 200, "v": true}', ({}, {"i8": 200, "v": True})),
    ('{"id": 5, "s": {"a": "x", "b": 6, "c": 1}}', ({"s": {"a": None, "b": "6"}}, {"s.a": "x", "s.c": 1})),
    ('{"id": 6, "s": "x", "t": 1, "address": []}', ({"t": "1"}, {"s": "x", "address": []})),
    ('{"id": 7, "l": [1, [2]], "t": 1}', ({"t": "1"}, {"l": [1, [2]]})),
    ('{"id": 8, "v": NaN, "n": NaN}', ({"v": "nan"}, {"n": "NaN"})),
    ('{"id": 9, "t": 1}', ({"t": "1"}, None)),
    ('{"id": "10", "day": "2026-02-30"}', "id: the value does not fit int"),
    ('{"day": "2026-02-30", "t": 1}', "id: NOT NULL, but it is missing or null"),
    (
        '{"id": 12, "t": 1, "s": {"a": "x", "c": 2}, "s.c": 3, "s.a": 4}',
        ({"t": "1", "s": {"a": None, "b": None}}, {"s.a": "x", "s.c": 2, "`s.c`": 3, "`s.a`": 4}),
    ),
]


def decided(spark: Callable[[], SparkSession], lines: Sequence[str], ddl: str, rules: SchemaRules) -> list[Any]:
    """For each line its columns and what is rescued, or why it is refused."""
    schema = deferred_records_type(0)
    rows = [{"file": "f", "row": number, "etag": "e", "line": line} for number, line in enumerate(lines)]
    columns = columns_of(f"{ddl}, {RESCUED} STRING" if rules.rescues else ddl)
    frame = open_format("ndjson", columns, Limits(), {}, rules).decide(spark().createDataFrame(rows, schema))
    assert frame.columns == [*schema.names, "record", *([MISFITS] if rules.rescues_misfits else [])]
    found = sorted(frame.collect(), key=lambda row: row["row"])
    assert [row["line"] for row in found] == list(lines)
    return [row["fault"] if row["record"] is None else row["record"].asDict(recursive=True) for row in found]


def test_spark_rescues_what_it_refuses_and_what_no_column_is_for(spark: Callable[[], SparkSession]) -> None:
    found = decided(spark, [line for line, _ in LINES], DDL, RULES)
    for number, (record, (line, expected)) in enumerate(zip(found, LINES, strict=True), 1):
        if isinstance(expected, str):
            assert record == expected
            continue
        values, kept = expected
        text = record.pop(RESCUED)
        record["v"] = "nan" if str(record["v"]) == "nan" else record["v"]
        assert (line, record, text and json.loads(text)) == (line, {"id": number, **NOTHING, **values}, kept)


def test_spark_and_the_fast_parser_agree_about_what_is_rescued(spark: Callable[[], SparkSession]) -> None:
    ddl = "a TINYINT, b BIGINT, c BOOLEAN, d DATE, e TIMESTAMP, f DECIMAL(5,2)"
    ddl += ", s STRUCT<a: INT, b: STRING>, l ARRAY<INT>, m MAP<STRING, INT>"
    values = ["40000", '"x"', "true", "1.5", "5", '"yes"', "[]", '["x"]']
    values += ["200", "-129", "999.995", "999.994", "12345.67", '"2026-02-30"', '"2026-02-28"', '"12345.67"']
    values += ['{"a": "x"}', '{"k": "x"}', "{}", '{"a": true, "b": "y"}']
    lines = [f'{{"{column}": {value}, "z": {value}}}' for column in "abcdefslm" for value in values]
    rules = SchemaRules("rescue", "rescue")
    fast = read_file("ndjson", ddl, "\n".join(lines).encode(), rules=rules)
    by_spark = decided(spark, lines, ddl, rules)
    certain = {number: row for number, row in fast.rows.items() if number not in fast.reasons}
    assert len(certain) > len(lines) // 2
    for number, row in certain.items():
        record = by_spark[number]
        assert (lines[number], json.loads(record.pop(RESCUED))) == (lines[number], json.loads(row.pop(RESCUED)))
        assert (lines[number], record["s"], record["l"], record["m"]) == (lines[number], row["s"], row["l"], row["m"])


def test_spark_reads_columns_from_other_keys(spark: Callable[[], SparkSession]) -> None:
    rules = SchemaRules(fields={"user_id": ("user", "id"), "name": ("NAME",)})
    lines = ['{"user": {"id": 1, "x": 2}, "NAME": 5}', '{"user": null, "NAME": 6}', '{"user": {"id": "x"}, "NAME": 6}']
    ddl = "user_id INT, name STRING, user STRUCT<x: INT>"
    assert decided(spark, lines, ddl, rules) == [
        {"user_id": 1, "name": "5", "user": {"x": 2}},
        {"user_id": None, "name": "6", "user": None},
        "user: the value does not fit struct<id:int,x:int>",
    ]
