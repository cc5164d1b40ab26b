"""The options of CSV that say how values are written, beside those of Spark's reader.

docs/format-csv.md has the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.spark.format_comparison import REFUSED, Comparison, same

pytestmark = pytest.mark.spark

RFC_4180 = {"header": True, "escape": '"', "multiLine": True, "sep": ";"}


@dataclass(frozen=True)
class Case:
    """One option of ours, and what says the same to Spark. `different`: by text, what Spark makes of it and what we do;
    the comments name rows of docs/format-csv.md."""

    data_type: str
    ours: Mapping[str, Any]
    sparks: Mapping[str, Any]
    texts: Sequence[str]
    different: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


COMMA, GERMAN = {"decimal_point": ","}, {"locale": "de-DE"}
BERLIN, IN_BERLIN = {"timezone": "Europe/Berlin"}, {"timeZone": "Europe/Berlin"}
BY_DAY = {"date_format": "%d.%m.%Y"}
BY_SECOND, SPARKS_SECOND = {"timestamp_format": "%d.%m.%Y %H:%M:%S"}, "dd.MM.yyyy HH:mm:ss"
SECONDS = (
    *(
        "21.11.2026 10:00:00",
        "21.06.2026 10:00:00",
        "29.03.2026 02:30:00",
        "25.10.2026 02:30:00",
        "01.01.1890 00:00:00",
    ),
    *("21.11.2026", "21.11.2026 10:00", "2026-11-21 10:00:00", "21.11.2026 24:00:00", "21.11.2026 10:00:60"),
    *("31.02.2026 10:00:00", "21.11.2026 10:00:00Z", "01.01.0001 00:00:00", "31.12.9999 23:59:59"),
)
CASES: Mapping[str, Case] = {
    "decimal_point of DECIMAL": Case(
        "DECIMAL(8,2)",
        COMMA,
        GERMAN,
        [
            "1,5",
            "-1,5",
            "1",
            "1,005",
            "-1,005",
            "1234,5",
            "1.234,5",
            "1.5",
            "1,5E1",
            "1,5e1",
            "+1,5",
            ",5",
            "5,",
            "1,2,3",
        ],
        {
            # The row "points in a number with `decimal_point` `,`: `1.234,5`, `1.5`"
            "1.234,5": (Decimal("1234.50"), REFUSED),
            "1.5": (Decimal("15.00"), REFUSED),
            # "`+1,5`, `1,5e1` with `decimal_point` `,`"
            "+1,5": (REFUSED, Decimal("1.50")),
            "1,5e1": (REFUSED, Decimal("15.00")),
        },
    ),
    "decimal_point of DOUBLE": Case(
        "DOUBLE",
        COMMA,
        GERMAN,
        ["1", "-2e3", "NaN", "1,5", "-1,5e3", "1.5", "1.234,5", "1,2,3"],
        # "`decimal_point` for `DOUBLE` and `FLOAT`"
        {"1,5": (REFUSED, 1.5), "-1,5e3": (REFUSED, -1500.0), "1.5": (1.5, REFUSED)},
    ),
    "decimal_point of FLOAT": Case(
        "FLOAT", COMMA, GERMAN, ["1", "1,5", "1.5"], {"1,5": (REFUSED, 1.5), "1.5": (1.5, REFUSED)}
    ),
    "date_format": Case(
        "DATE",
        BY_DAY,
        {"dateFormat": "dd.MM.yyyy"},
        [
            *("21.11.2026", "01.01.0001", "31.12.9999", "2026-11-21", "21.11.26", "31.02.2026", "29.02.2025"),
            *(" 21.11.2026", "21.11.2026 ", "21.11.12026", "00.11.2026", "21/11/2026", "21.11.2026 10:00", "1.2.2026"),
            "\u0662\u0661.11.2026",
        ],
        # "`1.2.2026` by the format of two digits each"
        {"1.2.2026": (REFUSED, date(2026, 2, 1))},
    ),
    "date_format of one digit": Case(
        "DATE", BY_DAY, {"dateFormat": "d.M.yyyy"}, ["1.2.2026", "21.11.2026", "01.02.2026", "1.2.26"]
    ),
    "date_format without marks": Case(
        "DATE",
        {"date_format": "%Y%m%d"},
        {"dateFormat": "yyyyMMdd"},
        ["20261121", "2026112", "202611", "202611211", "20260230"],
    ),
    "date_format with a name": Case(
        "DATE",
        {"date_format": "%d %b %Y"},
        {"dateFormat": "dd MMM yyyy"},
        ["21 Nov 2026", "21 nov 2026", "21 November 2026", "21 Mai 2026"],
    ),
    "date_format with two digits of a year": Case(
        "DATE",
        {"date_format": "%d.%m.%y"},
        {"dateFormat": "dd.MM.yy"},
        ["21.11.26", "21.11.68", "21.11.69", "21.11.99"],
        # The row "years of two digits, by `%y`"
        {"21.11.69": (date(2069, 11, 21), date(1969, 11, 21)), "21.11.99": (date(2099, 11, 21), date(1999, 11, 21))},
    ),
    "timestamp_format": Case("TIMESTAMP", BY_SECOND, {"timestampFormat": SPARKS_SECOND}, SECONDS),
    "timestamp_format and timezone": Case(
        "TIMESTAMP",
        {**BY_SECOND, **BERLIN},
        {"timestampFormat": SPARKS_SECOND, **IN_BERLIN},
        SECONDS,
        # "`DATE`, `TIMESTAMP` outside the years 1 to 9999, such as `19750`": it is in the year 0 in UTC
        {"01.01.0001 00:00:00": (-62_135_600_008_000_000, REFUSED)},
    ),
    "timestamp_format of TIMESTAMP_NTZ": Case(
        "TIMESTAMP_NTZ", {**BY_SECOND, **BERLIN}, {"timestampNTZFormat": SPARKS_SECOND, **IN_BERLIN}, SECONDS
    ),
    "timestamp_format with a fraction": Case(
        "TIMESTAMP",
        {"timestamp_format": "%Y-%m-%d %H:%M:%S.%f"},
        {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"},
        ["2026-11-21 10:00:00.123456", "2026-11-21 10:00:00.000001", "2026-11-21 10:00:00.5", "2026-11-21 10:00:00"],
    ),
    "timestamp_format with a zone": Case(
        "TIMESTAMP",
        {"timestamp_format": "%Y-%m-%d %H:%M:%S %z", **BERLIN},
        {"timestampFormat": "yyyy-MM-dd HH:mm:ss XXX", **IN_BERLIN},
        [f"2026-11-21 10:00:00 {zone}" for zone in ("Z", "+02:00", "-05:30", "+0200", "+18:00", "+18:01", "UTC", "")],
        # The row "zones by `%z`: `+0200`, more than 18 hours"
        {
            "2026-11-21 10:00:00 +0200": (REFUSED, datetime(2026, 11, 21, 8, tzinfo=UTC)),
            "2026-11-21 10:00:00 +18:01": (REFUSED, datetime(2026, 11, 20, 15, 59, tzinfo=UTC)),
        },
    ),
    "timestamp_format of twelve hours": Case(
        "TIMESTAMP",
        {"timestamp_format": "%m/%d/%Y %I:%M %p"},
        {"timestampFormat": "MM/dd/yyyy hh:mm a"},
        [f"11/21/2026 {time}" for time in ("10:00 AM", "10:00 PM", "12:00 AM", "12:00 PM", "10:00 am", "13:00 PM")],
    ),
    "timezone": Case(
        "TIMESTAMP",
        BERLIN,
        IN_BERLIN,
        [
            *("2026-11-21T10:00:00", "2026-06-21 10:00:00", "2026-11-21", "2026-06", "2026-11-21 10:00"),
            *("2026-03-29T02:30:00", "2026-10-25T02:30:00", "1890-01-01T00:00:00", "1500-01-01T00:00:00"),
            *("2026-11-21T10:00:00Z", "2026-11-21T10:00:00+05:00", "2026-11-21T10:00:00.123456"),
            *("0001-01-01T12:00:00", "9999-12-31T23:59:59"),
        ],
    ),
    "timezone of TIMESTAMP_NTZ": Case(
        "TIMESTAMP_NTZ", BERLIN, IN_BERLIN, ["2026-11-21T10:00:00", "2026-03-29T02:30:00", "2026-11-21"]
    ),
    "timezone of DATE": Case("DATE", BERLIN, IN_BERLIN, ["2026-11-21", "2026-11-21T23:30:00Z"]),
}


@pytest.mark.parametrize("name", CASES)
def test_options_do_as_sparks_but_for_a_list_of_differences(comparison: Comparison, name: str) -> None:
    case = CASES[name]
    stored = "".join(["id;v\n", *(f"{number};{text}\n" for number, text in enumerate(case.texts))]).encode()
    ddl = f"id INT, v {case.data_type}"
    ours = comparison.ours("csv", ddl, stored, delimiter=";", **case.ours)
    sparks = comparison.spark("csv", ddl, stored, **RFC_4180, **case.sparks)
    assert len(ours) == len(sparks) == len(case.texts)
    found = {}
    for text, our, spark in zip(case.texts, ours, sparks, strict=True):
        assert isinstance(spark, dict)
        pair = (spark["v"], our["v"] if isinstance(our, dict) else our)
        if not same(*pair):
            found[text] = pair
    assert found.keys() == case.different.keys(), found
    assert [text for text, pair in found.items() if not same(pair, case.different[text])] == [], found


VALUES: Mapping[str, Any] = {
    "1,5": Decimal("1.50"),
    "21.11.2026": date(2026, 11, 21),
    "21.11.2026 10:00:00": datetime(2026, 11, 21, 9, tzinfo=UTC),
}


def test_the_options_together_by_hand(comparison: Comparison) -> None:
    """That both read what is meant, and not only the same."""
    ddl, stored = "a DECIMAL(8,2), b DATE, c TIMESTAMP", f"a;b;c\n{';'.join(VALUES)}\n".encode()
    ours = comparison.ours("csv", ddl, stored, delimiter=";", **COMMA, **BY_DAY, **BY_SECOND, **BERLIN)
    formats = {"dateFormat": "dd.MM.yyyy", "timestampFormat": SPARKS_SECOND}
    sparks = comparison.spark("csv", ddl, stored, **RFC_4180, **GERMAN, **formats, **IN_BERLIN)
    assert ours == sparks == [dict(zip("abc", VALUES.values(), strict=True))]
