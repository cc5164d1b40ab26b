"""Lines of JSON, well-formed or odd, for each type of column: what the fast parser and Spark must agree about."""

import base64
import json
from collections.abc import Sequence
from decimal import Decimal

from hypothesis import strategies as st

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
