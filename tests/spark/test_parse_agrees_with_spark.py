"""The fast parser against Spark's own `from_json`: accepted lines have Spark's value, refused lines are refused by
Spark."""

import base64
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.refusal import refusal
from spark_job.formats.json.spark_parser import decided_by_spark
from spark_job.formats.protocol import Parsed
from tests.spark.format_comparison import same
from tests.spark.json_lines import (
    AT_LIMITS,
    EVERYWHERE,
    HIDDEN,
    MAPS,
    MOMENTS,
    OF_COLUMN,
    OF_MAP,
    SCHEMA,
    with_odd_forms,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("query_defaults")]

STRICTER_THAN_SPARK = (
    "a time without its day does not fit timestamp",
    "beyond the years 1 to 9999 does not fit timestamp",
)
"""Reasons of values that Spark accepts in part, with another value."""


@dataclass(frozen=True)
class Dead:
    fault: str


def spark_fallback(spark: SparkSession, schema: StructType, lines: Sequence[str]) -> list[Any]:
    """The result of each line without the fast parser: the record, or why it is refused."""
    frame = spark.createDataFrame(
        [(n, line, refusal(line)) for n, line in enumerate(lines)], "n INT, line STRING, fault STRING"
    )
    table = decided_by_spark(frame, schema).select("n", "record", "fault").orderBy("n").toArrow()
    records, faults = table["record"].to_pylist(), table["fault"].to_pylist()
    return [record if fault is None else Dead(fault) for record, fault in zip(records, faults, strict=True)]


def differences(fast: Parsed, lines: Sequence[str], slow: Sequence[Any]) -> list[str]:
    """Differences between the result of the fast parser, for some or all columns, and that of Spark."""
    numbers = list(range(len(lines))) if fast.positions is None else list(fast.positions)
    found = []
    for number, record in zip(numbers, fast.records.to_pylist(), strict=True):
        expected = slow[number]
        if isinstance(expected, Dead) or not same(record, {name: expected[name] for name in record}):
            found.append(f"{lines[number]!r}: fast {record}, slow {expected}")
    for number, why in fast.refused:
        too_costly = why is not None and why.endswith("in bounded time")
        if too_costly and re.search(r"[eE][-+]?[0-9]{5}", lines[number]):
            continue
        if why is not None and why.endswith(STRICTER_THAN_SPARK):
            continue
        expected = refusal(lines[number]) or (slow[number].fault if isinstance(slow[number], Dead) else None)
        if why != expected and (why is not None or refusal(lines[number]) is not None):
            found.append(f"{lines[number]!r}: refused ({why}), but {expected}")
    if sorted([*numbers, *(number for number, _ in fast.refused)]) != list(range(len(lines))):
        found.append(f"not every line once: {numbers}, {fast.refused} of {lines}")
    return found


