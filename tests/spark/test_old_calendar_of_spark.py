"""Parquet and Avro that Spark has written in the calendar of its old versions: what it converts is refused.

The row of both pages: "dates before 1582-10-15 and times before 1900 in a file that Spark marks as written in its old
calendar".
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.format_comparison import REFUSED, Comparison

pytestmark = pytest.mark.spark

ROWS = """
    SELECT date'1500-03-01' AS d, timestamp'1500-03-01 10:00:00' AS t
    UNION ALL SELECT date'1582-10-15', timestamp'1850-01-01 10:00:00'
    UNION ALL SELECT date'2026-11-21', timestamp'2026-11-21 10:00:00'
"""
MODES = {
    f"spark.sql.{name}RebaseModeInWrite": "LEGACY" for name in ("parquet.datetime", "parquet.int96", "avro.datetime")
}


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value or "")


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
@pytest.mark.parametrize("name", ["parquet", "int96", "avro"])
def test_values_that_spark_converts_are_refused(
    comparison: Comparison,
    spark: Callable[[], SparkSession],
    spark_avro: None,
    tmp_path: Path,
    name: str,
    zone: str,
) -> None:
    kind = "INT96" if name == "int96" else "TIMESTAMP_MICROS"
    written = {**MODES, "spark.sql.session.timeZone": zone, "spark.sql.parquet.outputTimestampType": kind}
    form = "avro" if name == "avro" else "parquet"
    with settings(spark(), written):
        spark().sql(ROWS).coalesce(1).sortWithinPartitions("d").write.format(form).save(str(tmp_path / "written"))
    (file,) = (tmp_path / "written").glob(f"*.{form}")
    stored = file.read_bytes()
    assert count_of_equal(comparison, form, "d DATE", stored) == 2
    assert count_of_equal(comparison, form, "t TIMESTAMP", stored) == (2 if zone == "UTC" else 1)


def count_of_equal(comparison: Comparison, form: str, ddl: str, stored: bytes) -> int:
    """How many values both read alike; the others are refused."""
    theirs, ours = comparison.spark(form, ddl, stored), comparison.ours(form, ddl, stored)
    assert not isinstance(theirs, str)
    assert not isinstance(ours, str)
    assert len(theirs) == len(ours) == 3
    pairs = [(their, our) for their, our in zip(theirs, ours, strict=True) if our != REFUSED]
    assert [their for their, _ in pairs] == [our for _, our in pairs]
    return len(pairs)
