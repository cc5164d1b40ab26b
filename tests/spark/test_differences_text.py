"""JSON, XML and text that Spark and we read differently: docs/format-json.md, format-xml.md and format-text.md have the
rows."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.spark.format_comparison import FILE_REFUSED, REFUSED, Comparison, same

pytestmark = pytest.mark.spark

DDL = "id INT, v STRING"


def row(number: Any, text: Any = None) -> dict[str, Any]:
    return {"id": number, "v": text}


LOST = row(REFUSED, REFUSED)
"""What Spark makes of a file that it cannot parse: one record of nulls."""

JSON_FILES: Mapping[str, tuple[bytes, str | None, Any, Any]] = {
    "an array": (b'[{"id": 1},\n {"id": 2}]', None, [row(1), row(2)], [row(1), row(2)]),
    "an empty array": (b"[]", None, [], []),
    "objects that follow each other": (b'{"id": 1}\n{"id": 2}', None, [row(1)], [row(1), row(2)]),
    "text after the array": (b'[{"id": 1}] {"id": 2}', None, [row(1)], FILE_REFUSED),
    "an array that does not end": (b'[{"id": 1},{"id": 2}', None, [LOST], FILE_REFUSED),
    # "an element that is not JSON, or no object"
    "an element that is not JSON": (b'[{"id": 1},{"id": x}]', None, [LOST], [row(1), REFUSED]),
    "an element that is no object": (b'[{"id": 1},7,null]', None, [LOST], [row(1), REFUSED, REFUSED]),
    "a value that does not fit its column": (
        b'[{"id": 1},{"id": "x"}]', None, [row(1, REFUSED), row(REFUSED, REFUSED)], [row(1), REFUSED],
    ),
    "an empty file": (b"", None, [], FILE_REFUSED),
    "names in another case": (b'[{"ID": 1}]', None, [row(None)], [row(None)]),
    "an array inside an object": (b'{"a": {"b": [{"id": 1}]}}', "a.b", [row(None)], [row(1)]),
}  # fmt: skip
"""By name: the file, our option `records`, Spark's rows and ours."""


@pytest.mark.parametrize("name", JSON_FILES)
def test_json_files(comparison: Comparison, name: str) -> None:
    stored, records, sparks_rows, our_rows = JSON_FILES[name]
    assert comparison.spark("json", DDL, stored, multiLine=True) == sparks_rows
    assert comparison.ours("json", DDL, stored, records=records) == our_rows


DAY = datetime(2026, 11, 21, tzinfo=UTC)
TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
TODAY = "the time on the day on which it is read"
XML_VALUES: Mapping[str, Sequence[str]] = {
    "STRING": ["a", " a ", "", "&lt;&amp;", "a\tb", "a\nb", "\u00a0a\u00a0", "null", "<![CDATA[<x>]]>", "a<!-- c -->b"],
    "TINYINT": ["127", "-127", "128", "-128"],
    "INT": ["5", "+5", "-007", " 5 ", "5.0", "0x1F", "2147483648", "1,000", "", "--5", "+-5", "\u0663", "-2147483648"],
    "BIGINT": ["9223372036854775807", "+9223372036854775807", "-9223372036854775807"],
    "FLOAT": ["1.5", "0.1", "1e39", "NaN", "Infinity"],
    "DOUBLE": [
        *("1.5", "1e400", "5e-324", "-0.0", " 1 ", "NaN", "Infinity", "-Infinity", "+Infinity"),
        *("Inf", "-Inf", "1d", "0x1p3", "1,234.5", "-NaN"),
    ],
    "DECIMAL(4,2)": ["1.005", "99.995", "100", "1e1", "-1.5", "NaN", "1e-5", "1,234", "1,5"],
    "BOOLEAN": ["true", "TRUE", "false", "yes", "t", "1", "0"],
    "DATE": [
        *("2026-11-21", "2026-02-30", "0001-01-01", "9999-12-31", "20261121", "1500-02-28", "12026-01-01"),
        *("2026-1-2", "2026-11", "2026", "2026-11-21T10:00:00Z", "0000-01-01"),
    ],
    "TIMESTAMP": [
        *("2026-11-21T10:00:00Z", "2026-11-21 10:00:00", "2026-11-21 10:00", "2026-11-21", "2026-11"),
        *("2026-11-21T10:00:00.1234567Z", "2026-11-21T10:00:00+02:00", "2026-11-21T10:00:00+02", "1700000000"),
        *("2026-11-21T10:00:00+19:00", "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999Z", "2026-11-21T24:00:00Z"),
        *("2026-11-21T10:00Z", "10:00", "2026-11-21T10", "2026-11-21T10:00:00 UTC", "2026-11-21T10:00:00Europe/Berlin"),
    ],
    "TIMESTAMP_NTZ": ["2026-11-21T10:00:00", "2026-11-21T10:00:00Z", "2026-11-21", "2026-11-21T10:00"],
}
XML_DIFFERENT: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
    # "the least `INT` or `BIGINT`"
    "INT": {
        "-2147483648": (REFUSED, -2147483648),
        # "two signs, digits of other scripts; `1` and `0` for `BOOLEAN`"
        "--5": (5, REFUSED),
        "+-5": (-5, REFUSED),
        "\u0663": (3, REFUSED),
    },
    "DOUBLE": {
        # "`Inf`, `-Inf`"
        "Inf": (REFUSED, float("inf")),
        "-Inf": (REFUSED, float("-inf")),
        # "commas in a number, `0x1p3`, `1d`, `-NaN`, the year 0, other forms of times"
        "1d": (1.0, REFUSED),
        "0x1p3": (8.0, REFUSED),
        "1,234.5": (1234.5, REFUSED),
        "-NaN": (float("nan"), REFUSED),
    },
    "DECIMAL(4,2)": {"1,5": (Decimal("15.00"), REFUSED)},
    # "two signs, digits of other scripts; `1` and `0` for `BOOLEAN`"
    "BOOLEAN": {"1": (True, REFUSED), "0": (False, REFUSED)},
    "DATE": {
        # "`2026-1-2`, `2026-11`, `2026` or a timestamp for a `DATE`"
        "2026-1-2": (REFUSED, date(2026, 1, 2)),
        "2026-11": (REFUSED, date(2026, 11, 1)),
        "2026": (REFUSED, date(2026, 1, 1)),
        "2026-11-21T10:00:00Z": (REFUSED, date(2026, 11, 21)),
        # "the year 0"
        "0000-01-01": (-719_528, REFUSED),
    },
    # As for CSV.
    "TIMESTAMP": {
        "2026-11-21T10:00Z": (REFUSED, TEN),
        "10:00": (TODAY, REFUSED),
        "2026-11-21T10": (TEN, REFUSED),
        "2026-11-21T10:00:00 UTC": (TEN, REFUSED),
        "2026-11-21T10:00:00Europe/Berlin": (TEN.replace(hour=9), REFUSED),
    },
}


