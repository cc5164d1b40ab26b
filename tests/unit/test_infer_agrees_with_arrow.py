"""Inference compared with that of pyarrow: the same types, but for the differences that docs/schemas.md explains."""

import io
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.ddl import Array, Column, Struct, Type
from blizzard.infer.ddl_text import type_ddl
from blizzard.infer.text import text_type
from blizzard.infer.types import STRING, TIMESTAMP, TIMESTAMP_NTZ, VOID, merge_all
from blizzard.infer.values import type_of
from spark_job.infer.arrow_types import struct_of
from tests.unit.csv_tables import Table, csv_text, file_of, inferred, tables


def by_arrow(records: list[dict[str, Any]]) -> Struct:
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    return struct_of(pj.read_json(io.BytesIO(lines)).schema)[0]


def ours(records: list[dict[str, Any]]) -> Type:
    return merge_all(map(type_of, records))


def plain(kind: Type) -> Type:
    """Nullable, in the order of names; arrow's times have no zone, and a struct without fields is none."""
    match kind:
        case Struct(columns):
            return Struct(tuple(Column(c.name, plain(c.type)) for c in sorted(columns, key=lambda c: c.name)))
        case Array(element):
            return Array(plain(element))
    return TIMESTAMP if kind == TIMESTAMP_NTZ else kind


# Values of one kind at each place: of two kinds pyarrow refuses the file.
leaves: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "fraction": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "flag": st.booleans(),
    "text": st.text(max_size=4).filter(lambda text: not text[:1].isdigit()),
    "nothing": st.none(),
    "list": st.lists(st.integers(0, 9), max_size=2),
    "object": st.fixed_dictionaries({"x": st.integers(0, 9)}, optional={"y": st.text("ab", max_size=2)}),
    "objects": st.lists(st.fixed_dictionaries({"n": st.booleans()}), max_size=2),
}
records = st.lists(
    st.fixed_dictionaries({}, optional={name: st.none() | leaf for name, leaf in leaves.items()}), min_size=1
)


@given(records)
def test_records_of_json_have_the_same_types(found: list[dict[str, Any]]) -> None:
    if any(found):
        assert plain(ours(found)) == plain(by_arrow(found))


@pytest.mark.parametrize(
    ("values", "arrow", "here"),
    [
        (["2026-11-21"], "TIMESTAMP", "DATE"),
        (["2026-11-21T10:00:00Z"], "TIMESTAMP", "TIMESTAMP"),
        (["2026-11-21T10:00:00"], "TIMESTAMP", "TIMESTAMP"),
        (["2026-11-21T10:00"], "TIMESTAMP", "STRING"),
        (["2026-11-21T10:00:00.5Z"], "STRING", "TIMESTAMP"),
        ([2**63], "DOUBLE", "DECIMAL(19,0)"),
        ([1, 1.5], "DOUBLE", "DOUBLE"),
    ],
)
def test_values_of_json_that_differ(values: list[Any], arrow: str, here: str) -> None:
    found = [{"a": value} for value in values]
    assert type_ddl(plain(by_arrow(found).columns[0].type)) == arrow
    assert type_ddl(type_of_column(ours(found))) == here


@pytest.mark.parametrize("values", [[1, "x"], [True, 1], [[1], 1], [{"x": 1}, "y"]])
def test_values_of_two_kinds_are_text_here_and_an_error_there(values: list[Any]) -> None:
    found = [{"a": value} for value in values]
    with pytest.raises(pa.ArrowInvalid):
        by_arrow(found)
    assert type_of_column(ours(found)) == STRING


def type_of_column(kind: Type) -> Type:
    assert isinstance(kind, Struct)
    return kind.columns[0].type


@pytest.mark.parametrize(
    ("values", "arrow", "here"),
    [
        (["1", "-2", ""], "BIGINT", "BIGINT"),
        (["1.5", "2", ".5", "1e3"], "DOUBLE", "DOUBLE"),
        (["true", "False"], "BOOLEAN", "BOOLEAN"),
        (["2026-11-21", ""], "DATE", "DATE"),
        (["2026-11-21 10:00:00", "2026-11-21T10:00"], "TIMESTAMP", "TIMESTAMP"),
        (["2026-11-21 10:00:00Z", "2026-11-21 10:00:00+0200"], "TIMESTAMP", "TIMESTAMP"),
        (["x", "1"], "STRING", "STRING"),
        (["2026-11-21", "2026-11-21 10:00:00"], "TIMESTAMP", "TIMESTAMP"),
        (["007"], "BIGINT", "STRING"),
        (["0x1F"], "BIGINT", "STRING"),
        (["+1"], "DOUBLE", "STRING"),
        (["00.5"], "DOUBLE", "STRING"),
        (["1e999"], "DOUBLE", "STRING"),
        (["9223372036854775808"], "DOUBLE", "DECIMAL(19,0)"),
        (["NA", "1"], "BIGINT", "STRING"),
        (["0", "1", "true"], "BOOLEAN", "STRING"),
    ],
)
def test_fields_of_csv(values: list[str], arrow: str, here: str) -> None:
    text = "a,b\n" + "".join(f"{value},\n" for value in values)
    kind = struct_of(pc.read_csv(io.BytesIO(text.encode())).schema)[0].columns[0].type
    assert type_ddl(plain(kind)) == arrow
    assert type_ddl(merge_all(VOID if not value else text_type(value) for value in values)) == here


@given(tables())
def test_tables_of_csv_have_the_same_types(table: Table) -> None:
    with file_of(csv_text(table), "a.csv") as file:
        found = struct_of(pc.read_csv(file).schema)[0]
        assert plain(inferred(file)) == plain(without_void(found))


def without_void(found: Struct) -> Struct:
    """A column without any value is STRING here."""
    return Struct(tuple(replace(c, type=STRING) if c.type == VOID else c for c in found.columns))
