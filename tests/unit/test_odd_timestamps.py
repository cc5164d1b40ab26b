"""Which times Spark must not be asked about."""

import pytest
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType, TimestampType

from spark_job.formats.json.odd_timestamps import contains_timestamp, odd_timestamp
from spark_job.formats.json.parser import NdjsonParser

POINT = StructType([StructField("at", TimestampType()), StructField("n", LongType())])
SCHEMA = StructType(
    [
        StructField("at", TimestampType()),
        StructField("text", StringType()),
        StructField("n", LongType()),
        StructField("points", ArrayType(POINT)),
        StructField("by_name", MapType(StringType(), POINT)),
    ]
)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"at": 18446744073710}', "at: a number of seconds beyond the years 1 to 9999"),
        ('{"at": -18446744073710}', "at: a number of seconds"),
        ('{"at": 1706450400000000}', "at: a number of seconds"),
        ('{"at": 253402300800}', "at: a number of seconds"),
        (f'{{"at": {"9" * 4000}}}', "at: a number of seconds"),
        ('{"at": "12:30"}', "at: a time without its day"),
        ('{"at": "T12:30:45Z"}', "at: a time without its day"),
        ('{"at": "T12"}', "at: a time without its day"),
        ('{"at": " \\t1:2"}', "at: a time without its day"),
        ('{"at": "\\u00001\\u003a2"}', "at: a time without its day"),
        ('{"at": "12:30", "at": null}', "at: a time without its day"),
        ('{"points": [{"at": 1}, {"at": "12:30"}]}', "points[].at: a time without its day"),
        ('{"by_name": {"a": {"at": "12:30"}}}', "by_name{}.at: a time without its day"),
    ],
)
def test_a_time_that_spark_would_change_is_refused(line: str, why: str) -> None:
    assert str(odd_timestamp(line.encode(), SCHEMA)).startswith(why)
    (refused,) = NdjsonParser(SCHEMA).parse(line.encode()).refused
    assert str(refused[1]).startswith(why)


@pytest.mark.parametrize(
    "line",
    [
        '{"at": 253402300799, "text": "12:30", "n": 18446744073710}',
        '{"at": "2024-01-28T12:30:00Z", "points": [{"at": "2024-1-28 12:30", "n": 999999999999999}]}',
        '{"at": "noon"}',
        '{"at": 1.5e300}',
        '{"other": "12:30", "at": [18446744073710], "points": {"at": "12:30"}}',
    ],
)
def test_any_other_value_is_left_undecided(line: str) -> None:
    assert odd_timestamp(line.encode(), SCHEMA) is None


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (TimestampType(), True),
        (SCHEMA, True),
        (ArrayType(POINT), True),
        (MapType(StringType(), TimestampType()), True),
        (StructType([StructField("n", LongType())]), False),
    ],
)
def test_a_timestamp_is_found_at_any_depth(kind: object, *, found: bool) -> None:
    assert contains_timestamp(kind) is found  # type: ignore[arg-type]
