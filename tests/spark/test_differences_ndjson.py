"""NDJSON that Spark and we read differently: docs/format-ndjson.md has the rows, by whose names the cases go."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.spark.format_comparison import REFUSED, Comparison, same

pytestmark = pytest.mark.spark

TODAY = "the time on the day on which it is read"
CASES: Mapping[str, list[tuple[str, str, Any, Any]]] = {
    "a value that does not fit its column": [("INT", '{"v": "5"}', REFUSED, REFUSED)],
    "null in a NOT NULL column, also inside structs, arrays and maps": [
        ("INT NOT NULL", "{}", None, REFUSED),
        ("STRUCT<x: INT NOT NULL>", '{"v": {}}', {"x": None}, REFUSED),
        ("ARRAY<STRUCT<x: INT NOT NULL>>", '{"v": [{"x": null}]}', [{"x": None}], REFUSED),
        ("MAP<STRING, STRUCT<x: INT NOT NULL>>", '{"v": {"a": {}}}', {"a": {"x": None}}, REFUSED),
    ],
    "what follows the first object of a line": [
        ("INT", '{"v": 1} {"v": 2}', 1, REFUSED),
        ("INT", '{"v": 1} x', 1, REFUSED),
    ],
    "half of a surrogate pair": [("STRING", '{"v": "\\ud83d"}', "?", REFUSED)],
    "bare `+INF`, `-INF`, `+Infinity`": [
        ("DOUBLE", '{"v": +INF}', float("inf"), REFUSED),
        ("FLOAT", '{"v": -INF}', float("-inf"), REFUSED),
        ("DOUBLE", '{"v": +Infinity}', float("inf"), REFUSED),
        ("DOUBLE", '{"v": "+INF"}', float("inf"), float("inf")),
    ],
    "`TINYINT`: `200`": [("TINYINT", '{"v": 200}', -56, REFUSED)],
    '`DATE`, `TIMESTAMP`, `TIMESTAMP_NTZ` outside the years 1 to 9999: `"19750"`': [
        ("DATE", '{"v": "19750"}', 6_494_012, REFUSED),
        ("TIMESTAMP", '{"v": "19750-01-01T00:00:00Z"}', 561_082_636_800_000_000, REFUSED),
        ("TIMESTAMP_NTZ", '{"v": "19750-01-01T00:00:00"}', 561_082_636_800_000_000, REFUSED),
    ],
    '`DATE`: `"20240128"`, `"197"`': [
        ("DATE", '{"v": "20240128"}', 20_240_128, REFUSED),
        ("DATE", '{"v": "197"}', date(1970, 7, 17), REFUSED),
    ],
    "`TIMESTAMP`: seconds whose microseconds overflow 64 bits": [
        ("TIMESTAMP", '{"v": 18446744073710}', datetime(1970, 1, 1, 0, 0, 0, 448_384, UTC), REFUSED)
    ],
    '`TIMESTAMP`: a time without a date, `"12:30"`': [("TIMESTAMP", '{"v": "12:30"}', TODAY, REFUSED)],
    "`DECIMAL`: an exponent of five digits or more, `1e-12345`": [
        ("DECIMAL(5,2)", '{"v": 1e-12345}', Decimal("0.00"), REFUSED)
    ],
}
"""By the name of the row: the column's type, a line, Spark's value and ours."""


@pytest.mark.parametrize("name", CASES)
def test_lines(comparison: Comparison, name: str) -> None:
    for data_type, line, sparks, ours in CASES[name]:
        ddl = f"id INT, v {data_type}"
        [found] = comparison.spark("json", ddl, line.encode())
        assert isinstance(found, dict)
        value = TODAY if sparks is TODAY and isinstance(found["v"], datetime) else found["v"]
        assert same(value, sparks), line
        [by_us] = comparison.ours("ndjson", ddl, line.encode())
        assert same(by_us["v"] if isinstance(by_us, dict) else by_us, ours), line


def test_levels(comparison: Comparison) -> None:
    """nearly 1,000 levels of nesting, in a record that needs Spark's parser for a number or string"""
    line = f'{{"v": 1e3, "note": "1e-12345", "deep": {"[" * 990}{"]" * 990}}}'.encode()
    assert comparison.spark("json", "v DECIMAL(8,2)", line) == [{"v": Decimal("1000.00")}]
    [ours] = comparison.ours("ndjson", "v DECIMAL(8,2)", line)
    assert ours in ({"v": Decimal("1000.00")}, REFUSED)