@pytest.mark.parametrize("data_type", XML_VALUES)
def test_values_of_xml_are_sparks_but_for_a_list_of_differences(comparison: Comparison, data_type: str) -> None:
    texts = XML_VALUES[data_type]
    rows = "".join(f"<one><id>{number}</id><v>{text}</v></one>" for number, text in enumerate(texts))
    ddl, stored = f"id INT, v {data_type}", f"<all>{rows}</all>".encode()
    ours = comparison.ours("xml", ddl, stored, row_tag="one")
    sparks = comparison.spark("xml", ddl, stored, rowTag="one")
    assert len(ours) == len(sparks) == len(texts)
    found = {}
    for text, our, spark in zip(texts, ours, sparks, strict=True):
        assert isinstance(spark, dict)
        pair = (spark["v"], our["v"] if isinstance(our, dict) else our)
        if not same(*pair):
            found[text] = (TODAY if text == "10:00" and isinstance(pair[0], datetime) else pair[0], pair[1])
    listed = XML_DIFFERENT.get(data_type, {})
    assert found.keys() == listed.keys()
    assert [text for text, pair in found.items() if not same(pair, listed[text])] == []


ENTITY = b'<!DOCTYPE all [<!ENTITY e "x">]>'
XML_FILES: Mapping[str, tuple[str, bytes, Any, Any]] = {
    # "an element twice, for a column that is no `ARRAY`"
    "an element twice": (DDL, b"<all><one><id>1</id><id>2</id></one></all>", [row(2)], [REFUSED]),
    "a value that does not fit its column": (
        DDL, b"<all><one><v>a</v><id>x</id></one></all>", [row(REFUSED, "a")], [REFUSED],
    ),
    "fields after it": (DDL, b"<all><one><id>x</id><v>a</v></one></all>", [LOST], [REFUSED]),
    # "an attribute that does not fit its column"
    "an attribute that does not fit": ("_id INT", b'<all><one id="x"/></all>', FILE_REFUSED, [REFUSED]),
    "an empty attribute": ("_id INT", b'<all><one id=""/></all>', FILE_REFUSED, [{"_id": None}]),
    # "what is not well-formed"
    "not well-formed": (
        DDL, b"<all><one><id>1</id></one><one><id>2</one><one><id>3</id></one></all>", [row(1), LOST], FILE_REFUSED,
    ),
    "the end is missing": (DDL, b"<all><one><id>1</id></one>", [row(1)], FILE_REFUSED),
    # "a file that declares entities"
    "an entity": (DDL, ENTITY + b"<all><one><v>&e;</v></one></all>", [LOST], FILE_REFUSED),
    # "no element named `row_tag`"
    "no record": (DDL, b"<all><two><id>1</id></two></all>", [], FILE_REFUSED),
    # "names that differ in case"
    "names in another case": (DDL, b"<all><one><ID>1</ID></one></all>", [row(1)], [row(None)]),
    # "elements within a `STRING`"
    "an element in a STRING": (DDL, b"<all><one><v>a<b>c</b>d</v></one></all>", [row(None, "a<b>c</b>d")], [REFUSED]),
    "a map that is empty": ("m MAP<STRING, INT>", b"<all><one><m/></one></all>", [{"m": None}], [{"m": None}]),
    # "a `MAP` of attributes alone"
    "a map of attributes alone": (
        "m MAP<STRING, INT>", b'<all><one><m a="5"/></one></all>', [{"m": None}], [{"m": {"_a": 5}}],
    ),
    "a map of attributes and elements": (
        "m MAP<STRING, INT>", b'<all><one><m a="5"><b>6</b></m></one></all>',
        [{"m": {"_a": 5, "b": 6}}], [{"m": {"_a": 5, "b": 6}}],
    ),
    "a record inside another": (
        "id INT, one STRUCT<id: INT>", b"<all><one><id>1</id><one><id>2</id></one></one></all>",
        [{"id": 1, "one": {"id": 2}}], [{"id": 1, "one": {"id": 2}}],
    ),
    "blanks around an attribute": ("_v STRING", b'<all><one v=" a "/></all>', [{"_v": "a"}], [{"_v": "a"}]),
    "an empty struct": (
        "s STRUCT<a: INT>", b"<all><one><s/></one></all>", [{"s": {"a": None}}], [{"s": {"a": None}}],
    ),
    "nulls in an array": (
        "t ARRAY<INT>", b"<all><one><t>1</t><t/></one></all>", [{"t": [1, None]}], [{"t": [1, None]}],
    ),
    # "the least `INT` or `BIGINT`"
    "the least BIGINT": (
        "v BIGINT", b"<all><one><v>-9223372036854775808</v></one></all>", [{"v": REFUSED}], [{"v": -(1 << 63)}],
    ),
    "the least BIGINT in an attribute": (
        "_v BIGINT", b'<all><one v="-9223372036854775808"/></all>', FILE_REFUSED, [{"_v": -(1 << 63)}],
    ),
}  # fmt: skip
"""By name: the schema, the file, Spark's rows and ours."""


