"""Statistics of a data file: never narrower than its rows, and as narrow as Delta's own where that is certain."""

import json
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_job.write.statistics import FileStatistics

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


def statistics(table: pa.Table, *columns: str, chars: int = 32, group_rows: int = 3) -> dict[str, Any]:
    found = FileStatistics(table.schema, columns or table.schema.names, chars)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False, store_decimal_as_integer=True) as writer:
        for start in range(0, table.num_rows, group_rows):
            rows = table.slice(start, group_rows)
            found.observe(rows)
            writer.write_table(rows)
    text = found.to_json(pq.read_metadata(pa.BufferReader(sink.getvalue())))
    read: dict[str, Any] = json.loads(text, parse_float=str, parse_int=str)
    return {"text": text, "minValues": {}, "maxValues": {}, "nullCount": {}, **read}


def bounds(values: Sequence[object], kind: pa.DataType, chars: int = 32) -> tuple[Any, Any]:
    found = statistics(pa.table({"c": pa.array(values, kind)}), chars=chars)
    assert found["numRecords"] == str(len(values))
    assert found["nullCount"] == {"c": str(list(values).count(None))}
    return found["minValues"].get("c"), found["maxValues"].get("c")


# --- by type -------------------------------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")
MICROS, NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        (pa.int8(), [-128, 5, None, 127], "-128", "127"),
        (pa.int64(), [-(1 << 63), (1 << 63) - 1], str(-(1 << 63)), str((1 << 63) - 1)),
        (pa.float64(), [1e16, 0.1, -2.5], "-2.5", "1e+16"),
        (pa.float64(), [0.0], "-0.0", "0.0"),
        (pa.float64(), [-0.0], "-0.0", "0.0"),
        (pa.float64(), [1.0, INF], "1.0", None),
        (pa.float64(), [-INF, 1.0], None, "1.0"),
        (pa.float64(), [1.0, 2.0, 3.0, NAN], None, None),
        (pa.float64(), [NAN, 1.0, 2.0, 3.0], None, None),
        (pa.float64(), [NAN, NAN], None, None),
        (pa.float64(), [None, NAN, 3.0], None, None),
        (pa.float64(), [5e-324, 1.7976931348623157e308], "5e-324", "1.7976931348623157e+308"),
        (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.05")], "-1.50", "0.05"),
        (pa.decimal128(18, 0), [Decimal(7), Decimal(-8)], "-8", "7"),
        (pa.decimal128(38, 4), [Decimal("-0.0001"), Decimal("1.5"), Decimal("-12345678901234567890123.4567")],
         "-12345678901234567890123.4567", "1.5000"),
        (pa.decimal128(38, 38), [Decimal("0." + "9" * 38)], "0." + "9" * 38, "0." + "9" * 38),
        (pa.date32(), [date(1969, 12, 31), date(2024, 2, 3), date(1, 1, 1)], "0001-01-01", "2024-02-03"),
        (pa.date32(), [2932897, 0], "1970-01-01", None),
        (pa.date32(), [-719530, 0], None, "1970-01-01"),
        (MICROS, [micros("1969-12-31T23:59:59.999999")], "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z"),
        (MICROS, [micros("2024-01-01T10:00:00.5")], "2024-01-01T10:00:00.500Z", "2024-01-01T10:00:00.500Z"),
        (MICROS, [micros("0001-01-01")], "0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z"),
        (MICROS, [253402300800000000, 1], "1970-01-01T00:00:00.000Z", None),
        (MICROS, [253402300799999999], "9999-12-31T23:59:59.999Z", None),
        (MICROS, [micros("0001-01-01") - 1, -1], None, "1970-01-01T00:00:00.000Z"),
        (NTZ, [micros("1582-10-04T00:00:00.000001")], "1582-10-04T00:00:00.000", "1582-10-04T00:00:00.001"),
        (pa.string(), ["b", None, "", "é"], "", "é"),
        (pa.bool_(), [True, None, False], None, None),
        (pa.binary(), [b"a", None], None, None),
        (pa.string(), [None, None], None, None),
        (pa.int64(), [None, None, None, 3], "3", "3"),
    ],
)  # fmt: skip
def test_bounds_of_each_type(kind: pa.DataType, values: list[object], low: str | None, high: str | None) -> None:
    assert bounds(values, kind) == (low, high)


def test_a_float_bound_reads_as_the_same_float() -> None:
    low, high = bounds([0.1, 16777216.0], pa.float32())
    assert struct.pack("f", float(low)) == struct.pack("f", 0.1)
    assert float(high) == 16777216.0


def test_columns_without_nan_have_bounds() -> None:
    nested = pa.array([{"x": 1.0}, None, {"x": None}], pa.struct([("x", pa.float64())]))
    assert statistics(pa.table({"s": nested}), "s.x")["maxValues"] == {"s": {"x": "1.0"}}


def test_a_nan_in_a_struct_is_found() -> None:
    nested = pa.array([{"x": {"y": 1.0}}, {"x": {"y": NAN}}])
    found = statistics(pa.table({"s": nested, "n": [1, 2]}), "s.x.y", "n")
    assert found["maxValues"] == {"n": "2"}
    assert found["nullCount"] == {"s": {"x": {"y": "0"}}, "n": "0"}


# --- texts ---------------------------------------------------------------------------------------------------------

