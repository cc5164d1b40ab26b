"""A row that is read again, without what the table had no place for when it was written."""

from typing import Any

import pytest

from blizzard.audit.later_fields import without_later
from blizzard.audit.stored_rows import StoredRow


@pytest.mark.parametrize(
    ("value", "later", "expected"),
    [
        (5, {"a"}, None),
        (5, {"a.b", "b"}, 5),
        ({"x": 1, "y": {"z": 2}}, {"a.y"}, {"x": 1, "y": None}),
        ({"x": 1, "y": {"z": 2}}, {"a.y.z"}, {"x": 1, "y": {"z": None}}),
        ([{"x": 1, "y": 2}, None], {"a[].y"}, [{"x": 1, "y": None}, None]),
        ([("k", {"x": 1, "y": 2})], {"a{}.y"}, [("k", {"x": 1, "y": None})]),
        ([("k", [{"y": 2}])], {"a{}[].y"}, [("k", [{"y": None}])]),
        ({"b.c": 1}, {"a.`b.c`"}, {"b.c": None}),
        ({"b.c": 1}, {"a.b.c"}, {"b.c": 1}),
        (None, {"a.b"}, None),
    ],
)
def test_what_a_value_was_then(value: Any, later: set[str], expected: Any) -> None:
    again, stored = without_later(StoredRow({"a": value}, 1), StoredRow({"a": "stored"}, 2), later)
    assert (again, stored) == (StoredRow({"a": expected}, 1), StoredRow({"a": "stored"}, 2))


@pytest.mark.parametrize(
    ("now", "then", "later", "is_same"),
    [
        (None, '{"a.b":1}', {"a.b"}, True),
        (None, '{"a[7].b":1,"a[8].b":2,"c{k}.d":3,"c{`}`}.d":4}', {"a[].b", "c{}.d"}, True),
        (None, '{"a.b":1}', {"a"}, False),
        (None, '{"a.b":1,"c":2}', {"a.b"}, False),
        ('{"c":2}', '{"a.b":1,"c":2}', {"a.b"}, True),
        ('{"c":2}', '{"a.b":1,"c":3}', {"a.b", "c"}, False),
        ('{"c":2}', None, {"c"}, False),
        ('{"c":2}', "no JSON", {"c"}, False),
        ("[1]", "[2]", {"c"}, False),
    ],
)
def test_what_was_kept_beside_the_columns_then(
    now: str | None, then: str | None, later: set[str], is_same: bool
) -> None:
    again, stored = without_later(StoredRow({"_rescued": now}, 1), StoredRow({"_rescued": then}, 1), later)
    assert ((again.values["_rescued"] or {}) == (stored.values["_rescued"] or {})) == is_same


def test_without_that_column_there_is_none() -> None:
    again, stored = without_later(StoredRow({"a": 1}, 1), StoredRow({"a": 1}, 1), {"b"})
    assert (again.values, stored.values) == ({"a": 1}, {"a": 1})
