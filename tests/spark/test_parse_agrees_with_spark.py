"""The fast parser against Spark's own `from_json`: what it takes has Spark's value, and what it calls dead is dead."""

import base64
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_job.formats.ndjson.parser import NdjsonParser
from spark_job.formats.ndjson.refusal import refusal
from spark_job.formats.ndjson.spark_parser import decided_by_spark
from spark_job.formats.protocol import Parsed

pytestmark = pytest.mark.spark

SCHEMA = """
    id STRING, yes BOOLEAN,
    i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT,
    f32 FLOAT, f64 DOUBLE,
    money DECIMAL(5,2), price DECIMAL(18,4), exact DECIMAL(38,18), whole DECIMAL(10,0), part DECIMAL(3,3),
    day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, bytes BINARY,
    point STRUCT<x: INT NOT NULL, y: STRING, day: DATE>,
    list ARRAY<INT>, moneys ARRAY<DECIMAL(5,2)>, days ARRAY<DATE>,
    points ARRAY<STRUCT<x: INT NOT NULL, at: TIMESTAMP>>,
    deep STRUCT<inner: STRUCT<points: ARRAY<STRUCT<x: TINYINT NOT NULL>>, f: FLOAT>>
"""
MAPS = """
    id STRING NOT NULL, n BIGINT,
    words MAP<STRING, STRING>, `a/b` MAP<STRING, STRING>,
    counts MAP<STRING, INT>, bytes MAP<STRING, TINYINT>, f32s MAP<STRING, FLOAT>,
    f64s MAP<STRING, DOUBLE>, moneys MAP<STRING, DECIMAL(5,2)>, days MAP<STRING, DATE>, ats MAP<STRING, TIMESTAMP>,
    named MAP<STRING, STRUCT<x: INT NOT NULL, y: STRING>>, lists MAP<STRING, ARRAY<BIGINT>>,
    inside STRUCT<m: MAP<STRING, INT>>, many ARRAY<MAP<STRING, BOOLEAN>>, deep MAP<STRING, MAP<STRING, INT>>
"""

# --- What may stand where a value is wanted ---

CLOCKS = ("", "T12", " 12:30", "T12:30", "T12:30:45", " 12:30:45", "T00:00:00", "T23:59:59", "T24:00:00", "T23:59:60",
          "T1:2:3", "t12:30:45", "T12:30:45.", "T123045", "  12:30:45")  # fmt: skip
ZONES = ("", "Z", "z", "+00:00", "-00:00", "+02:00", "-11:30", "+14:00", "+17:59", "+18:00", "-18:00", "+18:01",
         "+19:00", "+23:59", "+0200", "+02", "+2", "+2:00", "+02:60", "+02:00:00", " UTC", " Z", " +02:00", "UTC",
         "[UTC]")  # fmt: skip
DAYS = ("2024-01-28", "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0001-01-01", "0000-12-31", "9999-12-31",
        "10000-01-01", "1582-10-10", "1969-12-31", "1960-02-29", "2024-1-2", "2024-01", "2024", "24-01-28", "20240128",
        "-2024-01-28", "+2024-01-28", "2024-13-01", "2024-00-10", "2024-01-32", "2024/01/28", "\u0662024-01-28",
        "2024-01-2\uff18", "")  # fmt: skip

fractions = st.one_of(
    st.just(""), st.text("0123456789", min_size=1, max_size=12).map("".__add__).map(lambda d: f".{d}")
)
times = st.builds(lambda *parts: "".join(parts), st.sampled_from(DAYS), st.sampled_from(CLOCKS), fractions,
                  st.sampled_from(ZONES))  # fmt: skip
