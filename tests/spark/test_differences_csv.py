"""CSV that Spark and we read differently, or that is worth a look: docs/format-csv.md has the rows."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.spark.format_comparison import FILE_REFUSED, REFUSED, Comparison, same

pytestmark = pytest.mark.spark

RFC_4180 = {"header": True, "escape": '"', "multiLine": True}
DAY = datetime(2026, 11, 21, tzinfo=UTC)
TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
TODAY = "the time on the day on which it is read"

VALUES: Mapping[str, Sequence[str]] = {
    "STRING": [
        " a ",
        "",
        '""',
        '"a""b"',
        'a"b',
        '"a;b"',
        "\u00e9",
        "\\",
        "a\\nb",
        '"x"y',
        "'",
        '" "',
        "\u2028",
        "NULL",
    ],
    "TINYINT": ["127", "128", "-128", "+5", "300"],
    "SMALLINT": ["32767", "32768", "-32768"],
    "INT": [
        "+5",
        "-007",
        "5.0",
        " 5",
        "5 ",
        "0x1F",
        "2147483648",
        "\u0663",
        "1,000",
        "1e1",
        "--5",
        '"5"',
        "1_000",
        "true",
    ],
    "BIGINT": ["-9223372036854775808", "9223372036854775808", "5L", "9" * 100],
    "FLOAT": ["0.1", "1e39", "3.4028235e38", "NaN", "1e-46", "16777217", "1.00000005960464477539062", "1d"],
    "DOUBLE": [
        *("1.5", "-1e3", "1E5", "1e400", "1e-400", "-0", ".5", "5.", "1,5", "1,234.5", "1_0", "nan", "inf"),
        *("NaN", "Inf", "-Inf", "+Inf", "Infinity", "-Infinity", "+Infinity", "-NaN", "1d", "1f", "0x1p3", "1 ", " 1"),
    ],
    "DECIMAL(4,2)": [
        *("1.005", "-1.005", "99.994", "99.995", "100", "1e1", "1e-5", "1.", ".5", "+1.5", "-0", "0x1", "NaN", " 1"),
        *("1,234", "1,5", "1." + "0" * 60 + "1"),
    ],
    "DECIMAL(38,0)": ["9" * 38, "1e37", "1e38", "1e9999", "1e99999"],
    "BOOLEAN": ["true", "TRUE", "tRuE", "false", "1", "yes", "t", " true"],
    "DATE": [
        *("2026-11-21", "2026-1-2", "2026-11", "2026", "2026-11-21T10:00:00Z", "2026-11-21 x", "2026-02-30"),
        *("21.11.2026", "20261121", "0001-01-01", "9999-12-31", "1500-02-28", "1582-10-10", "197", "2026-01-01 "),
        *("0000-01-01", "12026-01-01", "-2026-01-01", "19750", " 2026-01-01", "+2026-01-01"),
    ],
    "TIMESTAMP": [
        *("2026-11-21T10:00:00+02:00", "2026-11-21 10:00:00+0200", "2026-11-21T10:00:00+02", "2026-11-21T10:00:00 Z"),
        *("2026-11-21 10:00", "2026-11-21", "2026-11", "2026", "2026-1-2T1:2:3", "2026-11-21T10:00:00.1234567Z"),
        *(
            "2026-11-21T10:00:00+18:00",
            "2026-11-21T10:00:00+18:01",
            "2026-11-21T10:00:00+19:00",
            "2026-11-21t10:00:00z",
        ),
        *("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999Z", "1500-02-28T00:00:00", "1582-10-10T00:00:00Z"),
        *("2026-11-21T25:00:00Z", "2026-11-21T24:00:00Z", "2026-11-21T10:00:60Z", "1700000000", "2026-11-21Z"),
        *("2026-11-21T10:00Z", "10:00", "T10:00", "2026-11-21T10:00:00Europe/Berlin", "2026-11-21T10:00:00 UTC"),
        *("2026-11-21T10:00:00GMT+1", "2026-11-21T10:00:00+5:30", "2026-11-21T10:00:00+02:00:30", "2026-11-21T10"),
        *("2026-11-21T10:00:00.", "2026-11-21T10:00:00.Z", " 2026-11-21"),
        *("9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"),
    ],
    "TIMESTAMP_NTZ": [
        *("2026-11-21T10:00:00", "2026-11-21T10:00:00Z", "2026-11-21", "2026-11-21 10:00:00.123", "2026-11-21T10:00"),
        *("2026", "10:00", "2026-11-21T10:00:00.1234567"),
    ],
}
"""Each form that docs/format-csv.md has, and what is next to it."""

DIFFERENT: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
    "STRING": {
        # "an empty field in quotes, or another of `null_values` in quotes"
        '""': (None, ""),
        # "text after a closing quote"
        '"x"y': ('"x"y', REFUSED),
    },
    # "digits of other scripts"
    "INT": {"\u0663": (3, REFUSED)},
    "FLOAT": {"1d": (1.0, REFUSED)},
    "DOUBLE": {
        # "`0x1p3`, `1d`, `-NaN`, blanks around a number"
        "-NaN": (float("nan"), REFUSED),
        **dict.fromkeys(("1d", "1f", "1 ", " 1"), (1.0, REFUSED)),
        "0x1p3": (8.0, REFUSED),
        # "`+Inf`"
        "+Inf": (REFUSED, float("inf")),
    },
    # The row "commas in a number: `1,5`"
    "DECIMAL(4,2)": {"1,5": (Decimal("15.00"), REFUSED)},
    "DATE": {
        # "`DATE`, `TIMESTAMP` outside the years 1 to 9999, such as `19750`"
        "0000-01-01": (-719_528, REFUSED),
        "12026-01-01": (3_672_879, REFUSED),
        "-2026-01-01": (-1_459_509, REFUSED),
        "19750": (6_494_012, REFUSED),
        # "a blank or `+` before a date"
        **dict.fromkeys((" 2026-01-01", "+2026-01-01"), (date(2026, 1, 1), REFUSED)),
    },
    "TIMESTAMP": {
        # The row "minutes and a zone without seconds: `2026-11-21T10:00Z`"
        "2026-11-21T10:00Z": (REFUSED, TEN),
        # The row "a time without a date: `10:00`"
        **dict.fromkeys(("10:00", "T10:00"), (TODAY, REFUSED)),
        # Row "other zones: `Europe/Berlin`, `UTC`, `GMT+1`, `+5:30`, `+02:00:30`; an hour alone; a
        # point without digits"
        "2026-11-21T10:00:00Europe/Berlin": (TEN.replace(hour=9), REFUSED),
        "2026-11-21T10:00:00 UTC": (TEN, REFUSED),
        "2026-11-21T10:00:00GMT+1": (TEN.replace(hour=9), REFUSED),
        "2026-11-21T10:00:00+5:30": (TEN.replace(hour=4, minute=30), REFUSED),
        "2026-11-21T10:00:00+02:00:30": (TEN.replace(hour=7, minute=59, second=30), REFUSED),
        **dict.fromkeys(("2026-11-21T10", "2026-11-21T10:00:00.", "2026-11-21T10:00:00.Z"), (TEN, REFUSED)),
        # "a blank or `+` before a date"
        " 2026-11-21": (DAY, REFUSED),
        # "`DATE`, `TIMESTAMP` outside the years 1 to 9999, such as `19750`"
        "9999-12-31T23:59:59-01:00": (253_402_304_399_000_000, REFUSED),
        "0001-01-01T00:00:00+01:00": (-62_135_600_400_000_000, REFUSED),
    },
}
"""By type and text: what Spark makes of it, and what we do. The comments name rows of docs/format-csv.md."""


@pytest.mark.parametrize("data_type", VALUES)
def test_values_are_sparks_but_for_a_list_of_differences(comparison: Comparison, data_type: str) -> None:
    texts = VALUES[data_type]
    stored = "".join(["id;v\n", *(f"{number};{text}\n" for number, text in enumerate(texts))]).encode()
    ddl = f"id INT, v {data_type}"
    ours = comparison.ours("csv", ddl, stored, delimiter=";")
    sparks = comparison.spark("csv", ddl, stored, **RFC_4180, sep=";")
    assert len(ours) == len(sparks) == len(texts)
    found = {}
    for text, our, spark in zip(texts, ours, sparks, strict=True):
        assert isinstance(spark, dict)
        pair = (spark["v"], our["v"] if isinstance(our, dict) else our)
        if not same(*pair):
            found[text] = (TODAY if text in ("10:00", "T10:00") and isinstance(pair[0], datetime) else pair[0], pair[1])
    listed = DIFFERENT.get(data_type, {})
    assert found.keys() == listed.keys()
    assert [text for text, pair in found.items() if not same(pair, listed[text])] == []


def row(number: Any, text: Any) -> dict[str, Any]:
    return {"id": number, "v": text}


ONE_LINE = {"header": True, "escape": '"'}
FILES: Mapping[str, tuple[bytes, dict[str, Any], dict[str, Any], Any, Any]] = {
    # "`escape`"
    "a quote is doubled, for Spark escaped": (
        b'id,v\n1,"a""b"\n', {}, {"header": True}, [row(1, '"a""b"')], [row(1, 'a"b')],
    ),
    # "a doubled quote although there is an `escape`"
    "a doubled quote, with an escape": (
        b'id,v\n1,"a""b"\n2,"a\\"b"\n3,a\\b\n4,"a\\nb"\n5,"a\\\\b"\n', {"escape": "\\"}, {"header": True},
        [row(1, '"a""b"'), row(2, 'a"b'), row(3, "a\\b"), row(4, "a\\nb"), row(5, "a\\b")],
        [row(1, 'a"b'), row(2, 'a"b'), row(3, "a\\b"), row(4, "a\\nb"), row(5, "a\\b")],
    ),
    # "`header`"
    "no header by default": (
        b"1,a\n", {}, {}, [row(1, "a")], FILE_REFUSED,
    ),
    "columns by name": (
        b"v,id\na,1\n", {}, RFC_4180, [row(REFUSED, "1")], [row(1, "a")],
    ),
    "other names": (
        b"x,y\n1,a\n", {}, RFC_4180, [row(1, "a")], FILE_REFUSED,
    ),
    "names in another case": (
        b"ID,v\n1,a\n", {}, RFC_4180, [row(1, "a")], [row(None, "a")],
    ),
    # "an empty file"
    "no header in an empty file": (b"", {}, RFC_4180, [], FILE_REFUSED),
    "too many or too few fields": (
        b"id,v\n1\n2,a,b\n3,\n", {}, RFC_4180,
        [row(1, REFUSED), row(2, "a"), row(3, None)], [REFUSED, REFUSED, row(3, None)],
    ),
    "a value that does not fit its column": (b"id,v\nx,a\n", {}, RFC_4180, [row(REFUSED, "a")], [REFUSED]),
    "text after a closing quote": (
        b'id,v\n1,"a"b\n2,"a" \n3, "a"\n', {}, RFC_4180,
        [row(1, '"a"b'), row(2, "a"), row(3, ' "a"')], [REFUSED, REFUSED, row(3, ' "a"')],
    ),
    "a quote that does not close": (
        b'id,v\n1,a\n2,"b\n3,c\n', {}, RFC_4180, [row(1, "a"), row(2, "b\n3,c\n")], [row(1, "a"), REFUSED],
    ),
    # "line ends within quotes"
    "line ends in quotes, without multiLine": (
        b'id,v\n1,"a\nb"\n2,c\n', {}, ONE_LINE,
        [row(1, "a"), row(REFUSED, REFUSED), row(2, "c")], [row(1, "a\nb"), row(2, "c")],
    ),
    "CRLF in quotes in a file of CRLF": (
        b'id,v\r\n1,"a\r\nb"\r\n', {}, RFC_4180, [row(1, "a\nb")], [row(1, "a\r\nb")],
    ),
    "CRLF in quotes in a file of LF": (b'id,v\n1,"a\r\nb"\n', {}, RFC_4180, [row(1, "a\r\nb")], [row(1, "a\r\nb")]),
    # The row "a carriage return outside quotes"
    "a lone CR, with multiLine": (b"id,v\n1,a\rb\n", {}, RFC_4180, [row(1, "a\rb")], [REFUSED]),
    "a lone CR, without multiLine": (b"id,v\n1,a\r2,b\n", {}, ONE_LINE, [row(1, "a"), row(2, "b")], [REFUSED]),
    # "a line of blanks, or of tabs"
    "lines of blanks, with multiLine": (
        b"id,v\n\n   \n1,a\n", {}, RFC_4180, [row(REFUSED, REFUSED), row(1, "a")], [row(1, "a")],
    ),
    "lines of blanks, without multiLine": (b"id,v\n\n   \n1,a\n", {}, ONE_LINE, [row(1, "a")], [row(1, "a")]),
    "lines of tabs, with multiLine": (
        b"id,v\n\t\n1,a\n", {}, RFC_4180, [row(REFUSED, REFUSED), row(1, "a")], [REFUSED, row(1, "a")],
    ),
    "lines of tabs": (b"id,v\n\t\n1,a\n", {}, ONE_LINE, [row(1, "a")], [REFUSED, row(1, "a")]),
    "comments": (
        b"#x\nid,v\n#1,a\n2,b\n", {"comment": "#"}, {**RFC_4180, "comment": "#"}, [row(2, "b")], [row(2, "b")],
    ),
    # "an empty field in quotes, or another of `null_values` in quotes"
    "null in quotes": (
        b'id,v\n1,NULL\n2,"NULL"\n3,\n', {"null_values": ["NULL"]}, {**RFC_4180, "nullValue": "NULL"},
        [row(1, None), row(2, None), row(3, None)], [row(1, None), row(2, "NULL"), row(3, "")],
    ),
    "a mark at the start": (b"\xef\xbb\xbfid,v\n1,a\n", {}, RFC_4180, [row(1, "a")], [row(1, "a")]),
    "NUL bytes": (b"id,v\n1,a\0b\n", {}, RFC_4180, [row(1, "a\0b")], FILE_REFUSED),
    # "bytes that are not of `encoding`"
    "not UTF-8": (b"id,v\n1,a\xffb\n", {}, RFC_4180, [row(1, "a\ufffdb")], FILE_REFUSED),
    "nothing is quoted": (
        b'id,v\n1,"a\n2,"b"\n', {"quote": None}, {"header": True, "quote": ""},
        [row(1, '"a'), row(2, '"b"')], [row(1, '"a'), row(2, '"b"')],
    ),
}  # fmt: skip
"""By name: the file, our options and Spark's, then Spark's rows and ours."""


@pytest.mark.parametrize("name", FILES)
def test_files(comparison: Comparison, name: str) -> None:
    stored, ours, sparks, sparks_rows, our_rows = FILES[name]
    assert comparison.spark("csv", "id INT, v STRING", stored, **sparks) == sparks_rows
    assert comparison.ours("csv", "id INT, v STRING", stored, **ours) == our_rows


def test_null_in_a_not_null_column(comparison: Comparison) -> None:
    """null in a NOT NULL column"""
    ddl, stored = "id INT NOT NULL, v STRING", b"id,v\n,a\n"
    assert comparison.spark("csv", ddl, stored, **RFC_4180) == [row(None, "a")]
    assert comparison.ours("csv", ddl, stored) == [REFUSED]


def test_forms_of_dates(comparison: Comparison) -> None:
    """`1.2.2026` by the format of two digits each"""
    ddl, stored = "id INT, v DATE", b"id,v\n1,21.11.2026\n2,1.2.2026\n3,2026-11-21\n"
    sparks = comparison.spark("csv", ddl, stored, **RFC_4180, dateFormat="dd.MM.yyyy")
    assert sparks == [row(1, date(2026, 11, 21)), row(2, REFUSED), row(3, REFUSED)]
    ours = comparison.ours("csv", ddl, stored, date_format="%d.%m.%Y")
    assert ours == [row(1, date(2026, 11, 21)), row(2, date(2026, 2, 1)), REFUSED]
