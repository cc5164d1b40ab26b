"""CSV: what is a record, a field and a value, and what is refused."""

import csv
import io
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_job.formats.csv.dialect import Dialect
from spark_job.formats.protocol import FileFault, Limits
from tests.unit.format_reading import read_file

OPEN = "a broken quote: the file ends within a quoted field"
AFTER = "a broken quote: text follows the closing quote of a field; expected a delimiter or the line's end"


def one(ddl: str, field: str, **options: Any) -> Any:
    """The value of a single field of a column `v`; the reason if it is refused."""
    found = read_file("csv", f"id INT, v {ddl}", f"id;v\n1;{field}\n".encode(), delimiter=";", **options)
    return found.rows[0]["v"] if 0 in found.rows else found.reasons[0]


@pytest.mark.parametrize(
    ("ddl", "field", "value"),
    [
        ("STRING", " a ", " a "),
        ("STRING", "", None),
        ("STRING", '""', ""),
        ("STRING", '"a""b"', 'a"b'),
        ("STRING", 'a"b', 'a"b'),
        ("STRING", '"a;b"', "a;b"),
        ("INT", "+5", 5),
        ("INT", "-007", -7),
        ("TINYINT", "127", 127),
        ("BIGINT", "-9223372036854775808", -(1 << 63)),
        ("DOUBLE", "1e400", math.inf),
        ("DOUBLE", "-1e99999999999999999999999993", -math.inf),
        ("FLOAT", "1e-99999999999999999999999", 0.0),
        ("DECIMAL(10,2)", "1e+0000000000000000000000001", Decimal("10.00")),
        ("DOUBLE", "-Inf", -math.inf),
        ("DOUBLE", ".5", 0.5),
        ("DOUBLE", "5.", 5.0),
        ("DOUBLE", "1e00005", 100000.0),
        ("DOUBLE", "+1e00005", 100000.0),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("DECIMAL(4,2)", "1.005", Decimal("1.01")),
        ("DECIMAL(4,2)", "1e1", Decimal("10.00")),
        ("BOOLEAN", "TRUE", True),
        ("DATE", "2026-11-21", date(2026, 11, 21)),
        ("DATE", "2026-1-2", date(2026, 1, 2)),
        ("DATE", "2026", date(2026, 1, 1)),
        ("DATE", "2026-11-21T10:00:00Z", date(2026, 11, 21)),
        ("TIMESTAMP", "2026-11-21T10:00:00+02:00", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("TIMESTAMP", "2026-11-21T10:00:00+18:00", datetime(2026, 11, 20, 16, tzinfo=UTC)),
        ("TIMESTAMP", "2026-11-21 10:00:00+0200", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("TIMESTAMP", "2026-11-21 10:00", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("TIMESTAMP", "2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("TIMESTAMP", "2026-11-21T10:00:00.1234567Z", datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC)),
        ("TIMESTAMP_NTZ", "2026-11-21T10:00:00", datetime(2026, 11, 21, 10)),  # noqa: DTZ001 - no zone is the point
    ],
)
def test_a_value_fits(ddl: str, field: str, value: Any) -> None:
    assert one(ddl, field) == value


@pytest.mark.parametrize(
    ("ddl", "field"),
    [
        ("INT", "5.0"),
        ("INT", " 5"),
        ("INT", "0x1F"),
        ("INT", "2147483648"),
        ("INT", "٣"),
        ("INT", "9" * 5_000),
        ("TINYINT", "128"),
        ("DOUBLE", "1,5"),
        ("DOUBLE", "1d"),
        ("DOUBLE", "0x1p3"),
        ("DOUBLE", "1 "),
        ("DECIMAL(4,2)", "100"),
        ("DECIMAL(4,2)", "99.995"),
        ("DECIMAL(4,2)", "1,234"),
        ("DECIMAL(38,0)", "1e9999"),
        ("DECIMAL(38,0)", "0e99999999999999999999999"),
        ("BOOLEAN", "1"),
        ("BOOLEAN", "yes"),
        ("DATE", "2026-02-30"),
        ("DATE", "21.11.2026"),
        ("DATE", "20261121"),
        ("TIMESTAMP", "10:00"),
        ("TIMESTAMP", "2026-11-21T25:00:00Z"),
        ("TIMESTAMP", "2026-11-21T10:00:00+18:01"),
        ("TIMESTAMP", "2026-11-21T10:00:00-19:00"),
        ("TIMESTAMP", "1700000000"),
        ("TIMESTAMP_NTZ", "2026-11-21T10:00:00Z"),
    ],
)
def test_a_value_does_not_fit(ddl: str, field: str) -> None:
    expected = {"DECIMAL(4,2)": "decimal(4,2)", "DECIMAL(38,0)": "decimal(38,0)"}.get(ddl, ddl.lower())
    assert one(ddl, field) == f"v: the value does not fit {expected}"


@pytest.mark.parametrize("odd", ["", "0x1F", "1.5"])
def test_the_other_values_of_a_column_do_not_depend_on_an_odd_one(odd: str) -> None:
    fields = ["1", "2", odd, "4", "+5"]
    found = read_file("csv", "v INT, w STRING", "\n".join(["v,w", *(f"{field},x" for field in fields)]).encode())
    assert {number: row["v"] for number, row in found.rows.items()} == {
        number: int(field) if field else None
        for number, field in enumerate(fields)
        if field in ("", "1", "2", "4", "+5")
    }


@pytest.mark.parametrize(
    ("options", "ddl", "field", "value"),
    [
        ({"decimal_point": ","}, "DOUBLE", "1,5", 1.5),
        ({"decimal_point": ","}, "DECIMAL(4,2)", "-1,5", Decimal("-1.50")),
        ({"decimal_point": ","}, "DOUBLE", "1.5", "v: the value does not fit double"),
        ({"date_format": "%d.%m.%Y"}, "DATE", "21.11.2026", date(2026, 11, 21)),
        ({"date_format": "%d.%m.%Y"}, "DATE", "1.2.2026", date(2026, 2, 1)),
        ({"date_format": "%d.%m.%Y"}, "DATE", "31.02.2026", "v: the value does not fit date"),
        ({"date_format": "%d.%m.%Y"}, "DATE", "2026-11-21", "v: the value does not fit date"),
        ({"date_format": "%d %b %Y"}, "DATE", "21 Nov 2026", date(2026, 11, 21)),
        ({"date_format": "%Y%m%d"}, "DATE", "20261121", date(2026, 11, 21)),
        ({"date_format": "%Y%m%d"}, "DATE", "2026112", "v: the value does not fit date"),
        ({"timestamp_format": "%d.%m.%Y %H%M"}, "TIMESTAMP_NTZ", "1.2.2026 0930", datetime(2026, 2, 1, 9, 30)),  # noqa: DTZ001
        (
            {"timestamp_format": "%d.%m.%Y %H%M"},
            "TIMESTAMP_NTZ",
            "1.2.2026 930",
            "v: the value does not fit timestamp_ntz",
        ),
        (
            {"timestamp_format": "%d.%m.%Y %H:%M"},
            "TIMESTAMP",
            "21.11.2026 10:30",
            datetime(2026, 11, 21, 10, 30, tzinfo=UTC),
        ),
        (
            {"timestamp_format": "%d.%m.%Y %H:%M", "timezone": "Europe/Berlin"},
            "TIMESTAMP",
            "21.07.2026 10:30",
            datetime(2026, 7, 21, 8, 30, tzinfo=UTC),
        ),
        (
            {"timestamp_format": "%Y-%m-%dT%H:%M:%S%z", "timezone": "Europe/Berlin"},
            "TIMESTAMP",
            "2026-07-21T10:30:00-0500",
            datetime(2026, 7, 21, 15, 30, tzinfo=UTC),
        ),
        ({"timezone": "Europe/Berlin"}, "TIMESTAMP", "2026-07-21 10:30:00", datetime(2026, 7, 21, 8, 30, tzinfo=UTC)),
        ({"timezone": "Europe/Berlin"}, "TIMESTAMP", "2026-07-21T10:30:00Z", datetime(2026, 7, 21, 10, 30, tzinfo=UTC)),
        # The hour that is skipped in spring, and the one that occurs twice in autumn, as in Java.
        ({"timezone": "Europe/Berlin"}, "TIMESTAMP", "2026-03-29 02:30:00", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ({"timezone": "Europe/Berlin"}, "TIMESTAMP", "2026-10-25 02:30:00", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ({"null_values": ["", "NULL"]}, "INT", "NULL", None),
        ({"null_values": ["NULL"]}, "STRING", "", ""),
        ({"null_values": ["NULL"]}, "STRING", '"NULL"', "NULL"),
        ({"escape": "\\"}, "STRING", '"a\\"b"', 'a"b'),
        ({"escape": "\\"}, "STRING", '"a\\\\"', "a\\"),
        ({"escape": "\\"}, "STRING", '"a\\n;""b"', 'a\\n;"b'),
        ({"escape": "\\"}, "STRING", "C:\\new\\", "C:\\new\\"),
        ({"escape": "\\", "null_values": ["\\N"]}, "STRING", "\\N", None),
        ({"escape": '"'}, "STRING", '"a"""', 'a"'),
        ({"quote": None}, "STRING", '"a', '"a'),
        ({"quote": "'"}, "STRING", "'a;''b'", "a;'b"),
    ],
)
def test_options_say_how_values_are_written(options: dict[str, Any], ddl: str, field: str, value: Any) -> None:
    assert one(ddl, field, **options) == value


def test_columns_are_found_by_name_whatever_their_order() -> None:
    found = read_file("csv", "id INT, name STRING, more INT", b"name,other,id\na,x,1\n")
    assert found.values == [{"id": 1, "name": "a", "more": None}]


def test_without_a_header_columns_are_those_of_the_schema_in_order() -> None:
    assert read_file("csv", "id INT, name STRING", b"1,a\n", header=False).values == [{"id": 1, "name": "a"}]


def test_names_may_be_given_for_files_without_a_header() -> None:
    found = read_file("csv", "id INT, name STRING", b"x,a,1\n", header=["other", "name", "id"])
    assert found.values == [{"id": 1, "name": "a"}]


def test_blank_lines_comments_and_skipped_rows_are_no_records() -> None:
    stored = b"made by x\n\n#id\nid,n\r\n\r\n1,a\r\n   \n#2,b\n3,c"
    found = read_file("csv", "id INT, n STRING", stored, skip_rows=1, comment="#")
    assert {number: row["id"] for number, row in found.rows.items()} == {0: 1, 1: 3}


def test_a_bad_record_keeps_its_number_and_text() -> None:
    stored = b'id,n\n1,a\n2\n3,b,c\n4,"x"y\n5,"a\r\nb"\n6,e\rf\n,g\n8,"open\n9,z'
    found = read_file("csv", "id INT NOT NULL, n STRING", stored)
    assert found.rows == {0: {"id": 1, "n": "a"}, 4: {"id": 5, "n": "a\r\nb"}}
    assert found.reasons == {
        1: "found 1 field, expected 2",
        2: "found 3 fields, expected 2",
        3: AFTER,
        5: "a carriage return outside quotes; expected line ends of LF or CRLF",
        6: "id: NOT NULL, but it is missing or null",
        7: OPEN,
    }
    assert found.texts[2] == b"3,b,c"
    assert found.texts[7] == b'8,"open\n9,z'


def test_a_byte_order_mark_within_the_file_is_part_of_a_value() -> None:
    found = read_file("csv", "n STRING, id INT", "n,id\n\ufeffa,1\n\ufeff\nb,2".encode())
    assert found.values == [{"n": "\ufeffa", "id": 1}, {"n": "b", "id": 2}]
    assert found.reasons == {1: "found 1 field, expected 2"}
    alone = read_file("csv", "n STRING, id INT", "n,id\n\ufeff\n".encode())
    assert (alone.rows, alone.reasons) == ({}, {0: "found 1 field, expected 2"})


@pytest.mark.parametrize("chunk_bytes", [1, 10, 1 << 20])
def test_an_empty_field_behind_a_quoted_one_is_null_wherever_it_is(chunk_bytes: int) -> None:
    found = read_file("csv", "a STRING, b STRING", b'a,b\n"x",\n"y",""\n"z",', chunk_bytes=chunk_bytes)
    assert [row["b"] for row in found.values] == [None, "", None]


def test_a_quote_that_closes_in_another_record_is_no_silent_row() -> None:
    found = read_file("csv", "id INT, n STRING", b'id,n\n1,"a\n2,b\n3,"c"\n4,d\n')
    assert found.values == [{"id": 4, "n": "d"}]
    assert found.reasons == {0: AFTER}
    assert found.texts[0] == b'1,"a\n2,b\n3,"c"'


@pytest.mark.parametrize(
    ("stored", "options", "reason"),
    [
        (b"", {}, "it is empty; expected a header with the names of the columns"),
        (b"\x89PNG\r\n", {}, "not utf-8: at byte 0: invalid start byte"),
        (b"id,n\r1,a\r", {}, "divided into names: a carriage return outside quotes; expected line ends"),
        (b"<html>\n<body>", {}, "it has none of the schema's columns; it has <html>"),
        (b"id,n,id\n1,a,2", {}, "it has the column 'id' twice"),
        (
            b"ID,n\n1,a",
            {"ddl": "id INT NOT NULL, n STRING"},
            "id: NOT NULL, but the file has no such column; it has ID, n",
        ),
        (b"id,n\n1,\0", {}, "it holds NUL bytes, so it is no text in utf-8; is it utf-16, or another format?"),
        ("id,n\n1,é".encode("utf-16"), {}, "so set `encoding: utf-16`"),
        (b"id,n\n1,\x81", {"encoding": "cp1252"}, "not cp1252: at byte 7"),
        (b"id,n\n1,a" + b"\xc3", {}, "not utf-8: at byte 8: unexpected end of data"),
        (b'id,n\n1,"' + b"x\n" * 3_000, {"limit": 4_096}, "its last field is quoted, and the quote does not end"),
        (b"id,n\n1," + b"x" * 5_000, {"limit": 4_096}, "limit max_record_bytes: it holds a record of more than 4096"),
        (b'"id"x,n\n1,a', {}, f"its header: {AFTER}"),
        (
            "id,n\n1,a".encode("utf-16-le"),
            {"encoding": "utf-16"},
            "not utf-16: at byte 0: UTF-16 stream does not start",
        ),
    ],
)
def test_a_file_is_refused_with_a_reason_that_a_person_understands(
    stored: bytes, options: dict[str, Any], reason: str
) -> None:
    ddl, limit = options.pop("ddl", "id INT, n STRING"), options.pop("limit", 1 << 20)
    with pytest.raises(FileFault) as fault:
        read_file("csv", ddl, stored, limits=Limits(max_record_bytes=limit), chunk_bytes=512, **options)
    assert reason in fault.value.reason


def test_given_names_that_do_not_fit_the_schema_refuse_the_file() -> None:
    with pytest.raises(FileFault, match="it has none of the schema's columns; it has a, b"):
        read_file("csv", "id INT", b"1,2\n", header=["a", "b"])


def test_several_columns_may_have_no_name() -> None:
    assert read_file("csv", "id INT", b"id,,\n1,,\n").values == [{"id": 1}]


def test_a_header_alone_is_a_file_without_rows() -> None:
    assert read_file("csv", "id INT", b"id\n").rows == {}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252"])
@pytest.mark.parametrize("chunk_bytes", [1, 3, 1 << 20])
def test_encodings(encoding: str, chunk_bytes: int) -> None:
    stored = "id,n\n1,é\n2,ü\n".encode(encoding)
    found = read_file(
        "csv", "id INT, n STRING", stored, encoding=encoding.removesuffix("-sig"), chunk_bytes=chunk_bytes
    )
    assert found.values == [{"id": 1, "n": "é"}, {"id": 2, "n": "ü"}]


@pytest.mark.parametrize("field", ["x" * 5_000, '"' + "x" * 5_000 + '"'])
def test_a_record_above_the_limit_refuses_the_file_however_it_is_read(field: str) -> None:
    stored = f'id,n\n1,"a"\n2,{field}\n'.encode()
    for chunk_bytes in (512, 1 << 20):
        with pytest.raises(FileFault, match="it holds a record of more than 4096 bytes"):
            read_file("csv", "id INT, n STRING", stored, limits=Limits(max_record_bytes=4_096), chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("escape", [None, "\\"])
@given(text=st.text(st.sampled_from('a,"\n\\'), max_size=14))
def test_lines_that_are_whole_at_a_glance_are_whole_at_a_closer_look(text: str, escape: str | None) -> None:
    dialect = Dialect(escape=escape)
    if dialect.are_whole(text.encode()):
        assert all(dialect.whole.fullmatch(line) for line in text.encode().split(b"\n") if b'"' in line)


@pytest.mark.parametrize("text", ['"a","b ""c""",d\ne,,"f"', '"a"\n"b"', '""', "a,b\nc"])
def test_usual_lines_are_whole_at_a_glance(text: str) -> None:
    assert Dialect().are_whole(text.encode())


@pytest.mark.parametrize("chunk_bytes", [4, 1 << 20])
def test_blank_lines_and_comments_between_lines_are_no_records(chunk_bytes: int) -> None:
    stored = b'a\n\nid,n\n\n1,"x"\n  \n#2,"y"\n3,"#"\n\n'
    found = read_file("csv", "id INT, n STRING", stored, comment="#", skip_rows=1, chunk_bytes=chunk_bytes)
    assert found.rows == {0: {"id": 1, "n": "x"}, 1: {"id": 3, "n": "#"}}


TEXTS = st.text(st.sampled_from('ab,;"\n\r\\é# '), max_size=6)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS), max_size=8),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    chunk_bytes=st.integers(1, 40) | st.just(1 << 20),
    first_record=st.integers(0, 9),
)
def test_what_was_written_is_read(
    rows: list[tuple[str, str]], quoting: int, line_end: str, chunk_bytes: int, first_record: int
) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, quoting=quoting, lineterminator=line_end).writerows([("a", "b"), *rows])  # type: ignore[arg-type]
    found = read_file(
        "csv", "a STRING, b STRING", out.getvalue().encode(), chunk_bytes=chunk_bytes, first_record=first_record
    )
    assert found.reasons == {}
    expected = {number: {"a": a, "b": b} for number, (a, b) in enumerate(rows) if number >= first_record}
    assert found.rows == expected


@pytest.mark.parametrize("other", [b"", b"  ", b"#c", b"#c,d"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_blank_lines_and_comments_are_no_records_wherever_they_are(other: bytes, place: int) -> None:
    lines = [b"1,a", b"2,b"]
    lines.insert(place, other)
    found = read_file("csv", "id INT, s STRING", b"\n".join(lines), header=False, comment="#")
    assert found.rows == {0: {"id": 1, "s": "a"}, 1: {"id": 2, "s": "b"}}
    assert found.reasons == {}