good_times = st.builds(
    lambda moment, blank, fraction, zone: f"{moment:%Y-%m-%d}{blank}{moment:%H:%M:%S}{fraction}{zone}",
    st.datetimes(), st.sampled_from("T "), fractions, st.sampled_from(ZONES[:11]),
)  # fmt: skip
padded = st.builds(lambda a, text, b: a + text + b, st.sampled_from(["", "", "", " ", "\t", "\u00a0", "\x00", "-"]),
                   st.one_of(times, good_times, st.sampled_from(DAYS)),
                   st.sampled_from(["", "", "", " ", "\n", "\u2003", "\x00", " x", "T", "Z"]))  # fmt: skip

digits = st.text("0123456789", min_size=1, max_size=5)
long_digits = st.text("0123456789", min_size=1, max_size=45)
exponents = st.one_of(
    st.just(""),
    st.builds(lambda e, sign, number: f"{e}{sign}{number}", st.sampled_from("eE"), st.sampled_from(["", "+", "-"]),
              st.one_of(digits, st.sampled_from(["0", "1", "2", "3", "38", "39", "40", "99", "308", "309", "400",
                                                 "4951", "99999", "100000", "2147483647", "2147483648", "999999999",
                                                 "99999999999"]))),
)  # fmt: skip
numbers = st.one_of(
    st.builds(lambda sign, whole, part, exponent: f"{sign}{whole}{part}{exponent}", st.sampled_from(["", "-"]),
              st.one_of(st.just("0"), digits.map(lambda d: str(int(d))), long_digits.map(lambda d: str(int(d)))),
              st.one_of(st.just(""), digits.map(".".__add__), long_digits.map(".".__add__)), exponents),
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.builds(lambda bits, off: str((1 << bits) + off), st.integers(0, 65), st.integers(-2, 2)),
    st.builds(lambda bits, off: str(-(1 << bits) + off), st.integers(0, 65), st.integers(-2, 2)),
    st.floats().map(json.dumps),
    st.floats(width=32).map(json.dumps),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: format(Decimal(x), "f")[:60]),
    # Between two floats, and just beside it.
    st.builds(lambda n, d: format(Decimal(16777216 + 2 * n + 1) / Decimal(16777216) + Decimal(d).scaleb(-40), "f"),
              st.integers(0, 5), st.integers(-1, 1)),
    st.decimals(-2000, 2000, places=2).map(str),
    st.decimals(-2000, 2000, places=3).map(str),
)  # fmt: skip
ODD_NUMBERS = ("-0", "-0.0", "0.0", "0.00", "0e5", "-0e5", "NaN", "-NaN", "Inf", "-Inf", "Infinity", "-Infinity", "+1",
               "01", "-01", ".5", "1.", "1e", "0x10", "1_000", "nan", "inf", "INF", "1.7976931348623159e308",
               "2.2250738585072011e-308", "2e-324", "3e-324", "999.99", "999.995", "999.994", "-999.995", "1.005",
               "0.9995", "0.9994", "1e400", "253402300799", "253402300800", "-62135596800", "-62135596801",
               "1700000000", "1700000000000", "1700000000.5", "1700000000000000000", "1e9")  # fmt: skip

characters = st.one_of(
    st.sampled_from(list('ab"\\/{}[]:,é\u2028\ufeff\U0001f600\x7f')),
    st.characters(exclude_categories=["Cs"]),
)
plain = st.text(characters, max_size=8)
quoted = st.one_of(
    plain.map(json.dumps),
    plain.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.lists(
        st.one_of(
            st.sampled_from(["\\u0000", "\\ud83d\\ude00", "\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\u00E9", "\\/",
                             "\\x", "\\", "\\u12", "\\'", "'", "\t", "\x01", "\x7f", "\\ufffe", "\\uD83D\\uDE00"]),
            st.sampled_from("abc"),
        ),
        max_size=4,
    ).map(lambda parts: f'"{"".join(parts)}"'),
)  # fmt: skip
base64ish = st.one_of(
    st.binary(max_size=6).map(lambda b: base64.b64encode(b).decode()),
    st.text("AQ/+=-_ \n9", max_size=9),
)
literals = st.sampled_from(
    ["null", "true", "false", "{}", "[]", '""', "TRUE", "nul", "undefined", "//", "/**/", "'a'", ""]
)


