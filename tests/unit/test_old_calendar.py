"""Dates and times of files whose metadata says that they are in the calendar, or the zones, of old Spark."""

import io
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from spark_job.formats.protocol import Limits
from spark_job.formats.registry import open_format
from spark_job.table.schema import columns_of
from tests.unit.contents import StoredContent
from tests.unit.format_reading import read_file

OLD_DAYS = [date(1582, 10, 14), date(1582, 10, 15), date(2026, 11, 21)]
OLD_TIMES = [
    datetime(1582, 10, 14, 23, 59, 59, tzinfo=UTC),
    datetime(1582, 10, 15, tzinfo=UTC),
    datetime(1899, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(1900, 1, 1, tzinfo=UTC),
]
V2, V30, V4 = "2.4.8", "3.0.3", "4.1.0"
LEGACY, INT96, ZONE = "legacyDateTime", "legacyINT96", "timeZone"
CASES: list[tuple[Mapping[str, str], int, int, int]] = [
    ({}, 0, 0, 0),
    ({LEGACY: "", INT96: ""}, 0, 0, 0),
    ({"version": V2}, 1, 3, 3),
    ({"version": V30}, 0, 0, 3),
    ({"version": V4}, 0, 0, 0),
    ({"version": V4, LEGACY: "", ZONE: "America/Los_Angeles"}, 1, 3, 0),
    ({"version": V4, LEGACY: "", ZONE: "UTC"}, 1, 1, 0),
    ({"version": V4, INT96: "", ZONE: "UTC"}, 0, 0, 1),
    ({"version": V4, LEGACY: "", INT96: "", ZONE: "Europe/Bern"}, 1, 3, 3),
]
"""Metadata, and how many of the days, of the times and of the times as INT96 are refused, as Spark converts them."""


def with_prefix(metadata: Mapping[str, str]) -> dict[str, str]:
    return {f"org.apache.spark.{key}": value for key, value in metadata.items()}


def parquet(values: pa.Array, metadata: Mapping[str, str], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"v": values}).replace_schema_metadata(with_prefix(metadata)), file, **options)
    return file.getvalue()


def avro(kind: str, logical: str, values: list[Any], metadata: Mapping[str, str]) -> bytes:
    file = io.BytesIO()
    fields = [{"name": "v", "type": {"type": kind, "logicalType": logical}}]
    schema = {"type": "record", "name": "r", "fields": fields}
    fastavro.writer(file, schema, [{"v": value} for value in values], metadata=with_prefix(metadata))
    return file.getvalue()


def refused(name: str, kind: str, stored: bytes, wanted: list[Any]) -> int:
    """How many; the others have their values."""
    found = read_file(name, f"v {kind}", stored)
    count = len(found.reasons)
    assert found.reasons == dict.fromkeys(range(count), f"v: the value does not fit {kind.lower()}")
    assert [row["v"] for row in found.values] == wanted[count:]
    return count


@pytest.mark.parametrize(("metadata", "days", "times", "int96"), CASES)
def test_parquet(metadata: Mapping[str, str], days: int, times: int, int96: int) -> None:
    local = [moment.replace(tzinfo=None) for moment in OLD_TIMES]
    instants = pa.array(OLD_TIMES, pa.timestamp("us", "UTC"))
    assert refused("parquet", "DATE", parquet(pa.array(OLD_DAYS), metadata), OLD_DAYS) == days
    assert refused("parquet", "TIMESTAMP", parquet(instants, metadata), OLD_TIMES) == times
    old = parquet(pa.array(local), metadata, use_deprecated_int96_timestamps=True)
    assert refused("parquet", "TIMESTAMP", old, OLD_TIMES) == int96
    # Times without a zone are the same in each calendar.
    assert refused("parquet", "TIMESTAMP_NTZ", parquet(pa.array(local), metadata), local) == 0


@pytest.mark.parametrize(("metadata", "days", "times", "_"), CASES)
def test_avro(metadata: Mapping[str, str], days: int, times: int, _: int) -> None:
    assert refused("avro", "DATE", avro("int", "date", OLD_DAYS, metadata), OLD_DAYS) == days
    for logical in ("timestamp-micros", "timestamp-millis"):
        assert refused("avro", "TIMESTAMP", avro("long", logical, OLD_TIMES, metadata), OLD_TIMES) == times


def test_as_text_they_are_refused_as_well() -> None:
    metadata = {"version": V2}
    assert refused("parquet", "STRING", parquet(pa.array(OLD_DAYS), metadata), [str(day) for day in OLD_DAYS]) == 1
    assert [*read_file("parquet", "v STRING", parquet(pa.array(OLD_TIMES), metadata)).reasons] == [0, 1, 2]


def test_within_structs_and_arrays() -> None:
    stored = parquet(pa.array([{"a": [day]} for day in OLD_DAYS]), {"version": V2})
    found = read_file("parquet", "v STRUCT<a: ARRAY<DATE>>", stored)
    assert found.reasons == {0: "v: the value does not fit struct<a:array<date>>"}
    found = read_file("parquet", "v STRING", stored)
    assert found.reasons == {0: "v: the value does not fit string"}
    assert [row["v"] for row in found.values] == ['{"a":["1582-10-15"]}', '{"a":["2026-11-21"]}']


def test_files_that_are_read_together_keep_their_calendars() -> None:
    file_format = open_format("parquet", columns_of("v DATE"), Limits(), {})
    blocks = []
    for metadata in ({"version": V2}, {"version": V4}, {}):
        content = StoredContent(io.BytesIO(parquet(pa.array(OLD_DAYS), metadata)))
        blocks += file_format.blocks(content, first_record=0)
    assert [number for number, _ in file_format.parse(blocks).refused] == [0]
