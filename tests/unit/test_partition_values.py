"""Partition values in Delta's log and in the names of folders."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_job.write.partition_values import partition_folders
from tests.unit.parquet_rows import LAYOUT, memory, writer_into


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.string(), "a b/c:%=", "a b/c:%="),
        (pa.string(), "", None),
        (pa.string(), None, None),
        (pa.int8(), -5, "-5"),
        (pa.int64(), (1 << 63) - 1, "9223372036854775807"),
        (pa.bool_(), True, "true"),
        (pa.bool_(), False, "false"),
        (pa.date32(), date(1, 1, 1), "0001-01-01"),
        (pa.date32(), 2932897, "+10000-01-01"),
        (pa.date32(), -719530, "-0001-12-30"),
        (pa.decimal128(30, 4), Decimal("-0.0001"), "-0.0001"),
        (pa.decimal128(30, 4), Decimal("12345678901234567890.1000"), "12345678901234567890.1000"),
        (pa.timestamp("us", "UTC"), 1704067200000000, "2024-01-01T00:00:00.000000Z"),
        (pa.timestamp("us", "UTC"), -1, "1969-12-31T23:59:59.999999Z"),
        (pa.timestamp("us", "UTC"), 253402300800000000, "+10000-01-01T00:00:00.000000Z"),
        (pa.timestamp("us"), 1704067200000000, "2024-01-01 00:00:00"),
        (pa.timestamp("us"), -1, "1969-12-31 23:59:59.999999"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), float("nan"), "NaN"),
        (pa.float64(), float("-inf"), "-Infinity"),
    ],
)
@pytest.mark.parametrize("company", [False, True], ids=["alone", "among others"])
def test_partition_values_are_written_as_delta_writes_them(
    kind: pa.DataType, value: object, text: str | None, company: bool
) -> None:
    column = pa.array([value, None] if company else [value], kind)
    table = pa.table({"p": column, "n": range(len(column))})
    store = memory()
    writer = writer_into(store, replace(LAYOUT, partition_by=("p",)), table.schema)
    writer.write(table)
    assert {file.partition_values["p"] for file in writer.close()} == ({text, None} if company else {text})


def test_zero_and_minus_zero_are_two_partitions() -> None:
    table = pa.table({"p": [0.0, -0.0, 0.0], "n": [1, 2, 3]})
    writer = writer_into(memory(), replace(LAYOUT, partition_by=("p",)), table.schema)
    writer.write(table)
    assert {file.partition_values["p"]: file.rows for file in writer.close()} == {"0.0": 2, "-0.0": 1}


def test_partition_folders_are_escaped_as_spark_escapes_them() -> None:
    assert partition_folders({"p": "a b/c:%=", "q": None}) == "p=a b%2Fc%3A%25%3D/q=__HIVE_DEFAULT_PARTITION__/"
    assert partition_folders({"p": "\x01\x7f\"#'*?\\{[]^}é🎉"}) == "p=%01%7F%22%23%27%2A%3F%5C%7B%5B%5D%5E}é🎉/"


def test_a_value_too_long_for_a_folder_name_is_cut_and_stays_unique() -> None:
    found = {partition_folders({"p": "é" * 300 + ending}) for ending in "abc"}
    assert len(found) == 3
    assert all(len(folder.encode()) < 210 for folder in found)


def test_a_column_of_a_type_that_cannot_be_a_partition_is_refused() -> None:
    table = pa.table({"p": [b"x"], "n": [1]})
    writer = writer_into(memory(), replace(LAYOUT, partition_by=("p",)), table.schema)
    with pytest.raises(TypeError, match="expected simple values"):
        writer.write(table)