def objects(values: st.SearchStrategy[str], names: Sequence[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(st.sampled_from([*names, names[0], names[0], "other"]), values)
    return st.lists(pair, max_size=4).map(lambda pairs: "{" + ",".join(f'"{k}":{v}' for k, v in pairs) + "}")


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=4).map(lambda found: f"[{','.join(found)}]")


scalars = st.one_of(
    numbers, st.sampled_from(ODD_NUMBERS), quoted, literals,
    numbers.map('"{}"'.format), st.sampled_from(ODD_NUMBERS).map('"{}"'.format),
    st.sampled_from(['"1,5"', '"+1.5"', '"1."', '".5"', '"0x10"', '"\u0663"', '" 1"', '"1 "', '"1_0"', '"\\u0031"']),
    times.map(json.dumps), good_times.map(json.dumps), padded.map(json.dumps), st.sampled_from(DAYS).map(json.dumps),
    base64ish.map(json.dumps),
)  # fmt: skip
small = st.one_of(st.integers(-130, 130).map(str), st.just("null"), scalars)
anything = st.one_of(
    scalars,
    arrays(scalars),
    objects(scalars, ["a", "x", "y"]),
    objects(arrays(objects(small, ["x"])), ["points", "inner"]),
    objects(objects(quoted, ["a"]), ["words", "a/b", "a\\/b"]),
)
OF_COLUMN: dict[str, st.SearchStrategy[str]] = {
    "id": st.one_of(quoted, scalars),
    "yes": st.one_of(st.sampled_from(["true", "false", "null"]), scalars),
    **{name: st.one_of(numbers, st.sampled_from(ODD_NUMBERS)) for name in ("i8", "i16", "i32", "i64", "f32", "f64")},
    **{name: st.one_of(numbers, st.sampled_from(ODD_NUMBERS), numbers.map('"{}"'.format))
       for name in ("money", "price", "exact", "whole", "part")},
    **{name: padded.map(json.dumps) for name in ("day", "at", "wall")},
    "bytes": base64ish.map(json.dumps),
    "point": objects(st.one_of(small, st.sampled_from(DAYS).map(json.dumps)), ["x", "y", "day"]),
    "list": arrays(small),
    "moneys": arrays(st.one_of(numbers, st.sampled_from(['"1.5"', "null", "1.50", "12.25"]))),
    "days": arrays(st.sampled_from(DAYS).map(json.dumps)),
    "points": arrays(objects(st.one_of(small, good_times.map(json.dumps)), ["x", "at"])),
    "deep": objects(st.one_of(objects(st.one_of(arrays(objects(small, ["x"])), numbers), ["points", "f"])), ["inner"]),
}  # fmt: skip
EVERYWHERE = (
    *ODD_NUMBERS,
    *(f'"{number}"' for number in ODD_NUMBERS[:20]),
    *(json.dumps(f"{day}{clock}") for day in DAYS for clock in ("", "T12:30:45", " 12:30:45.5Z")),
    *("null", "true", "false", "{}", "[]", '""', "TRUE", "[null]", "[1]", '{"x":1}', '[{"x":1}]', '{"a":1,"a":2}'),
)
MOMENTS = [
    (column, json.dumps(f"2024-01-28{clock}{zone}"))
    for column in ("day", "at", "wall")
    for clock in CLOCKS
    for zone in ZONES
]
keys = st.sampled_from(["a", "b", "é", "", ":", "a:b", "\\u003a", "\\u0061", '\\"', "{", "k" * 40])
OF_MAP: dict[str, st.SearchStrategy[str]] = {
    "id": st.just('"x"'),
    "n": st.one_of(numbers, literals),
    **{name: st.lists(st.tuples(keys, values), max_size=4).map(
           lambda pairs: "{" + ",".join(f'"{k}":{v}' for k, v in pairs) + "}")
       for name, values in {
           "words": st.one_of(quoted, scalars), "a/b": quoted, "counts": small, "bytes": small,
           "f32s": st.one_of(numbers, small),
           "f64s": st.one_of(numbers, small), "moneys": st.one_of(numbers, scalars),
           "days": st.sampled_from(DAYS).map(json.dumps), "ats": good_times.map(json.dumps),
           "named": objects(small, ["x", "y"]), "lists": arrays(small),
           "deep": objects(small, ["a", "b"]),
       }.items()},
    "inside": objects(objects(small, ["a", "b"]), ["m"]),
    "many": arrays(objects(st.sampled_from(["true", "false", "null", "1"]), ["a", "b"])),
}  # fmt: skip


def with_odd_forms(columns: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[str]:
    """Lines with several keys, some of them twice or no column's, blanks, something behind, or cut off."""
    pair = st.one_of(
        *[st.tuples(st.just(name), values) for name, values in columns.items()],
        st.tuples(
            st.sampled_from([*columns, "other", "ID", "i64 ", "\\u0069d", "a\\/b", "\\u0061/b", "é", ""]), anything
        ),
    )
    blank = st.sampled_from(["", "", "", "", " ", "\t", "\r", "\x0c", "\u00a0"])
    tail = st.sampled_from(
        ["", "", "", "", "", "", " ", "\t", " x", "}", "{}", ' {"id":"b"}', ",", "//c", "\x00", "\u2028"]
    )

    def line(pairs: list[tuple[str, str]], space: str, end: str, cut: int) -> str:
        text = "{" + f",{space}".join(f'"{name}"{space}:{space}{value}' for name, value in pairs) + "}" + end
        return text[:cut] if 0 < cut < len(text) else text

    cuts = st.one_of(*[st.just(0)] * 12, st.integers(1, 80))
    return st.builds(line, st.lists(pair, min_size=1, max_size=2), blank, tail, cuts).filter(str.strip)


HIDDEN = [
    f'{{"id":"x",{",".join(pairs)}}}'
    for name, hides in (("words", "w\\u006frds"), ("a/b", "a\\/b"), ("a/b", "\\u0061/b"))
    for own in (f'"{hides}":{{"k":"own"}}', f'"{hides}": null', f'"{name}":{{"k":"own"}}')
    for inner in (f'"other":{{"{name}":{{"k":"inner"}}}}', f'"n":1,"other":[{{"{name}":{{"k":"inner"}}}}]')
    for pairs in ((own, inner), (inner, own))
]
"""A map's name as the record's own key, perhaps with an escape, and as that of an object within it."""

AT_LIMITS = [
    f'{{"id":"x","other":{value}}}'
    for value in (
        *("1" * count for count in (999, 1000, 1001)),
        *("-0." + "1" * count for count in (997, 998, 999, 1000)),
        *("1e" + "0" * count + "1" for count in (990, 1010)),
        *("[" * count + "]" * count for count in (998, 999, 1000, 1001)),
        *('{"a":' * count + "1" + "}" * count for count in (998, 999, 1000)),
        *(f'{{"{"k" * count}":1}}' for count in (49_999, 50_000, 50_001)),
        json.dumps("x" * 100_000),
    )
]


# --- Both sides ---

STRANGE_TIMES = ("a time without its day does not fit timestamp", "beyond the years 1 to 9999 does not fit timestamp")
"""Spark takes some of these and makes others of them."""


@dataclass(frozen=True)
class Dead:
    fault: str


def spark_fallback(spark: SparkSession, schema: StructType, lines: Sequence[str]) -> list[Any]:
    """What becomes of each line without the fast parser: the record, or why it is dead."""
    frame = spark.createDataFrame(
        [(n, line, refusal(line)) for n, line in enumerate(lines)], "n INT, line STRING, fault STRING"
    )
    table = decided_by_spark(frame, schema).select("n", "record", "fault").orderBy("n").toArrow()
    records, faults = table["record"].to_pylist(), table["fault"].to_pylist()
    return [record if fault is None else Dead(fault) for record, fault in zip(records, faults, strict=True)]


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same kind: NaN is NaN, -0.0 is not 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or (left == right and math.copysign(1, left) == math.copysign(1, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def differences(fast: Parsed, lines: Sequence[str], slow: Sequence[Any]) -> list[str]:
    """Between what the fast parser made of these lines, with some or all of the columns, and the slow path."""
    numbers = list(range(len(lines))) if fast.positions is None else list(fast.positions)
    found = []
    for number, record in zip(numbers, fast.records.to_pylist(), strict=True):
        expected = slow[number]
        if isinstance(expected, Dead) or not same(record, {name: expected[name] for name in record}):
            found.append(f"{lines[number]!r}: fast {record}, slow {expected}")
    for number, why in fast.refused:
        is_endless = why is not None and why.endswith("in bounded time")
        if is_endless and re.search(r"[eE][-+]?[0-9]{5}", lines[number]):
            continue
        if why is not None and why.endswith(STRANGE_TIMES):
            continue
        expected = refusal(lines[number]) or (slow[number].fault if isinstance(slow[number], Dead) else None)
        if why != expected and (why is not None or refusal(lines[number]) is not None):
            found.append(f"{lines[number]!r}: refused ({why}), but {expected}")
    if sorted([*numbers, *(number for number, _ in fast.refused)]) != list(range(len(lines))):
        found.append(f"not every line once: {numbers}, {fast.refused} of {lines}")
    return found


def drawn(strategy: st.SearchStrategy[str], count: int) -> list[str]:
    """Many examples at once: a Spark job for each would take hours."""
    found: dict[str, None] = {}

    @settings(max_examples=count, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(text: str) -> None:
        found[text] = None

    collect()
    return [text for text in found if "\n" not in text and not text.endswith("\r")]


def values_of(
    columns: dict[str, st.SearchStrategy[str]], count: int, everywhere: Sequence[str]
) -> list[tuple[str, str]]:
    """Columns with values made for them, and each column with each value of a list."""
    own = [(name, value) for name, values in columns.items() for value in drawn(values, count)]
    return [*own, *((name, value) for name in columns for value in everywhere)]


@pytest.mark.parametrize(
    ("ddl", "columns", "count", "everywhere"),
    [(SCHEMA, OF_COLUMN, 150, EVERYWHERE), (MAPS, OF_MAP, 100, ())],
    ids=["all", "maps"],
)
def test_what_is_taken_has_sparks_value_and_what_is_refused_is_dead(
    spark: Callable[[], SparkSession],
    ddl: str,
    columns: dict[str, st.SearchStrategy[str]],
    count: int,
    everywhere: Sequence[str],
) -> None:
    spark()
    schema = StructType.fromDDL(ddl)
    required = "" if schema["id"].nullable else '"id":"x",'
    cases = values_of(columns, count, everywhere) + (MOMENTS if everywhere else [])
    alone = [f'{{{required}"{name}":{value}}}' for name, value in cases]
    lines = [*alone, *drawn(with_odd_forms(columns), count * 3), *HIDDEN, *AT_LIMITS]
    slow = spark_fallback(spark(), schema, lines)
    good = [n for n, record in enumerate(slow) if not isinstance(record, Dead)]
    found, taken = [], 0
    # Alone, by a parser of its column: nothing else can be why a line is left to Spark.
    parsers = {field.name: NdjsonParser(StructType([field])) for field in schema}
    for (name, _), line, expected in zip(cases, alone, slow, strict=False):
        fast = parsers[name].parse(line.encode())
        found += differences(fast, [line], [expected])
        taken += fast.records.num_rows
    # Together, by one parser: good lines with some others among them.
    parser = NdjsonParser(schema)
    shuffled = random.Random(1)
    for start in range(0, len(lines), 25):
        block = [*shuffled.sample(good, 60), *range(start, min(start + 25, len(lines)))]
        some = shuffled.sample(block, len(block))
        texts = [lines[n] for n in some]
        found += differences(parser.parse("\n".join(texts).encode()), texts, [slow[n] for n in some])
    assert found == []
    assert taken > len(good) / 3


def test_a_reason_that_is_given_without_spark_is_the_one_that_spark_gives(spark: Callable[[], SparkSession]) -> None:
    spark()
    schema = StructType.fromDDL(
        "id STRING NOT NULL, i8 TINYINT, i16 SMALLINT, a BIGINT, f DOUBLE, b BOOLEAN, d DATE, t STRING"
    )
    values = ['"x"', '""', "1.5", "true", "200", "40000", "99999999999999999999", "1", "null", "{}", "[1]", "1e300"]
    lines = [f'{{"id":"1","{name}":{value}}}' for name in schema.names[1:] for value in values]
    lines += [f'{{"id":null,"{name}":{value}}}' for name in schema.names[1:] for value in values]
    lines += [f'{{"i8":200,"id":"1","{name}":{value}}}' for name in schema.names[2:] for value in values]
    lines += ['{"id":"1","a":"x","a":1,"f":"y"}', '{"id":"1","a":1,"a":"x"}', '{"id":"1","d":"2024-02-30","b":1}']
    slow = spark_fallback(spark(), schema, lines)
    fast = NdjsonParser(schema).parse("\n".join(lines).encode())
    assert differences(fast, lines, slow) == []
    assert sum(why is not None for _, why in fast.refused) > 50


def test_well_formed_records_take_the_fast_way_and_have_sparks_values(spark: Callable[[], SparkSession]) -> None:
    spark()
    schema = StructType.fromDDL(
        SCHEMA.replace("id STRING", "id STRING NOT NULL").replace("exact DECIMAL(38,18), ", "")
        + ", words MAP<STRING, STRING>"
    )
    draw = random.Random(5)
    lines = []
    for n in range(500):
        moment = f"{datetime(2000, 1, 1) + timedelta(seconds=draw.randrange(10**9)):%Y-%m-%dT%H:%M:%S}"  # noqa: DTZ001
        record = {
            "id": f"{n} \u00e9 \n \U0001f600",
            "yes": n % 2 == 0,
            "i8": draw.randrange(-128, 128),
            "i16": draw.randrange(-32768, 32768),
            "i32": draw.randrange(-(1 << 31), 1 << 31),
            "i64": draw.randrange(-(1 << 63), 1 << 63),
            "f32": draw.uniform(-1e30, 1e30),
            "f64": draw.uniform(-1, 1) * 10 ** draw.randrange(-300, 300),
            "money": draw.randrange(-99999, 100000) / 100,
            "price": draw.randrange(10**12) / 10**4,
            "whole": draw.randrange(10**10),
            "day": moment[:10],
            "at": moment + ("Z", ".123Z", "+05:30", ".123456-08:00")[n % 4],
            "wall": moment + ("", ".5")[n % 2],
            "bytes": base64.b64encode(draw.randbytes(n % 7)).decode(),
            "point": {"x": n, "y": "text", "day": moment[:10], "unknown": [1, {"x": None}]},
            "list": [1, None, n][: n % 4],
            "moneys": [1.25, 0, None],
            "points": [{"x": n, "at": moment + "Z"}, None],
            "deep": {"inner": {"points": [{"x": 1}], "f": 0.5}},
            "words": {"a": "b", "c": None},
            "unknown": {"id": 5, "i64": "text"},
        }
        left_out = draw.choice([*record][1:])
        lines.append(
            json.dumps({name: value for name, value in record.items() if name != left_out}, ensure_ascii=n % 3 == 0)
        )
    slow = spark_fallback(spark(), schema, lines)
    fast = NdjsonParser(schema).parse("\n".join(lines).encode())
    assert (fast.positions, list(fast.refused)) == (None, [])
    assert differences(fast, lines, slow) == []