@pytest.mark.parametrize("name", XML_FILES)
def test_xml_files(comparison: Comparison, name: str) -> None:
    ddl, stored, sparks_rows, our_rows = XML_FILES[name]
    assert comparison.spark("xml", ddl, stored, rowTag="one") == sparks_rows
    assert comparison.ours("xml", ddl, stored, row_tag="one") == our_rows


def test_xml_null_in_a_not_null_column(comparison: Comparison) -> None:
    """null in a NOT NULL column"""
    ddl, stored = "id INT NOT NULL, v STRING", b"<all><one><v>a</v></one></all>"
    assert comparison.spark("xml", ddl, stored, rowTag="one") == [row(None, "a")]
    assert comparison.ours("xml", ddl, stored, row_tag="one") == [REFUSED]


def texts(*values: Any) -> list[Any]:
    return [value if value is REFUSED else {"value": value} for value in values]


TEXT_FILES: Mapping[str, tuple[bytes, bool, Any, Any]] = {
    "LF": (b"a\n\n  \nb", False, texts("a", "", "  ", "b"), texts("a", "", "  ", "b")),
    "CRLF": (b"a\r\nb\r\n", False, texts("a", "b"), texts("a", "b")),
    "a CR without an LF": (b"a\rb\r", False, texts("a", "b"), texts("a\rb\r")),
    "a mark at the start": (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", False, texts("a", "\ufeffb"), texts("a", "\ufeffb")),
    "a whole file": (b"a\r\nb\n", True, texts("a\r\nb\n"), texts("a\r\nb\n")),
    # "a byte-order mark, with `whole`"
    "a mark at the start of a whole file": (b"\xef\xbb\xbfa\n", True, texts("\ufeffa\n"), texts("a\n")),
}
"""By name: the file, whether it is read as a whole, Spark's rows and ours."""


@pytest.mark.parametrize("name", TEXT_FILES)
def test_text_files(comparison: Comparison, name: str) -> None:
    stored, whole, sparks_rows, our_rows = TEXT_FILES[name]
    assert comparison.spark("text", "value STRING", stored, wholetext=whole) == sparks_rows
    assert comparison.ours("text", "value STRING", stored, whole=whole) == our_rows


def test_text_that_is_not_utf8(comparison: Comparison) -> None:
    """bytes that are not UTF-8: Spark stores them in its STRING."""
    stored = b"a\nna\xefve\nb\n"
    with pytest.raises(UnicodeDecodeError):
        comparison.spark("text", "value STRING", stored)
    assert comparison.ours("text", "value STRING", stored) == texts("a", REFUSED, "b")


BINARY_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"


@pytest.mark.parametrize("stored", [b"\x89PNG\r\n\x1a\n\0", b"a\n"])
def test_binary_files(comparison: Comparison, stored: bytes) -> None:
    [spark] = comparison.spark("binaryFile", BINARY_FILE, stored)
    [ours] = comparison.ours("binary", "content BINARY, length BIGINT", stored)
    assert {name: spark[name] for name in ours} == ours == {"content": stored, "length": len(stored)}


def test_an_empty_binary_file(comparison: Comparison) -> None:
    """Spark passes it by, as its sources do with empty splits."""
    assert comparison.spark("binaryFile", BINARY_FILE, b"") == []
    assert comparison.ours("binary", "content BINARY, length BIGINT", b"") == [{"content": b"", "length": 0}]
