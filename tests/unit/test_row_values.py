"""The checksum of a row's values: other values have another one, and how they are stored makes no difference."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.table.row_values import checksums

WHEN = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
NAN = float("nan")
KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [None, 0, 1, -1, 2**63 - 1, -(2**63)]),
    (pa.bool_(), [None, False, True]),
    (pa.float64(), [None, 0.0, 1.5, -1.5, NAN, float("inf")]),
    (pa.string(), [None, "", "a", "b", "ab"]),
    (pa.binary(), [None, b"", b"a"]),
    (pa.decimal128(5, 2), [None, Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")]),
    (pa.date32(), [None, date(1970, 1, 1), date(2026, 1, 2)]),
    (pa.timestamp("us", "UTC"), [None, WHEN, WHEN.replace(microsecond=7)]),
    (pa.list_(pa.int64()), [None, [], [None], [1], [1, 2], [2, 1]]),
    (pa.map_(pa.string(), pa.int64()), [None, [], [("k", 1)], [("k", 2)], [("l", 1)], [("k", None)]]),
    (
        pa.struct({"x": pa.int64(), "s": pa.struct({"y": pa.string()})}),
        [
            None,
            {"x": None, "s": None},
            {"x": None, "s": {"y": None}},
            {"x": 1, "s": None},
            {"x": 1, "s": {"y": "1"}},
            {"x": 2, "s": {"y": "1"}},
        ],
    ),
]


def sums(**columns: pa.Array) -> list[int]:
    found: list[int] = checksums(columns).to_pylist()
    return found


@pytest.mark.parametrize(("kind", "values"), KINDS)
def test_each_value_has_a_checksum_of_its_own(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.array(values, kind)
    assert len({*sums(v=column)}) == len(values)
    assert (
        sums(v=column) == sums(v=pa.array(values, kind)) == [sums(v=column.slice(n, 1))[0] for n in range(len(values))]
    )


@pytest.mark.parametrize(("kind", "values"), KINDS)
def test_a_column_that_is_not_there_is_null(kind: pa.DataType, values: list[Any]) -> None:
    one = pa.array([1], pa.int64())
    assert sums(one=one, v=pa.array([None], kind)) == sums(one=one)
    assert sums(one=one, v=pa.array([values[1]], kind)) != sums(one=one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([7], pa.int8()), pa.array([7], pa.int64())),
        (pa.array(["a"], pa.large_string()), pa.array(["a"], pa.string())),
        (pa.array(["a"]).dictionary_encode(), pa.array(["a"])),
        (pa.array([WHEN], pa.timestamp("ns", "UTC")), pa.array([WHEN], pa.timestamp("us", "UTC"))),
        (pa.array([[WHEN]], pa.list_(pa.timestamp("us", "+00:00"))), pa.array([[WHEN]], pa.list_(KINDS[7][0]))),
        (pa.array([{"x": 1}]), pa.array([{"x": 1, "y": None}])),
        (pa.array([[{"x": 1}]]), pa.array([[{"y": None, "x": 1}]])),
        (pa.array([NAN]), pa.array([-NAN])),
        (pa.nulls(1), pa.nulls(1, pa.string())),
    ],
)
def test_what_is_stored_otherwise_is_the_same(one: pa.Array, other: pa.Array) -> None:
    assert sums(v=one) == sums(v=other)


def test_a_value_in_another_column_or_field_is_another_row() -> None:
    one, none = pa.array([1]), pa.nulls(1, pa.int64())
    assert sums(a=one, b=none) != sums(a=none, b=one)
    assert sums(a=one, b=pa.array([2])) != sums(a=pa.array([2]), b=one)
    assert sums(s=pa.array([{"x": 1}])) != sums(s=pa.array([{"y": 1}])) != sums(x=one)


@given(st.lists(st.tuples(st.integers(-9, 9), st.text(max_size=2)), min_size=2, max_size=9))
def test_rows_have_one_checksum_if_and_only_if_they_are_equal(rows: list[tuple[int, str]]) -> None:
    found = sums(n=pa.array([n for n, _ in rows]), t=pa.array([t for _, t in rows], pa.string()))
    assert len({*found}) == len({*rows})
    assert {*zip(rows, found, strict=True)} == {*dict(zip(rows, found, strict=True)).items()}
