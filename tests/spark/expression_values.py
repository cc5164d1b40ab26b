"""Expressions that the fast reader evaluates, and rows of odd and of random values for them."""

import random
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

SCHEMA = (
    "s STRING, u STRING, y TINYINT, i INT, n BIGINT, x DOUBLE, f FLOAT, d DECIMAL(10, 2), t TIMESTAMP, "
    "z TIMESTAMP_NTZ, day DATE, ok BOOLEAN, `a b` STRUCT<`x.y`: STRING, v: INT>"
)
MAX = (1 << 63) - 1
TEXTS = [
    *("", " ", "a", "7", " 7 ", "-7", "+7", "0012", "\t12\n", "1.5", "1e3", "0x1F", "٣", "2147483647", "2147483648"),
    *(
        "-2147483648",
        "-2147483649",
        "127",
        "128",
        "9223372036854775807",
        "9223372036854775808",
        "1" * 400,
        "+",
        "-",
        "--1",
    ),
    *(
        "2024-01-28",
        "2024-1-2",
        " 2024-01-28 ",
        "2024-01-28T01:02",
        "2024-01-28 x",
        "2024-02-30",
        "2024",
        "2024-01",
        "99",
    ),
    *("+2024-01-28", "-0001-01-01", "0000-01-01", "12345-01-01", "9999999-12-31", "5881580-07-11", "5881580-07-12"),
    *(
        "2024-01-28x",
        "2024-01-",
        "2024--01",
        "2024-001-01",
        "12345678-01-01",
        "T",
        "2024-01-01T",
        "2024-01T",
        "20240128",
    ),
    *(
        "abc",
        "ABC",
        "Straße",
        "ΑΣ ΣΑΣ",
        "İstanbul",
        "\u0131",
        "ǅ",
        "ﬃ",
        "ß",
        "é",
        "e\u0301",
        "日本",
        "🂡🂢",
        "a\u0000b",
        "a%b_c",
    ),
    *("\x7f7\x7f", "\u00a07", "a\nb", "\\", "NULL", "true"),
]
INTEGERS = [0, 1, -1, 7, 12, 127, 128, -128, -129, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 1706450400, 1706450400123]
LARGE = [
    MAX,
    -MAX - 1,
    MAX // 10**6,
    MAX // 10**6 + 1,
    -MAX // 10**6,
    MAX // 1000,
    MAX // 1000 + 1,
    4 * 10**15,
    -(10**14),
]
DOUBLES = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, -1.5, 127.9, 128.0, 2147483647.5, 2147483648.0, -2147483648.9, -2147483649.0]
ODD_DOUBLES = [9.223372036854775807e18, -9.3e18, 1e300, float("nan"), float("inf"), float("-inf"), 5e-324, 9.2e18]
MICROS = [0, -1, 1, 999_999, 10**6, -(10**6) - 1, 1706450400123400, -62135596800000000, -62135596800000001]
FAR_MICROS = [253402300799999999, 253402300800000000, 4 * 10**17, -3 * 10**17, 9 * 10**18, -9 * 10**18]
DAYS = [0, -1, 19750, 11016, -719162, -719163, -719528, 2932896, 2932897, 3_000_000, -800_000, 2**31 - 1, -(2**31)]
DECIMALS = ["0.00", "0.50", "-0.50", "1.00", "99999999.99", "-99999999.99", "12.34"]