def drawn(strategy: st.SearchStrategy[str], count: int) -> list[str]:
    """Many examples at once: a Spark job for each would take hours. As many times `count` as the profile has more
    examples than Hypothesis's default."""
    found: dict[str, None] = {}

    @settings(
        max_examples=count * settings().max_examples // 100, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(text: str) -> None:
        found[text] = None

    collect()
    return [text for text in found if "\n" not in text and not text.endswith("\r")]


def values_of(
    columns: dict[str, st.SearchStrategy[str]], count: int, everywhere: Sequence[str]
) -> list[tuple[str, str]]:
    """Columns with values made for them, and each column with each value of a list."""
    own = [(name, value) for name, values in columns.items() for value in drawn(values, count)]
    return [*own, *((name, value) for name in columns for value in everywhere)]


@pytest.mark.parametrize(
    ("ddl", "columns", "count", "everywhere"),
    [(SCHEMA, OF_COLUMN, 45, EVERYWHERE), (MAPS, OF_MAP, 30, ())],
    ids=["all", "maps"],
)
def test_accepted_lines_have_sparks_values_and_refused_lines_are_dead_lettered(
    spark: Callable[[], SparkSession],
    ddl: str,
    columns: dict[str, st.SearchStrategy[str]],
    count: int,
    everywhere: Sequence[str],
) -> None:
    spark()
    schema = StructType.fromDDL(ddl)
    required = "" if schema["id"].nullable else '"id":"x",'
    cases = values_of(columns, count, everywhere) + (MOMENTS if everywhere else [])
    alone = [f'{{{required}"{name}":{value}}}' for name, value in cases]
    lines = [*alone, *drawn(with_odd_forms(columns), count * 3), *HIDDEN, *AT_LIMITS]
    slow = spark_fallback(spark(), schema, lines)
    good = [n for n, record in enumerate(slow) if not isinstance(record, Dead)]
    found, taken = [], 0
    # Alone, by a parser of its column: nothing else can be why a line is left to Spark.
    parsers = {field.name: NdjsonParser(StructType([field])) for field in schema}
    for (name, _), line, expected in zip(cases, alone, slow, strict=False):
        fast = parsers[name].parse(line.encode())
        found += differences(fast, [line], [expected])
        taken += fast.records.num_rows
    # Together, by one parser: good lines with some others among them.
    parser = NdjsonParser(schema)
    shuffled = random.Random(1)
    for start in range(0, len(lines), 25):
        block = [*shuffled.sample(good, 60), *range(start, min(start + 25, len(lines)))]
        some = shuffled.sample(block, len(block))
        texts = [lines[n] for n in some]
        found += differences(parser.parse("\n".join(texts).encode()), texts, [slow[n] for n in some])
    assert found == []
    assert taken > len(good) / 3


def test_a_refusal_decided_without_spark_has_sparks_reason(spark: Callable[[], SparkSession]) -> None:
    spark()
    schema = StructType.fromDDL(
        "id STRING NOT NULL, i8 TINYINT, i16 SMALLINT, a BIGINT, f DOUBLE, b BOOLEAN, d DATE, t STRING"
    )
    values = ['"x"', '""', "1.5", "true", "200", "40000", "99999999999999999999", "1", "null", "{}", "[1]", "1e300"]
    lines = [f'{{"id":"1","{name}":{value}}}' for name in schema.names[1:] for value in values]
    lines += [f'{{"id":null,"{name}":{value}}}' for name in schema.names[1:] for value in values]
    lines += [f'{{"i8":200,"id":"1","{name}":{value}}}' for name in schema.names[2:] for value in values]
    lines += ['{"id":"1","a":"x","a":1,"f":"y"}', '{"id":"1","a":1,"a":"x"}', '{"id":"1","d":"2024-02-30","b":1}']
    slow = spark_fallback(spark(), schema, lines)
    fast = NdjsonParser(schema).parse("\n".join(lines).encode())
    assert differences(fast, lines, slow) == []
    assert sum(why is not None for _, why in fast.refused) > 50


def well_formed(draw: random.Random, count: int) -> Iterator[str]:
    """Records with all columns but one, and some unknown ones."""
    for n in range(count):
        moment = f"{datetime(2000, 1, 1) + timedelta(seconds=draw.randrange(10**9)):%Y-%m-%dT%H:%M:%S}"  # noqa: DTZ001
        record = {
            "id": f"{n} \u00e9 \n \U0001f600",
            "yes": n % 2 == 0,
            "i8": draw.randrange(-128, 128),
            "i16": draw.randrange(-32768, 32768),
            "i32": draw.randrange(-(1 << 31), 1 << 31),
            "i64": draw.randrange(-(1 << 63), 1 << 63),
            "f32": draw.uniform(-1e30, 1e30),
            "f64": draw.uniform(-1, 1) * 10 ** draw.randrange(-300, 300),
            "money": draw.randrange(-99999, 100000) / 100,
            "price": draw.randrange(10**12) / 10**4,
            "whole": draw.randrange(10**10),
            "day": moment[:10],
            "at": moment + ("Z", ".123Z", "+05:30", ".123456-08:00")[n % 4],
            "wall": moment + ("", ".5")[n % 2],
            "bytes": base64.b64encode(draw.randbytes(n % 7)).decode(),
            "point": {"x": n, "y": "text", "day": moment[:10], "unknown": [1, {"x": None}]},
            "list": [1, None, n][: n % 4],
            "moneys": [1.25, 0, None],
            "points": [{"x": n, "at": moment + "Z"}, None],
            "deep": {"inner": {"points": [{"x": 1}], "f": 0.5}},
            "words": {"a": "b", "c": None},
            "unknown": {"id": 5, "i64": "text"},
        }
        left_out = draw.choice([*record][1:])
        yield json.dumps({name: value for name, value in record.items() if name != left_out}, ensure_ascii=n % 3 == 0)


def test_well_formed_records_are_parsed_by_arrow_with_sparks_values(spark: Callable[[], SparkSession]) -> None:
    spark()
    schema = StructType.fromDDL(
        SCHEMA.replace("id STRING", "id STRING NOT NULL").replace("exact DECIMAL(38,18), ", "")
        + ", words MAP<STRING, STRING>"
    )
    lines = [*well_formed(random.Random(5), 500)]
    slow = spark_fallback(spark(), schema, lines)
    fast = NdjsonParser(schema).parse("\n".join(lines).encode())
    assert (fast.positions, list(fast.refused)) == (None, [])
    assert differences(fast, lines, slow) == []