LAST = chr(0x10FFFF)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (["abcd"], "abcd", "abcd"),
        (["abcde"], "abcd", f"abcd{LAST}"),
        (["éééé\x7f"], "éééé", f"éééé{LAST}"),
        (["🎉🎉🎉🎉🎉", "🎉🎉🎉🎉"], "🎉🎉🎉🎉", f"🎉🎉🎉🎉{LAST}"),
        ([f"abcd{LAST}x", "b"], "abcd", "b"),
        ([f"abcd{LAST}x"], "abcd", None),
        ([f"abc{LAST}"], f"abc{LAST}", f"abc{LAST}"),
        ([f"{LAST * 4}a"], LAST * 4, LAST * 5),
        (["abcd\uffffz"], "abcd", f"abcd{LAST}"),
        (['"\\\n\x00'], '"\\\n\x00', '"\\\n\x00'),
    ],
)
def test_long_strings_are_cut_to_a_prefix_that_is_still_a_bound(
    values: list[str], low: str | None, high: str | None
) -> None:
    assert bounds(values, pa.string(), chars=4) == (low, high)


def test_a_string_without_parquet_statistics_has_no_bounds() -> None:
    assert bounds(["x" * 5000, "a", "b", "c"], pa.string()) == (None, None)


@pytest.mark.parametrize("chars", [0, 1, 32])
def test_a_prefix_may_have_any_length(chars: int) -> None:
    low, high = bounds(["some text", "and another one"], pa.string(), chars=chars)
    assert low <= "and another one" <= "some text" <= high


# --- places --------------------------------------------------------------------------------------------------------


def test_leaves_of_null_structs_count_as_null() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    values = [None, {"a": None, "b": None}, {"a": 3, "b": {"c": None}}, {"a": 1, "b": {"c": "x"}}]
    found = statistics(pa.table({"s": pa.array(values, kind)}), "s.a", "s.b.c")
    assert found["nullCount"] == {"s": {"a": "2", "b": {"c": "3"}}}
    assert found["minValues"] == {"s": {"a": "1", "b": {"c": "x"}}}


def test_columns_after_lists_and_maps_get_their_own_statistics() -> None:
    table = pa.table(
        {
            "l": pa.array([[{"x": 1, "y": 2}], None]),
            "m": pa.array([[("k", {"z": 1.0})], None], pa.map_(pa.string(), pa.struct([("z", pa.float64())]))),
            "n": [7, 8],
        }
    )
    found = statistics(table, "l", "l.x", "l.element.x", "m.key", "m.value.z", "n")
    assert found["minValues"] == {"n": "7"}
    assert found["nullCount"] == {"n": "0"}


def test_column_names_may_contain_any_character() -> None:
    table = pa.table({"a.b": [1], 'quo"te': [2], "ü n": [3], "other": [4]})
    assert statistics(table, "a.b", 'quo"te', "ü n")["minValues"] == {"a.b": "1", 'quo"te': "2", "ü n": "3"}


def test_columns_that_are_not_listed_or_not_in_the_file_have_no_statistics() -> None:
    assert statistics(pa.table({"a": [1], "b": [2]}), "b", "c")["text"] == (
        '{"numRecords":1,"minValues":{"b":2},"maxValues":{"b":2},"nullCount":{"b":0}}'
    )
    assert statistics(pa.table({"a": [1]}), "c")["text"] == '{"numRecords":1}'


# --- properties ----------------------------------------------------------------------------------------------------


def spark_order(value: Any) -> Any:
    """NaN sorts above all numbers, strings by their UTF-8 bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


_short = st.text(st.sampled_from(["a", "b", "é", "\uffff", "🎉", LAST, "\x7f", "\x00"]), max_size=8)
_columns = st.one_of(
    st.tuples(st.just(pa.int32()), st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1), min_size=1)),
    st.tuples(st.just(pa.float64()), st.lists(st.none() | st.floats(), min_size=1)),
    st.tuples(st.just(pa.string()), st.lists(st.none() | _short, min_size=1)),
    st.tuples(
        st.just(pa.decimal128(20, 5)),
        st.lists(st.none() | st.integers(-(10**19), 10**19).map(lambda n: Decimal(n).scaleb(-5)), min_size=1),
    ),
    st.tuples(st.just(pa.date32()), st.lists(st.none() | st.dates(), min_size=1)),
    st.tuples(st.just(MICROS), st.lists(st.none() | st.datetimes(timezones=st.just(UTC)), min_size=1)),
)


def _read(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(text)
    reader = {pa.int32(): int, pa.float64(): float, pa.string(): str}.get(kind, Decimal)
    return reader(text)


@given(_columns, st.integers(1, 4), st.booleans())
def test_no_row_lies_outside_the_bounds(
    column: tuple[pa.DataType, list[Any]], group_rows: int, with_words: bool
) -> None:
    kind, values = column
    array = pa.array(values, kind)
    table = pa.table({"c": array.dictionary_encode() if with_words and pa.types.is_string(kind) else array})
    found = statistics(table, chars=3, group_rows=group_rows)
    assert (found["numRecords"], found["nullCount"]) == (str(len(values)), {"c": str(values.count(None))})
    there = [spark_order(value) for value in values if value is not None]
    for name, beyond in (
        ("minValues", lambda low, value: low > value),
        ("maxValues", lambda high, value: high < value),
    ):
        text = found[name].get("c")
        if text is not None:
            bound = spark_order(_read(text, kind))
            assert not any(beyond(bound, value) for value in there)
        elif there and not pa.types.is_timestamp(kind):
            assert pa.types.is_floating(kind) or LAST in "".join(filter(None, values))
