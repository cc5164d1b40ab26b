"""What differs between two schemas of the log."""

import json

import pytest

from blizzard.state.schema_diff import Difference, differences
from spark_job.table.schema import columns_of


def schema(ddl: str) -> str:
    """As the log has it."""
    return str(columns_of(ddl).json())


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a INT", "a INT, b STRING", ["b: None -> string"]),
        ("a INT, b STRING", "a INT", ["b: string -> None"]),
        ("a INT", "a BIGINT", ["a: int -> bigint"]),
        ("a TINYINT, b SMALLINT", "a SMALLINT, b INT", ["a: tinyint -> smallint", "b: smallint -> int"]),
        ("a INT", "b INT", ["b: None -> int", "a: int -> None"]),
        ("a INT NOT NULL", "a INT", ["a: int NOT NULL -> int"]),
        ("a INT, b INT", "b INT, a INT", []),
        ("s STRUCT<x: INT>", "s STRUCT<x: INT, `y z`: DATE>", ["s.y z: None -> date"]),
        ("x STRUCT<y: INT>, `x.y` INT", "x STRUCT<y: INT>, `x.y` BIGINT", ["`x.y`: int -> bigint"]),
        ("l ARRAY<STRUCT<x: INT>>", "l ARRAY<STRUCT<x: INT, y: INT>>", ["l[].y: None -> int"]),
        ("m MAP<STRING, STRUCT<x: INT>>", "m MAP<STRING, STRUCT<x: BIGINT>>", ["m{}.x: int -> bigint"]),
        ("m MAP<INT, INT>", "m MAP<BIGINT, INT>", ["m: map<int,int> -> map<bigint,int>"]),
        ("a DECIMAL(5,2)", "a STRUCT<`b.c`: INT>", ["a: decimal(5,2) -> struct<`b.c`:int>"]),
    ],
)
def test_each_field_that_differs_is_told_where_it_is(before: str, after: str, expected: list[str]) -> None:
    found = differences(schema(before), schema(after))
    assert [f"{one.path}: {one.was} -> {one.type}" for one in found] == expected


def test_all_columns_of_the_first_schema_are_new() -> None:
    assert [one.path for one in differences(None, schema("a INT, s STRUCT<x: INT>"))] == ["a", "s"]


def test_notes_of_a_column_are_no_difference() -> None:
    noted = json.loads(schema("a INT"))
    noted["fields"][0]["metadata"] = {"comment": "of the producer", "delta.typeChanges": []}
    assert differences(schema("a INT"), json.dumps(noted)) == []


def numbered(ddl: str, *ids: int) -> str:
    """As of a table with column mapping."""
    found = json.loads(schema(ddl))
    for field, number in zip(found["fields"], ids, strict=True):
        field["metadata"] = {"delta.columnMapping.id": number}
    return json.dumps(found)


def test_a_field_that_is_renamed_is_the_same_one() -> None:
    before, after = numbered("a INT, b INT, c INT", 1, 2, 3), numbered("a INT, `x y` BIGINT, c STRING", 1, 2, 4)
    renamed = Difference("x y", "bigint", "int", "b")
    assert differences(before, after) == [renamed, Difference("c", "string", "int")]
    swapped = differences(numbered("a INT, b INT", 1, 2), numbered("b INT, c INT", 3, 2))
    assert {str(one.path): one.renamed_from for one in swapped} == {"c": None, "a": None}
    assert [one.path for one in differences(schema("a INT"), numbered("b INT", 1))] == ["b", "a"]
