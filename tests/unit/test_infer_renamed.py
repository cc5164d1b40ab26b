"""The columns that `fields` makes of the keys of records."""

import pytest

from blizzard.config import ddl
from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.renamed import Renamed, renamed

FOUND = "id BIGINT, address STRUCT<city: STRING, geo: STRUCT<x: DOUBLE>>, `a b` DATE"


def of(fields: dict[str, tuple[str, ...]], found: str = FOUND, *, ignore_case: bool = False) -> Renamed:
    return renamed(ddl.parse(found), fields, ignore_case=ignore_case)


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        ({}, "id BIGINT, address STRUCT<city: STRING, geo: STRUCT<x: DOUBLE>>, `a b` DATE"),
        ({"day": ("a b",)}, "id BIGINT, address STRUCT<city: STRING, geo: STRUCT<x: DOUBLE>>, day DATE"),
        ({"city": ("address", "city")}, "id BIGINT, address STRUCT<geo: STRUCT<x: DOUBLE>>, `a b` DATE, city STRING"),
        ({"x": ("address", "geo", "x")}, "id BIGINT, address STRUCT<city: STRING>, `a b` DATE, x DOUBLE"),
        (
            {"one": ("id",), "two": ("id",)},
            "one BIGINT, two BIGINT, address STRUCT<city: STRING, geo: STRUCT<x: DOUBLE>>, `a b` DATE",
        ),
        (
            {"id": ("address",), "address": ("id",)},
            "address BIGINT, id STRUCT<city: STRING, geo: STRUCT<x: DOUBLE>>, `a b` DATE",
        ),
        (
            {"c": ("address", "city"), "g": ("address", "geo")},
            "id BIGINT, `a b` DATE, c STRING, g STRUCT<x: DOUBLE>",
        ),
    ],
)
def test_a_column_takes_the_place_and_the_type_of_its_key(fields: dict[str, tuple[str, ...]], columns: str) -> None:
    found = of(fields)
    assert ddl_of(found.schema.columns) == columns
    assert (found.missing, found.replaced) == ([], [])


def test_a_key_with_the_name_of_a_column_that_is_read_elsewhere_is_none() -> None:
    found = of({"id": ("a b",)})
    assert [column.name for column in found.schema.columns] == ["address", "id"]
    assert found.replaced == ["id"]


@pytest.mark.parametrize("keys", [("c",), ("address", "town"), ("id", "x"), ("Id",)])
def test_a_key_that_no_record_has_is_missing(keys: tuple[str, ...]) -> None:
    assert of({"new": keys}).missing == ["new"]


def test_keys_that_differ_in_case_only_are_one_if_case_does_not_matter() -> None:
    found = "Id INT, tags ARRAY<STRUCT<A: INT, a: DOUBLE>>, ID BIGINT, m MAP<STRING, STRUCT<b: INT, B: STRING>>"
    folded = "Id BIGINT, tags ARRAY<STRUCT<A: DOUBLE>>, m MAP<STRING, STRUCT<b: STRING>>"
    assert ddl_of(of({}, found, ignore_case=True).schema.columns) == folded
    assert ddl_of(of({}, found).schema.columns) == ddl_of(ddl.parse(found).columns)
    assert ddl_of(of({"key": ("id",)}, found, ignore_case=True).schema.columns).startswith("key BIGINT, tags")
