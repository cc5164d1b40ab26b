"""Inference compared with DuckDB's: the same types, but for the differences that docs/schemas.md explains."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pytest
from hypothesis import given

from blizzard.config.ddl import Array, Decimal, Struct, Type
from blizzard.infer.ddl_text import type_ddl
from blizzard.infer.text import text_type
from blizzard.infer.types import BIGINT, DATE, STRING, TIMESTAMP, VOID, merge_all
from spark_job.infer.arrow_types import struct_of
from tests.unit.csv_tables import Table, csv_text, file_of, inferred, tables
from tests.unit.test_infer_agrees_with_arrow import ours, plain, records, type_of_column

JSON_OPTIONS = (
    "format = 'newline_delimited', sample_size = -1, map_inference_threshold = -1, field_appearance_threshold = 0"
)
"""All records count, and an object is a struct, however rare its fields are."""
HUGEINT = Decimal(38, 0)


def types_of(query: str) -> Struct:
    with duckdb.connect() as connection:
        return struct_of(connection.sql(f"{query} LIMIT 0").to_arrow_table().schema)[0]


def of_json(found: Sequence[dict[str, Any]]) -> Struct:
    with file_of("".join(json.dumps(record) + "\n" for record in found), "a.ndjson") as file:
        return types_of(f"SELECT * FROM read_json('{file}', {JSON_OPTIONS})")


def of_csv(values: Sequence[str]) -> str:
    with file_of("", "a.csv") as file:
        with file.open("w", newline="") as out:
            csv.writer(out).writerows([["a", "b"], *([value, ""] for value in values)])
        found = types_of(f"SELECT a FROM read_csv('{file}', header = true, delim = ',')")
        return type_ddl(plain(found.columns[0].type))


def as_here(kind: Type) -> Type:
    """Of whole numbers of both signs DuckDB says HUGEINT, although 64 bits hold them all."""
    match kind:
        case Struct(columns):
            return Struct(tuple(replace(column, type=as_here(column.type)) for column in columns))
        case Array(element):
            return Array(as_here(element))
    return BIGINT if kind == HUGEINT else kind


def as_there(kind: Type) -> Type:
    """Of arrays without any element DuckDB says JSON, which is text."""
    match kind:
        case Struct(columns):
            return Struct(tuple(replace(column, type=as_there(column.type)) for column in columns))
        case Array(element):
            return Array(STRING if element == VOID else as_there(element))
    return kind


@given(records)
def test_records_of_json_have_the_same_types(found: list[dict[str, Any]]) -> None:
    if any(found):
        assert as_there(plain(ours(found))) == as_here(plain(of_json(found)))


@pytest.mark.parametrize(
    ("values", "there", "here"),
    [
        (["2026-11-21"], "DATE", "DATE"),
        (["2026-11-21T10:00:00Z"], "TIMESTAMP", "TIMESTAMP"),
        (["2026-11-21T10:00:00.5Z"], "TIMESTAMP", "TIMESTAMP"),
        (["2026-11-21T10:00"], "STRING", "STRING"),
        ([1, 1.5], "DOUBLE", "DOUBLE"),
        ([0, -1], "DECIMAL(38,0)", "BIGINT"),
        ([1, "x"], "STRING", "STRING"),
        ([True, 1], "STRING", "STRING"),
        ([[1], 1], "STRING", "STRING"),
        ([{"x": 1}, "y"], "STRING", "STRING"),
        (["550e8400-e29b-41d4-a716-446655440000"], "STRING", "STRING"),
        ([2**63], "DECIMAL(38,0)", "DECIMAL(19,0)"),
        ([2**64], "DOUBLE", "DECIMAL(20,0)"),
    ],
)
def test_values_of_json(values: list[Any], there: str, here: str) -> None:
    found = [{"a": value} for value in values]
    assert type_ddl(plain(of_json(found).columns[0].type)) == there
    assert type_ddl(type_of_column(ours(found))) == here


@pytest.mark.parametrize(
    ("values", "there", "here"),
    [
        (["1", "-2", ""], "BIGINT", "BIGINT"),
        (["1.5", "2", ".5", "1e3"], "DOUBLE", "DOUBLE"),
        (["true", "False"], "BOOLEAN", "BOOLEAN"),
        (["2026-11-21", ""], "DATE", "DATE"),
        (["2026-11-21 10:00:00", "2026-11-21T10:00"], "TIMESTAMP", "TIMESTAMP"),
        (["2026-11-21 10:00:00Z"], "TIMESTAMP", "TIMESTAMP"),
        (["x", "1"], "STRING", "STRING"),
        (["007"], "STRING", "STRING"),
        (["+1"], "STRING", "STRING"),
        (["00.5"], "STRING", "STRING"),
        (["NA", "1"], "STRING", "STRING"),
        (["0", "1", "true"], "STRING", "STRING"),
        (["2026-11-21", "2026-11-21 10:00:00"], "STRING", "TIMESTAMP"),
        (["2026-11-21 10:00:00", "2026-11-21"], "TIMESTAMP", "TIMESTAMP"),
        (["0x1F"], "BIGINT", "STRING"),
        (["1e999"], "DOUBLE", "STRING"),
        (["9223372036854775808"], "DECIMAL(38,0)", "DECIMAL(19,0)"),
        (["21.11.2026"], "DATE", "STRING"),
    ],
)
def test_fields_of_csv(values: list[str], there: str, here: str) -> None:
    assert of_csv(values) == there
    assert type_ddl(merge_all(VOID if not value else text_type(value) for value in values)) == here


@given(tables())
def test_tables_of_csv_have_the_same_types(table: Table) -> None:
    """But for dates and times of which a date comes first, which are text there."""
    with file_of(csv_text(table), "a.csv") as file:
        there = types_of(f"SELECT * FROM read_csv('{file}', header = true, delim = ',', sample_size = -1)")
        here = plain(inferred(file))
        kinds = {name: [*map(text_type, filter(None, values))] for name, values in table.items()}
        mixed = {name for name, found in kinds.items() if {*found} == {DATE, TIMESTAMP} and found[0] == DATE}
        assert isinstance(here, Struct)
        as_text = Struct(tuple(replace(c, type=STRING) if c.name in mixed else c for c in here.columns))
        assert as_text == plain(there)