EXPRESSIONS = [
    *("date(s)", "to_date(s)", "cast(s as int)", "cast(s as bigint)", "cast(s as tinyint)", "lower(s)", "upper(s)"),
    *(
        "lower(u)",
        "upper(u)",
        "length(u)",
        "trim(s)",
        "length(trim(s))",
        "concat(s, '-', u)",
        "s || n",
        "i || ok || day",
    ),
    *(f"substring(u, {at})" for at in (-3, -1, 0, 1, 2, 9)),
    *(f"substr(u, {at}, {length})" for at in (-3, -1, 0, 1, 2, 9) for length in (-1, 0, 1, 2, 5, 2147483647)),
    *(
        "coalesce(s, u, 'none')",
        "coalesce(i, n)",
        "coalesce(null, y, 5)",
        "nvl(t, t)",
        "ifnull(ok, false)",
        "'x'",
        "1.5",
    ),
    *("cast(n as int)", "cast(i as tinyint)", "cast(n as double)", "cast(n as string)", "cast(y as bigint)", "-5"),
    *("cast(x as bigint)", "cast(x as int)", "cast(x as tinyint)", "cast(ok as string)", "cast(day as string)"),
    *(
        "timestamp_seconds(n)",
        "timestamp_millis(n)",
        "timestamp_micros(n)",
        "timestamp_seconds(i)",
        "date(t)",
        "date(z)",
    ),
    *(
        "hour(t)",
        "minute(t)",
        "second(t)",
        "year(t)",
        "month(t)",
        "day(t)",
        "year(day)",
        "month(day)",
        "dayofmonth(day)",
    ),
    *("date(timestamp_seconds(n))", "hour(timestamp_millis(n))", "cast(t as string)", "cast(t as bigint)"),
    *(
        "date_trunc('HOUR', t)",
        "date_trunc('day', t)",
        "date_trunc('minute', t)",
        "cast(day as timestamp)",
        "cast(t as date)",
    ),
    *("`a b`.`x.y`", "`A B`.V", "isnull(`a b`)", "`a b`.v is not null", "cast(null as date)", "date '2024-02-29'"),
    *(
        f"{left} {op} {right}"
        for left, right in (
            ("i", "n"),
            ("s", "u"),
            ("x", "x"),
            ("x", "0.5"),
            ("f", "1"),
            ("d", "0.5"),
            ("d", "1"),
            ("day", "date '2024-01-28'"),
            ("t", "t"),
            ("ok", "true"),
            ("n", "7"),
            ("x", "-1"),
            ("`a b`.v", "y"),
        )
        for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")
    ),
    *(
        "n between -1 and 7",
        "s in ('a', '7', '')",
        "n not in (1, 7)",
        "d in (0.5, 1)",
        "s like 'a%'",
        "u like '%s_'",
        "s like ''",
    ),
    *("s like 'a%b\u005f_'", "s not like '%'", "not ok", "ok and i > 0", "ok or i > 0", "ok and cast(s as int) > 0"),
    *("not ok or cast(s as int) > 0", "ok is null or x > 0 and not (n = 7 or s = 'a')", "coalesce(i, cast(s as int))"),
    *(
        "coalesce(cast(s as int), i)",
        "(ok or cast(s as int) > 5) and (i is null or cast(u as int) = 1)",
        "true and null",
    ),
]


def random_rows(randomly: random.Random, count: int) -> pa.Table:
    def some(values: list[Any], make: Callable[[], Any], kind: pa.DataType) -> pa.Array:
        pool = [*values, *(make() for _ in range(len(values)))]
        return pa.array([None if randomly.random() < 0.08 else randomly.choice(pool) for _ in range(count)], kind)

    def text() -> str:
        letters = "abZ 7-ßΣσİ🂡é\t%_" + chr(randomly.choice([*range(0x20, 0xD800), *range(0xE000, sys.maxunicode + 1)]))
        return "".join(randomly.choice(letters) for _ in range(randomly.randrange(8)))

    def number(bits: int) -> Callable[[], int]:
        return lambda: randomly.randrange(-(1 << bits), 1 << bits) >> randomly.randrange(bits)

    v = some([1, 7, -1], number(31), pa.int32())
    inner = pa.StructArray.from_arrays([some(TEXTS, text, pa.string()), v], names=["x.y", "v"])
    return pa.table(
        {
            "s": some(TEXTS, text, pa.string()),
            "u": some(TEXTS, text, pa.string()),
            "y": some([0, 1, 127, -128], number(7), pa.int8()),
            "i": some([n for n in INTEGERS if abs(n) < 1 << 31], number(31), pa.int32()),
            "n": some([*INTEGERS, *LARGE], number(63), pa.int64()),
            "x": some([*DOUBLES, *ODD_DOUBLES], lambda: randomly.uniform(-1e10, 1e10), pa.float64()),
            "f": some([*DOUBLES, float("nan"), float("inf")], lambda: randomly.uniform(-10, 10), pa.float32()),
            "d": some(DECIMALS, lambda: f"{randomly.uniform(-3, 3):.2f}", pa.string()).cast(pa.decimal128(10, 2)),
            "t": some([*MICROS, *FAR_MICROS], number(58), pa.int64()).cast(pa.timestamp("us", "UTC")),
            "z": some([*MICROS, *FAR_MICROS], number(58), pa.int64()).cast(pa.timestamp("us")),
            "day": some(DAYS, number(22), pa.int32()).cast(pa.date32()),
            "ok": some([True, False], lambda: randomly.random() < 0.5, pa.bool_()),
            "a b": pa.StructArray.from_arrays(
                [*inner.flatten()], names=["x.y", "v"], mask=pa.array([at % 9 == 0 for at in range(count)])
            ),
        }
    )
