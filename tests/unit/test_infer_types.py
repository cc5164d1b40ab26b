"""The narrowest type that holds the values of two: what it is, and that the order of values does not matter."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config import ddl
from blizzard.config.ddl import Atomic, Column, Struct, Type
from blizzard.infer.ddl_text import type_ddl
from blizzard.infer.types import VOID, merge, merge_all
from blizzard.infer.values import type_of
from tests.unit.inferred import holds, in_name_order, typed_values, types


def of(text: str) -> Type:
    return VOID if text == "VOID" else ddl.parse(f"x {text}").columns[0].type


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("VOID", "INT", "INT"),
        ("TINYINT", "INT", "INT"),
        ("INT", "BIGINT", "BIGINT"),
        ("BIGINT", "DOUBLE", "DOUBLE"),
        ("SMALLINT", "FLOAT", "FLOAT"),
        ("INT", "FLOAT", "DOUBLE"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("BIGINT", "DECIMAL(10,2)", "DECIMAL(22,2)"),
        ("INT", "DECIMAL(20,0)", "DECIMAL(20,0)"),
        ("DECIMAL(10,2)", "DECIMAL(8,4)", "DECIMAL(12,4)"),
        ("DECIMAL(38,0)", "DECIMAL(38,38)", "DOUBLE"),
        ("DECIMAL(10,2)", "DOUBLE", "DOUBLE"),
        ("DATE", "TIMESTAMP", "TIMESTAMP"),
        ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
        ("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP"),
        ("BOOLEAN", "BIGINT", "STRING"),
        ("DATE", "BIGINT", "STRING"),
        ("BINARY", "STRING", "STRING"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
        ("ARRAY<INT>", "INT", "STRING"),
        ("ARRAY<INT>", "STRUCT<a: INT>", "STRING"),
        ("MAP<STRING, INT>", "MAP<STRING, DOUBLE>", "MAP<STRING, DOUBLE>"),
        ("STRUCT<a: INT>", "STRUCT<b: STRING, a: DOUBLE>", "STRUCT<a: DOUBLE, b: STRING>"),
        ("STRUCT<a: INT NOT NULL>", "STRUCT<a: INT NOT NULL>", "STRUCT<a: INT NOT NULL>"),
        ("STRUCT<a: INT NOT NULL>", "STRUCT<a: BIGINT>", "STRUCT<a: BIGINT>"),
        ("STRUCT<a: INT NOT NULL>", "STRUCT<b: INT NOT NULL>", "STRUCT<a: INT, b: INT>"),
    ],
)
def test_two_types_become_the_narrowest_that_holds_both(one: str, other: str, both: str) -> None:
    assert type_ddl(merge(of(one), of(other))) == both
    assert in_name_order(merge(of(other), of(one))) == in_name_order(of(both))


def test_columns_stay_in_the_order_of_their_first_appearance() -> None:
    records = [{"z": 1, "a": 2}, {"m": 3, "a": 4}]
    merged = merge_all(map(type_of, records))
    assert isinstance(merged, Struct)
    assert [column.name for column in merged.columns] == ["z", "a", "m"]


def test_a_column_is_nullable_once_a_record_has_null_or_lacks_it() -> None:
    merged = merge_all(map(type_of, [{"a": 1, "b": 1, "c": 1}, {"a": 2, "b": None}]))
    assert merged == Struct(
        (Column("a", Atomic("bigint"), nullable=False), Column("b", Atomic("bigint")), Column("c", Atomic("bigint")))
    )


@given(types, types)
def test_the_order_of_two_does_not_matter(one: Type, other: Type) -> None:
    assert in_name_order(merge(one, other)) == in_name_order(merge(other, one))


@given(types, types, types)
def test_how_three_are_grouped_does_not_matter(one: Type, two: Type, three: Type) -> None:
    left, right = merge(merge(one, two), three), merge(one, merge(two, three))
    assert in_name_order(left) == in_name_order(right)


@given(types, types)
def test_what_was_merged_changes_nothing_any_more(one: Type, other: Type) -> None:
    both = merge(one, other)
    assert merge(one, one) == one
    assert in_name_order(merge(both, one)) == in_name_order(both)
    assert in_name_order(merge(both, other)) == in_name_order(both)


@given(st.lists(typed_values, min_size=1, max_size=5))
def test_a_merged_type_holds_each_of_its_values(values: list[Any]) -> None:
    merged = merge_all(map(type_of, values))
    assert [value for value in values if value is not None and not holds(merged, value)] == []
