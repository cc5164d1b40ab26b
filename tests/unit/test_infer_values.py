"""The type of a single value: of JSON, of typed records, and of text."""

from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import Any

import pytest

from blizzard.config.ddl import MAX_DEPTH, Array, Column
from blizzard.infer.ddl_text import ddl_of, type_ddl
from blizzard.infer.text import ISO, TextForms, names_codes, text_type
from blizzard.infer.values import type_of

EUROPEAN = TextForms(",", "%d.%m.%Y", "%d.%m.%Y %H:%M")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "VOID"),
        (True, "BOOLEAN"),
        (0, "BIGINT"),
        (2**63 - 1, "BIGINT"),
        (-(2**63), "BIGINT"),
        (2**63, "DECIMAL(19,0)"),
        (10**38 - 1, "DECIMAL(38,0)"),
        (10**38, "DOUBLE"),
        pytest.param(10**6000, "DOUBLE", id="6,000 digits"),
        (1.0, "DOUBLE"),
        (float("nan"), "DOUBLE"),
        (Number("1.50"), "DECIMAL(3,2)"),
        (Number("0.05"), "DECIMAL(2,2)"),
        (Number("0"), "DECIMAL(1,0)"),
        (Number("1E+3"), "DECIMAL(4,0)"),
        (Number("1E+40"), "DOUBLE"),
        (Number("NaN"), "DOUBLE"),
        (b"x", "BINARY"),
        (date(2026, 11, 21), "DATE"),
        (datetime(2026, 11, 21, tzinfo=UTC), "TIMESTAMP"),
        (datetime(2026, 11, 21), "TIMESTAMP_NTZ"),  # noqa: DTZ001
        ([], "ARRAY<VOID>"),
        ([1, 2.5], "ARRAY<DOUBLE>"),
        ([1, "x", None], "ARRAY<STRING>"),
        ([{"a": 1}, {"b": [True]}], "ARRAY<STRUCT<a: BIGINT, b: ARRAY<BOOLEAN>>>"),
        ({}, "STRUCT<>"),
        ({"a b": {"c`d": None}}, "STRUCT<`a b`: STRUCT<`c``d`: VOID> NOT NULL>"),
    ],
)
def test_a_value_has_the_type_that_spark_infers_or_a_better_one(value: Any, found: str) -> None:
    assert type_ddl(type_of(value)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-11-21", "DATE"),
        ("2026-02-30", "STRING"),
        ("2026-1-2", "STRING"),
        ("2026-11", "STRING"),
        ("20261121", "STRING"),
        ("2026-11-21T10:00:00Z", "TIMESTAMP"),
        ("2026-11-21 10:00:00", "TIMESTAMP"),
        ("2026-11-21T10:00:00.123456789+02:00", "TIMESTAMP"),
        ("2026-11-21T10:00:00+0200", "STRING"),
        ("2026-11-21T10:00Z", "STRING"),
        ("2026-11-21T24:00:00Z", "STRING"),
        ("2026-11-21T10:00:60Z", "STRING"),
        ("2026-11-21T10:00:00+18:30", "STRING"),
        ("0001-01-01T00:00:00+05:00", "STRING"),
        ("9999-12-31T23:59:59-05:00", "STRING"),
        ("0000-01-01", "STRING"),
        ("10:00:00", "STRING"),
        ("17", "STRING"),
        ("true", "STRING"),
        ("", "STRING"),
    ],
)
def test_text_in_json_is_a_time_only_in_the_form_that_is_read_as_one(text: str, found: str) -> None:
    assert type_ddl(type_of(text)) == found


def test_what_is_nested_deeper_than_a_schema_may_be_is_text() -> None:
    value: Any = {"x": 1}
    for _ in range(2 * MAX_DEPTH):
        value = {"x": value}
    found = type_ddl(type_of(value))
    assert found.count("STRUCT<") == MAX_DEPTH + 1  # the record itself, and as many levels as its columns may have
    assert "STRING" in found


def test_a_value_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="found a value of object, expected one that JSON, Avro or Parquet can hold"):
        type_of(object())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, "VOID"),
        ("", "STRING"),
        ("true", "BOOLEAN"),
        ("FALSE", "BOOLEAN"),
        ("yes", "STRING"),
        ("0", "BIGINT"),
        ("-17", "BIGINT"),
        ("007", "STRING"),
        ("-007", "STRING"),
        ("+49301234", "STRING"),
        ("9223372036854775807", "BIGINT"),
        ("9223372036854775808", "DECIMAL(19,0)"),
        ("1" * 39, "STRING"),
        (" 5", "STRING"),
        ("1.5", "DOUBLE"),
        (".5", "DOUBLE"),
        ("00.5", "STRING"),
        ("1e3", "DOUBLE"),
        ("1e999", "STRING"),
        ("NaN", "DOUBLE"),
        ("nan", "STRING"),
        ("1,5", "STRING"),
        ("0x1F", "STRING"),
        ("1_000", "STRING"),
        ("٣", "STRING"),
        ("10.0.0.1", "STRING"),
        ("2026-11-21", "DATE"),
        ("2026-11-31", "STRING"),
        ("2026", "BIGINT"),
        ("2026-11-21 10:00", "TIMESTAMP"),
        ("2026-11-21 10:00:00.5 +0200", "TIMESTAMP"),
        ("2026-11-21T10:00Z", "TIMESTAMP"),
        ("2026-11-21 24:00", "STRING"),
        ("21.11.2026", "STRING"),
    ],
)
def test_text_of_a_field_has_the_type_that_gives_it_back(text: str | None, found: str) -> None:
    assert type_ddl(text_type(text, ISO)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1,5", "DOUBLE"),
        ("1.5", "STRING"),
        ("1.234,56", "STRING"),
        ("17", "BIGINT"),
        ("21.11.2026", "DATE"),
        ("2026-11-21", "STRING"),
        ("21.11.2026 10:30", "TIMESTAMP"),
        ("31.02.2026", "STRING"),
    ],
)
def test_text_is_read_in_the_forms_of_its_files(text: str, found: str) -> None:
    assert type_ddl(text_type(text, EUROPEAN)) == found


@pytest.mark.parametrize("name", ["zip", "ZipCode", "postal_code", "billing.phone", "Phone Number", "plz", "cardNo"])
def test_a_column_of_codes_is_known_by_its_name(name: str) -> None:
    assert names_codes(name)


@pytest.mark.parametrize("name", ["id", "zipped", "telemetry", "posts", "capacity", "postage", "amount", "phonetic"])
def test_other_columns_are_none_of_codes(name: str) -> None:
    assert not names_codes(name)


def test_not_null_is_left_out_of_a_proposal() -> None:
    record = Column("a", type_of({"b": 1}), nullable=False)
    assert ddl_of([record, Column("c", Array(type_of(1)))]) == "a STRUCT<b: BIGINT NOT NULL> NOT NULL, c ARRAY<BIGINT>"
    assert ddl_of([record], with_not_null=False) == "a STRUCT<b: BIGINT>"
