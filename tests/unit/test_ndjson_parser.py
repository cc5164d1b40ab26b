"""The fast parser: which lines it accepts, and how it reads values and maps."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.refusal import refusal
from spark_job.formats.refusals import is_missing
from tests.unit.ndjson_blocks import DEFERRED, GOOD, SIMPLE, A, accepted, one, parse, reason_without_spark

# --- Blocks and lines ---


def test_an_empty_block_has_no_records() -> None:
    parsed = NdjsonParser(SIMPLE).parse(b"")
    assert (parsed.records.num_rows, parsed.positions, list(parsed.refused)) == (0, None, [])
    assert parsed.records.schema == pa.schema([("id", pa.string()), ("n", pa.int64())])


def test_a_good_block_gives_all_its_lines_in_order() -> None:
    parsed = parse(*(f'{{"id":"{n}","n":{n}}}' for n in range(1000)))
    assert parsed.positions is None
    assert parsed.refused == []
    assert parsed.records.to_pylist() == [{"id": str(n), "n": n} for n in range(1000)]


def test_white_space_around_and_inside_an_object_is_allowed() -> None:
    lines = [GOOD, b"  " + GOOD, GOOD + b" \t", b'{ "id" :\t"a" , "n"\r: 1 }', b"\r" + GOOD, GOOD]
    assert accepted(parse(*lines)) == dict.fromkeys(range(6), A)


@pytest.mark.parametrize(
    "dead",
    [
        b'{"id":"a","n":1',
        b'{"id":"a","n":',
        b'"id":"a"}',
        b"{",
        b"}",
        b"x",
        b"[1]",
        b'"a"',
        b"17",
        b"null",
        GOOD + GOOD,
        GOOD + b" " + GOOD,
        GOOD + b"x",
        GOOD + b"//",
        b'{"id":"a",}',
        b"{'id':'a'}",
        b'{id:"a"}',
        b'{"id":"a","z":007}',
        b'{"id":"a","z":Inf}',
        b'{"id":"a","z":[-Inf]}',
        b'{"id":"a","z":-NaN}',
        b'{"id":"a","z":"\\ud83d"}',
        b'{"id":"a","z":"\\x"}',
        b'{"id":"a","z":"\x01"}',
        b'{"id":"a"\x00}',
        GOOD + b"\x00",
        b"\xef\xbb\xbf" + GOOD,
        GOOD + b"\xc2\xa0",
        b'{"id":"a"\x0c}',
        b'{"id":"a","z":{"y":1,}}',
        b'{"id":"a"}}',
        b'{"id":"\xc3\xa9","z":nul}',
        b'{"id":"a","z":[1}',
        b'{"id":"a","z":}',
    ],
)
def test_a_line_that_is_not_a_json_object_is_refused_alone_with_its_reason(dead: bytes) -> None:
    parsed = parse(GOOD, GOOD, dead, GOOD)
    assert accepted(parsed) == dict.fromkeys((0, 1, 3), A)
    assert list(parsed.refused) == [(2, refusal(dead.decode()))]
    assert parsed.refused[0][1] is not None


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":"a","n":"1"}',
        b'{"id":"a","n":""}',
        b'{"id":"a","n":1.0}',
        b'{"id":"a","n":1e3}',
        b'{"id":"a","n":true}',
        b'{"id":"a","n":9223372036854775808}',
        b'{"id":null,"n":"1"}',
        b'{"id":"a","\\u006e":"1"}',
    ],
)
def test_a_value_that_spark_would_refuse_is_refused_with_its_column(line: bytes) -> None:
    parsed = parse(GOOD, line, GOOD, GOOD)
    assert accepted(parsed) == dict.fromkeys((0, 2, 3), A)
    assert list(parsed.refused) == [(1, "n: the value does not fit bigint")]


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":"a","n":{}}',
        b'{"id":1,"n":"1"}',
        b'{"id":1}',
        b'{"id":[1]}',
        b'{"id":"a","n":1,"n":2}',
        b'{"id":null,"n":{}}',
        b'{"id":"a","n":NaN}',
        b'{"id":"a","n":[1]}',
    ],
)
def test_a_line_that_only_spark_can_decide_is_deferred_alone(line: bytes) -> None:
    parsed = parse(GOOD, line, GOOD, GOOD)
    assert accepted(parsed) == dict.fromkeys((0, 2, 3), A)
    assert list(parsed.refused) == [(1, None)]


@pytest.mark.parametrize(
    "lines",
    [
        # A value that goes on in the next line, two values on one line, and both, so that the count is right.
        ['{"id":"a","n":', "1}"],
        ['{"id":"a","z":{}', '{"id":"b"}}'],
        ['{"id":"a","z":{"y":1}', '{"id":"b"}}', GOOD.decode() * 2],
        ['{"id":"a","z":[{}', '{"id":"b"}]}', GOOD.decode() * 2],
        ['{"id":"a{}', '{"id":"b"}"}', GOOD.decode() * 2],
        ['{"id":"a{}', '{","n":1}', GOOD.decode() + " " + GOOD.decode()],
        [GOOD.decode() * 2, '{"id":"b"}\x00', '{"id":"c"}'],
        [GOOD.decode() * 2, '{"id":"b"}\x00}'],
        [GOOD.decode() * 3, '{"id":"b"', '"n":1}'],
        ['{"id":"a"}{"id":"b"', '"n":1}'],
        ['{"id":"a"', '}{"id":"b"}'],
        ["{", "}"],
    ],
)
def test_lines_with_no_value_or_several_are_refused_alone(lines: list[str]) -> None:
    parsed = parse(GOOD, *lines, GOOD)
    last = len(lines) + 1
    whole = [0, *(n for n, line in enumerate(lines, 1) if refusal(line) is None), last]
    assert sorted(accepted(parsed)) == whole
    assert accepted(parsed)[last] == A
    assert [(n, why) for n, why in parsed.refused] == [
        (n, refusal(line)) for n, line in enumerate(lines, 1) if refusal(line) is not None
    ]


pieces = st.sampled_from(["{", "}", "{", "}", "\n", "\n", ",", ":", '"id"', '"n"', '"', "1", "[", "]", " ", "{}",
                          GOOD.decode(), '{"id":"b"}', "\\", "}\n{", "}{"])  # fmt: skip


@given(st.lists(pieces, min_size=1, max_size=25))
@example(['{"id":"b"}', "\n", '{"id":"b"}', '{"id":"b"}', "\n", "{", "\n", "}"])
def test_a_line_gives_the_same_result_alone_and_in_any_block(parts: list[str]) -> None:
    lines = [line for line in "".join(parts).split("\n") if line.strip() and not line.endswith("\r")]
    block = parse(*lines)
    records, refused = accepted(block), dict(block.refused)
    for number, line in enumerate(lines):
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            value = None
        if refused.get(number) == is_missing("id"):
            assert isinstance(value, dict)
            assert value.get("id") is None
            assert reason_without_spark(line) is None
        elif number in refused:
            assert refused[number] == reason_without_spark(line)
        else:
            assert isinstance(value, dict)
            assert records[number] == {"id": value["id"], "n": value.get("n")}
            assert accepted(parse(line)) == {0: records[number]}
    assert sorted([*records, *refused]) == list(range(len(lines)))


# --- Values; tests/spark/test_parse_agrees_with_spark.py holds them against Spark's ---


def test_well_formed_values_of_every_type_are_accepted() -> None:
    at = datetime(2024, 1, 28, 12, 30, 45, tzinfo=UTC)
    cases: list[tuple[DataType, str, Any]] = [
        (StringType(), '"\\u00e9 \\ud83d\\ude00 \\u0000 \\/"', "\u00e9 \U0001f600 \x00 /"),
        (BooleanType(), "true", True),
        (ByteType(), "-128", -128),
        (ShortType(), "32767", 32767),
        (IntegerType(), "-2147483648", -2147483648),
        (LongType(), "9223372036854775807", 9223372036854775807),
        (FloatType(), "1.5", 1.5),
        (DoubleType(), "0.1234567890123456789", 0.12345678901234568),
        (DecimalType(10, 2), "12345678.90", Decimal("12345678.90")),
        (DecimalType(10, 2), '"12345678.90"', Decimal("12345678.90")),
        (
            DecimalType(38, 18),
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        (DecimalType(38, 18), '"0.000000000000000001"', Decimal("0.000000000000000001")),
        (DateType(), '"2024-02-29"', date(2024, 2, 29)),
        (TimestampType(), '"2024-01-28T12:30:45Z"', at),
        (TimestampType(), '"2024-01-28 12:30:45"', at),
        (TimestampType(), '"2024-01-28T12:30:45.5Z"', at.replace(microsecond=500_000)),
        (TimestampType(), '"2024-01-28T12:30:45.123456789Z"', at.replace(microsecond=123_456)),
        (TimestampType(), '"2024-01-28T12:30:45.123456+00:00"', at.replace(microsecond=123_456)),
        (TimestampType(), '"2024-01-28T14:30:45+02:00"', at),
        (TimestampType(), '"0001-01-01T00:00:00-00:01"', datetime(1, 1, 1, 0, 1, tzinfo=UTC)),
        (TimestampType(), str(int(at.timestamp())), at),
        (TimestampNTZType(), '"2024-01-28T12:30:45.123"', at.replace(microsecond=123_000, tzinfo=None)),
        (BinaryType(), '"AP8="', b"\x00\xff"),
        (StructType([StructField("x", IntegerType(), False)]), '{"x":1,"z":2}', {"x": 1}),
        (ArrayType(DateType()), '["2024-01-28",null]', [date(2024, 1, 28), None]),
        (MapType(StringType(), LongType()), '{"a":1,"b":null}', [("a", 1), ("b", None)]),
        (MapType(StringType(), ArrayType(DateType())), '{"a":["2024-01-28"]}', [("a", [date(2024, 1, 28)])]),
    ]
    found = [one(data_type, value)[0] for data_type, value, _ in cases]
    assert found == [expected for _, _, expected in cases]
    assert all(one(data_type, "null") == [None] for data_type, _, _ in cases)


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (DoubleType(), ["-0", "1e400", "NaN", "Infinity"]),
        (FloatType(), ["-0", "1e39"]),
        (DecimalType(5, 2), ["1.005", "1000", "1e3", '"1,5"', '" 1"', '"٣"', '"1e2"']),
        (DateType(), ['"2024-02-30"', '"0000-01-01"', '"2024-1-2"', '"20240128"', '"2024-01-28T12:00:00"', "19000"]),
        (TimestampType(), ['"2024-01-28T12:00Z"', '"2024-01-28T12:00:00+19:00"', '"noon"', "1.5", "1700000000000",
                           '"0001-01-01T00:00:00+01:00"', '"9999-12-31T23:59:59-01:00"', '"2024-01-28T24:00:00"']),
        (TimestampNTZType(), ['"2024-01-28T12:00:00Z"', '"2024-01-28T12:00:00+02:00"', "1700000000"]),
        (BinaryType(), ['"AP8"', '"A-_A"', '"AAAA AAAA"', '"é"', "1"]),
        (ByteType(), ["128", "-129"]),
        (StructType([StructField("x", IntegerType(), False)]), ['{"x":1,"x":2}', "[]"]),
        (MapType(StringType(), IntegerType()), ['{"a":1,"a":2}', '{"a":1,"\\u0061":2}', '{"a":"1"}', "[]",
                                                '{"a:\\u003a":1,"a":1,"a":1}']),
        (MapType(StringType(), FloatType()), ['{"a":1.000000059604644775390625}', '{"a":1e-40}', '{"a":1e39}']),
        (VariantType(), ["1"]),
    ],
)  # fmt: skip
def test_values_that_spark_reads_by_special_rules_are_left_to_it(data_type: DataType, values: Sequence[str]) -> None:
    assert one(data_type, *values) == [DEFERRED] * len(values)


def test_a_bad_nested_value_defers_only_its_own_line() -> None:
    inner = StructType([StructField("days", ArrayType(DateType())), StructField("x", ByteType(), False)])
    schema = StructType([StructField("list", ArrayType(inner)), StructField("id", LongType())])
    good = '{"id":%d,"list":[{"x":1,"days":["2024-01-28"]},null,{"x":2}]}'
    lines = [good % n for n in range(6)]
    lines[1] = '{"id":1,"list":[{"x":1},{"x":1,"days":["2024-02-30"]}]}'
    lines[3] = '{"id":3,"list":[{"x":1},{}]}'
    lines[4] = '{"id":4,"list":[{"x":1},{"x":200}]}'
    parsed = parse(*lines, schema=schema)
    assert sorted(accepted(parsed)) == [0, 2, 5]
    assert list(parsed.refused) == [(1, None), (3, is_missing("list[].x")), (4, None)]
    assert accepted(parsed)[2]["list"] == [{"days": [date(2024, 1, 28)], "x": 1}, None, {"days": None, "x": 2}]


def test_blocks_may_mix_styles_of_timestamps_and_begin_with_nulls() -> None:
    schema = StructType([StructField("at", TimestampType()), StructField("d", DecimalType(10, 2))])
    parser = NdjsonParser(schema)
    texts = b'{"at":"2024-01-28T12:00:00Z","d":"1.50"}'
    numbers = b'{"at":1706443200,"d":1.5}'
    nulls = b'{"at":null}'
    same = {"at": datetime(2024, 1, 28, 12, tzinfo=UTC), "d": Decimal("1.50")}
    for line in (texts, numbers, texts, numbers):
        for before in (50, 1):
            parsed = parser.parse(b"\n".join([*[nulls] * before, *[line] * 5]))
            assert [*accepted(parsed).values()] == [{"at": None, "d": None}] * before + [same] * 5


def test_negative_zero_stays_negative() -> None:
    found = one(DoubleType(), "0.0", "0", "5e-324", "1e-400")
    assert found == [0.0, 0.0, 5e-324, 0.0]
    assert [math.copysign(1, value) for value in found] == [1, 1, 1, 1]


def test_lines_are_counted_for_a_schema_of_maps_only() -> None:
    schema = StructType([StructField("m", MapType(StringType(), StringType()))])
    parsed = parse('{"m":{"a":"b"}}', "{}", '{"m":{"a":"b"}}{"m":{}}', '{"m":null,"z":1}', schema=schema)
    assert accepted(parsed) == {0: {"m": [("a", "b")]}, 1: {"m": None}, 3: {"m": None}}


def test_a_map_inside_an_unsupported_type_is_left_to_spark() -> None:
    schema = StructType([StructField("ms", ArrayType(MapType(StringType(), StringType())))])
    parsed = parse('{"z":' + "[" * 400 + "]" * 400 + "}", '{"ms":[{"a":"b"}]}', schema=schema)
    assert accepted(parsed) == {1: {"ms": [[("a", "b")]]}}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"m":{"a":"}"}}', [("a", "}")]),
        (r'{"m":{"a":"\\"}}', [("a", "\\")]),
        (r'{"m":{"a":"\"}"}}', [("a", '"}')]),
        ('{"m" : {"a":"b"}}', [("a", "b")]),
        ('{"m": {"a" : "b"} ,"z":{"a":1}}', [("a", "b")]),
        ('{"z":{"m":{"a":"x"}},"m":{"a":"b"}}', [("a", "b")]),
        (r'{"z":{"m":{"a":"x"}},"\u006d":{"a":"b"}}', [("a", "b")]),
        ('{"z":{"m":{"a":"x"}}}', None),
        ('{"z":{"m":{"a":"x"}},"m":null}', None),
        (r'{"z\"m":{"a":"x"},"m" :{"a":"b"}}', [("a", "b")]),
        (r'{"z\"m":{"a":"x"},"\u006D":{"a":"b"}}', [("a", "b")]),
        (r'{"z":"\"m\":{\"a\":\"x\"}","m":{"a":"b"}}', [("a", "b")]),
        ('{"z":"m","m":{"a":"b"}}', [("a", "b")]),
        ('{"m" :{"a":"b"},"z":{"m":{"a":"x"}}}', [("a", "b")]),
        (r'{"m" :{"a":"b"},"z\"m":{"a":"x"}}', [("a", "b")]),
        ('{"m":{}}', []),
        (r'{"m":{"é":"\u00e9"}}', [("é", "é")]),
        ('{"m":{"m":"b"}}', [("m", "b")]),
    ],
)
def test_a_map_is_found_among_similar_keys(line: str, expected: Any) -> None:
    schema = StructType([StructField("m", MapType(StringType(), StringType()))])
    assert accepted(parse(line, schema=schema)) == {0: {"m": expected}}


def test_a_map_whose_name_may_be_escaped_is_found() -> None:
    schema = StructType([StructField("a/b", MapType(StringType(), StringType()))])
    lines = (
        r'{"x":{"a/b":{"k":"no"}},"a\/b":{"k":"yes"}}',
        r'{"a\/b":{"k":"yes"},"x":{"a/b":{"k":"no"}}}',
        '{"x":{"a/b":{"k":"no"}},"a/b":{"k":"yes"}}',
        r'{"x":{"a\/b":{"k":"no"}}}',
    )
    found = {"a/b": [("k", "yes")]}
    assert accepted(parse(*lines, schema=schema)) == {0: found, 1: found, 2: found, 3: {"a/b": None}}


def test_threads_can_share_a_parser() -> None:
    schema = StructType([StructField("at", TimestampType()), StructField("n", LongType())])
    parser = NdjsonParser(schema)
    blocks = [
        b"\n".join(b'{"at":%s,"n":%d}' % (at, n) for n in range(200))
        for at in (b"1706443200", b'"2024-01-28T12:00:00Z"', b'"2024-01-28 12:00:00"', b"null")
    ]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(parser.parse, blocks * 25))
    moments = [datetime(2024, 1, 28, 12, tzinfo=UTC)] * 3 + [None]
    expected = [[{"at": at, "n": n} for n in range(200)] for at in moments] * 25
    assert [parsed.records.to_pylist() for parsed in found] == expected
