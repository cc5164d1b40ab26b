"""The plain reading that everything else is compared with: what docs/formats.md says of values."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.proof.bad_input.records import SCHEMA, Fate, record_of

MOMENT = datetime(2024, 1, 28, 14, tzinfo=UTC)


def row(**values: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SCHEMA.names), "id": "a", **values}


@pytest.mark.parametrize(
    ("column", "value", "becomes"),
    [
        ("n", "-9223372036854775808", -(2**63)),
        ("n", "null", None),
        ("kind", '"\\u00e9"', "é"),
        ("amount", "0.125", Decimal("0.125")),
        ("amount", "1.00000000005", Decimal("1.0000000001")),
        ("amount", '"12.50"', Decimal("12.5")),
        ("ratio", "1e3", 1000.0),
        ("flag", "true", True),
        ("day", '"2024-01-28"', date(2024, 1, 28)),
        ("at", '"2024-01-28T16:00:00.000000999+02:00"', MOMENT),
        ("at", "1706450400", MOMENT),
        ("tags", '["a", null]', ["a", None]),
        ("attributes", '{"a": "b", "c": null}', [("a", "b"), ("c", None)]),
        ("place", '{"x": 7, "y": 8}', {"name": None, "x": 7}),
    ],
)
def test_a_value_that_fits_is_unchanged_in_its_row(column: str, value: str, becomes: Any) -> None:
    record = record_of(f'{{"id": "a", "{column}": {value}}}'.encode())
    assert record.fate is Fate.ROW
    assert record.differs(row(**{column: becomes})) == ""
    assert record.differs(row(**{column: becomes}) | {"id": "b"}) != ""
    if becomes is not None:
        assert f"{column} is null in its row" in record.differs(row())


@pytest.mark.parametrize(
    ("column", "value", "becomes", "never"),
    [
        ("id", "17", "17", "18"),
        ("kind", '{"a": [1, 2.50]}', '{"a":[1,2.5]}', '{"a":[1]}'),
        ("kind", "NaN", '"NaN"', "0"),
        ("kind", '""', None, "a"),
        ("amount", '"1,5"', Decimal(15), Decimal("1.5")),
        ("ratio", "NaN", math.nan, 0.0),
        ("ratio", "1e400", math.inf, 1.0),
        ("ratio", '"-Infinity"', -math.inf, math.inf),
        ("day", '"2024-01"', date(2024, 1, 1), date(2024, 1, 2)),
        ("at", '"2024-1-28 14:00"', MOMENT, MOMENT.replace(hour=15)),
        ("at", '"2024-01-28 14:00:00 UTC"', MOMENT, None),
        ("at", '"\\u0000\\t2024-01-28T14:00:00Z"', MOMENT, None),
        ("tags", "[7, true]", ["7", "true"], ["7", None]),
        ("place", '{"x": 1, "x": 7}', {"name": None, "x": 7}, {"name": None, "x": 1}),
    ],
)
def test_a_value_that_an_engine_may_convert_must_have_the_converted_value(
    column: str, value: str, becomes: Any, never: Any
) -> None:
    record = record_of(f'{{"id": "a", "{column}": {value}}}'.encode())
    assert record.fate is not Fate.DEAD
    assert record.differs(row(**{column: becomes})) == ""
    assert record.differs(row(**{column: never})) != ""


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        '{"id": "\\ud800"}',
        "{}",
        '{"id": "a", "id": null}',
        *(
            f'{{"id": "a", "{column}": {value}}}'
            for column, value in (
                ("n", "1.0"),
                ("n", "9223372036854775808"),
                ("n", '"1"'),
                ("n", "true"),
                ("n", "NaN"),
                ("amount", "1e28"),
                ("amount", "true"),
                ("amount", "NaN"),
                ("ratio", '"1.5"'),
                ("flag", "1"),
                ("day", '"2024-02-30"'),
                ("day", "19750"),
                ("at", '"2024-01-28T25:00:00Z"'),
                ("at", '"12:30"'),
                ("at", "18446744073710"),
                ("at", "1.5"),
                ("tags", "{}"),
                ("attributes", "[]"),
                ("place", '{"x": "7"}'),
            )
        ),
        '{"id": "a", "n": "x", "n": 1}',
        '{"id": "a", "other": ' + "[" * 5_000 + "]" * 5_000 + "}",
    ],
    ids=lambda line: line[:60],
)
def test_a_value_that_does_not_fit_is_not_a_row(line: str) -> None:
    record = record_of(line.encode())
    assert record.fate is Fate.DEAD
    assert record.differs(row()) != ""
