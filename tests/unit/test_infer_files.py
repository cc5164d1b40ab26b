"""Formats, dialects and records from the beginning of a file."""

import gzip
import io
import json
import zipfile
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.format_options import CsvOptions, JsonOptions, XmlOptions
from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.text import TextForms
from blizzard.storage.memory import MemoryStore
from spark_job.formats.protocol import FileFault
from spark_job.infer.csv_dialect import dialect_of, forms_of
from spark_job.infer.csv_options import options_of
from spark_job.infer.heads import Head, read_heads
from spark_job.infer.json_values import NotJson, document_values, line_values, parsed, records_path
from spark_job.infer.observe import Reading, Sample, observe_files, observe_heads
from spark_job.infer.sniff import sniff
from spark_job.infer.texts import encoding_of
from tests.unit.strategies import memory_store


def head(data: bytes, name: str = "f", max_bytes: int = 1 << 20) -> Head:
    store = memory_store()
    (found,) = read_heads(store, store.put(name, data), max_bytes)
    return found


def sniffed(data: bytes, name: str = "f") -> tuple[str | None, Any]:
    found = sniff(head(data, name))
    return found.format, found.options.get("records") or found.options.get("row_tag") or found.what


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a":1}\n{"a":2}\n', ("ndjson", "")),
        (b'{"a":1}', ("ndjson", "")),
        (b'{"a":1}\n{"a":2}\nbroken\n' + b'{"a":3}\n' * 9, ("ndjson", "")),
        (b'[{"a":1},\n {"a":2}]', ("json", "")),
        (b'{\n  "a": 1\n}\n{\n  "a": 2\n}', ("json", "")),
        (b'{"a":1}{"a":2}', ("json", "")),
        (b'{"Records": [{"a":1,"b":"some text"}]}', ("json", "Records")),
        (b'{"count": 2, "response": {"items": [{"a":1},{"a":2,"b":"long enough"}]}}', ("json", "response.items")),
        (b'{"order_id": 7, "items": [{"sku":"a","price":1.5},{"sku":"b","price":2.5}]}', ("ndjson", "")),
        (b"[1, 2, 3]", ("text", "")),
        (b"<?xml version='1.0'?><orders><order id='1'/><order id='2'/></orders>", ("xml", "order")),
        (b"<!DOCTYPE html><html><body/></html>", (None, "a page of HTML")),
        (b"id,name\n1,a\n2,b\n", ("csv", "")),
        (b"1,a\n2,b\n3,c\n", ("csv", "")),
        (b"some text, with commas\nand more of it\n", ("text", "")),
        (b"first line, one comma\nsecond line, one comma\nthird line, one comma\n", ("text", "")),
        (b"PAR1rest", ("parquet", "")),
        (b"Obj\x01rest", ("avro", "")),
        (b"ORCrest", ("orc", "")),
        (b"PK\x03\x04", (None, "an Office document, or a zip by another name")),
        (bytes(257) + b"ustar", (None, "a tar archive")),
        (b"\0\1\2\3", ("binary", "bytes that are no text")),
        (b" \n ", (None, "an empty file")),
        ("größe\n".encode("cp1252"), (None, "text in cp1252; in other encodings than UTF-8 only CSV and XML are read")),
    ],
)
def test_the_format_follows_from_the_content(data: bytes, found: tuple[str | None, str]) -> None:
    assert sniffed(data) == found


def test_csv_is_believed_by_its_name() -> None:
    assert sniffed(b"id\na\nb\n", "f.csv")[0] == "csv"
    assert sniffed(b"id\na\nb\n")[0] == "text"


@pytest.mark.parametrize("compress", [gzip.compress, lambda data: data])
def test_the_beginning_of_a_file_is_read_whatever_its_extension(compress: Any) -> None:
    data = compress(b"x" * 100)
    for name in ("a.gz", "a.txt"):
        found = head(data, name, 10)
        assert (found.data, found.is_whole) == (b"x" * 10, False)
        assert found.by_extension == ((name == "a.gz") == (data[:2] == b"\x1f\x8b"))
    assert head(data, "a", 100).is_whole


def zipped(**members: bytes) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return body.getvalue()


def test_the_members_of_a_zip_are_looked_into() -> None:
    store = memory_store()
    data = zipped(**{"empty/": b"", "a.csv": b"id,n\n1,2\n", "b.csv.gz": gzip.compress(b"id,m\n3,x\n")})
    found = read_heads(store, store.put("a.zip", data), 3000)
    assert [(one.name, one.compression, one.data[:2]) for one in found] == [
        ("a.csv", "zip", b"id"),
        ("b.csv.gz", "zip", b"id"),
    ]
    sample = observe_files(store, [store.put("a.zip", data)], Reading("csv", options_for("csv")), 3000)
    assert observed(sample) == "id BIGINT, n BIGINT, m STRING"


def test_a_zip_without_a_readable_member_is_a_fault() -> None:
    with pytest.raises(FileFault, match="it is a zip itself"):
        head(zipped(**{"inner.zip": zipped()}), "a.zip")
    with pytest.raises(FileFault, match="not a valid zip"):
        head(b"PK\x03\x04", "a.zip")


def test_a_typed_file_that_is_compressed_and_large_cannot_be_looked_into() -> None:
    store = memory_store()
    sample = observe_files(store, [store.put("a.gz", gzip.compress(parquet()))], Reading("parquet", {}), 100)
    assert sample.faults == {"a.gz": "cannot be read: it is compressed by gzip, and too large to look into"}


def test_what_does_not_decompress_is_a_fault() -> None:
    with pytest.raises(FileFault):
        head(gzip.compress(b"x" * 1000)[:-20])


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"plain", "utf-8"),
        ("größe".encode(), "utf-8"),
        ("größe".encode()[:3], "utf-8"),
        ("größe".encode("utf-8-sig"), "utf-8"),
        ("größe".encode("utf-16"), "utf-16"),
        ("größe und noch mehr".encode("utf-16-le"), "utf-16-le"),
        ("größe".encode("cp1252"), "cp1252"),
        (b"\x81\xe4", "latin-1"),
        (b"\0\1\2\3\4", None),
    ],
)
def test_the_encoding_follows_from_the_bytes(data: bytes, encoding: str | None) -> None:
    assert encoding_of(data) == encoding


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=4), max_size=3), max_size=4))
def test_any_document_that_is_cut_off_gives_its_first_values(values: list[Any]) -> None:
    for text in (json.dumps(values), json.dumps({"records": values}), "".join(map(json.dumps, values))):
        whole = document_values(text.encode(), is_whole=True)
        assert not whole.broken
        for end in range(len(text)):
            part = document_values(text[:end].encode(), is_whole=False)
            assert not part.broken
            assert len(part.values) <= len(whole.values)


def test_a_wrapper_that_is_cut_off_still_shows_its_records() -> None:
    text = json.dumps({"Records": [{"id": number, "name": "x" * 20} for number in range(50)]}).encode()
    found = document_values(text[:500], is_whole=False)
    assert (found.values, found.is_cut) == ([], True)
    assert records_path(found.cut) == ("Records",)
    assert found.cut["Records"] == json.loads(text)["Records"][: len(found.cut["Records"])]
    assert len(found.cut["Records"]) == 11


@pytest.mark.parametrize(
    "text", [b'{"a": 1, "b": "x', b'{"a": 1, "b": [1, 2, {"c": 3', b'{"a', b'{"items": [{"a": 1, "b']
)
def test_a_record_that_is_cut_off_is_none(text: bytes) -> None:
    cut = Head(memory_store().put("f", text), "f", text, is_whole=False, compression="none")
    assert line_values(text, is_whole=False).values == []
    found = sniff(cut)
    assert (found.format, found.is_cut) == (None, True)
    for name in ("ndjson", "json"):
        sample = observe_heads(memory_store(), [cut], Reading(name, options_for(name)))
        assert (sample.observed.records, sample.observed.broken) == (0, 0)


def test_the_last_line_counts_only_if_the_file_ends_there() -> None:
    data = b'{"a":1}\n{"a":2}'
    assert len(line_values(data, is_whole=True).values) == 2
    assert len(line_values(data, is_whole=False).values) == 1
    assert line_values(b'{"a":1}\nx\n', is_whole=True).broken == 1


def test_numbers_keep_their_digits() -> None:
    assert parsed(b"[123456789012345678901234567890, 1.5, NaN]")[0] == 123456789012345678901234567890
    with pytest.raises(NotJson):
        parsed(b"{'a': 1}")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("id,name\n1,a\n2,b\n", (",", ("id", "name"), 0)),
        ("id;price\n1;1,5\n2;2,5\n", (";", ("id", "price"), 0)),
        ("id\tname\n1\ta,b\n2\tc,d\n", ("\t", ("id", "name"), 0)),
        ("a|b\n1|2\n3|4\n", ("|", ("a", "b"), 0)),
        ("1,2,x\n3,4,y\n", (",", None, 0)),
        ("id,name,name\n1,a,b\n2,c,d\n", (",", ("id", "name", "name"), 0)),
        ("id,id,id\n1,2,3\n4,5,6\n", (",", ("id", "id", "id"), 0)),
        ("x,x,1\ny,x,2\nx,y,3\n", (",", None, 0)),
        ("x,x,\ny,x,2\nx,y,3\n", (",", None, 0)),
        ("Report of November\n\nid,name\n1,a\n2,b\n", (",", ("id", "name"), 2)),
        ('id,"say ""hi"", twice"\n1,"a\nb"\n2,c\n', (",", ("id", 'say "hi", twice'), 0)),
        ("name,city\nAna,Rome\nBob,Oslo\n", None),
    ],
)
def test_the_dialect_follows_from_the_lines(text: str, wanted: tuple[str, Any, int] | None) -> None:
    found = dialect_of(text)
    assert (None if found is None else (found.delimiter, found.names, found.skip_rows)) == wanted


def test_comments_are_no_records() -> None:
    found = dialect_of("#Version: 1\nid,n\n1,2\n#more\n3,4\n")
    assert found is not None
    assert (found.comment, found.names) == ("#", ("id", "n"))


def test_the_forms_of_values_are_those_of_most_columns() -> None:
    found = forms_of(
        {
            "day": ["21.11.2026", "01.12.2026"],
            "at": ["21.11.2026 10:30"],
            "price": ["1,5", "-2,25", "NA"],
            "unclear": ["01/02/2026"],
            "text": ["x"],
        },
        ";",
    )
    assert found.text == TextForms(",", "%d.%m.%Y", "%d.%m.%Y %H:%M")
    assert found.nulls.words == ("NA",)
    assert found.unclear == ("unclear",)


@pytest.mark.parametrize("text", [["x", "NA"], ["NA"], [*map("x{}".format, range(1000)), "NA"]])
def test_a_word_that_a_column_of_texts_holds_is_not_null(text: list[str]) -> None:
    found = forms_of({"n": ["1", "NA", "NULL"], "country": text}, ",").nulls
    assert found.words == ("NULL",)
    assert [note.partition(";")[0] for note in found.notes] == [
        "'NULL' is read as null, in every column, because n holds it beside values of another type",
        "'NA' is a text in country, so it is not read as null, and n stays STRING",
    ]


def test_a_dash_is_null_also_beside_texts_and_a_note_names_them() -> None:
    found = forms_of({"n": ["1", "-"], "text": ["x", "-"]}, ",").nulls
    assert found.words == ("-",)
    assert "and so does text; take it out" in found.notes[0]


def test_iso_dates_win_over_another_form_of_as_many_columns() -> None:
    assert forms_of({"a": ["2026-11-21"], "b": ["21.11.2026"]}, ",").text.date_format is None


def test_one_date_with_a_day_above_12_decides() -> None:
    assert forms_of({"a": ["01/02/2026", "01/31/2026"], "b": ["03/04/2026"]}, ",").text.date_format == "%m/%d/%Y"


def csv_sample(*files: bytes) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    heads = [head(data, f"{number}.csv") for number, data in enumerate(files)]
    found = [sniff(one) for one in heads]
    options = options_of(
        heads, [one.dialect for one in found if one.dialect], [str(one.options["encoding"]) for one in found]
    )
    full = CsvOptions(**options.options).model_dump(mode="json")
    sample = observe_heads(memory_store(), heads, Reading("csv", full))
    assert not sample.observed.broken
    return dict(options.options), ddl_of(sample.observed.schema().schema.columns, with_not_null=False), options.notes


def test_names_that_differ_in_case_only_are_replaced_by_position() -> None:
    options, ddl, notes = csv_sample(b"Order ID,order id,\n1,2,\n3,4,\n", b"Order ID,order id,\n5,6,\n")
    assert options == {"header": ["Order_ID", "order_id_2", "c3"], "skip_rows": 1}
    assert ddl == "Order_ID BIGINT, order_id_2 BIGINT, c3 STRING"
    assert "by position" in notes[0]


def test_a_name_that_occurs_twice_gets_another_by_position() -> None:
    options, ddl, notes = csv_sample(b"id,name,name\n1,Ana,Bern\n2,Bob,Ulm\n")
    assert options == {"header": ["id", "name", "name_2"], "skip_rows": 1}
    assert ddl == "id BIGINT, name STRING, name_2 STRING"
    assert "by position, because a table cannot have the name 'name' twice" in notes[0]


def test_a_file_that_has_a_name_twice_does_not_hide_the_others() -> None:
    store = memory_store()
    files = [store.put("a.csv", b"id,n,n\n1,2,3\n"), store.put("b.csv", b"id,n\n1,2\n")]
    sample = observe_files(store, files, Reading("csv", options_for("csv")), 1 << 20)
    assert (observed(sample), sample.observed.records) == ("id BIGINT, n BIGINT", 1)
    assert "it has the column 'n' twice" in sample.faults["a.csv"]
    assert not observe_files(store, files, Reading("csv", options_for("csv", header=["a", "b", "c"])), 1 << 20).faults


def test_columns_are_found_by_name_if_only_some_headers_have_one_twice() -> None:
    options, _, notes = csv_sample(b"id,n,N\n1,2,3\n3,4,5\n", b"n,id\n5,6\n7,8\n")
    assert options == {}
    assert "a header has the name 'N' twice; other files have another header" in notes[0]


def test_a_name_that_only_some_tables_can_have_stays_in_the_header() -> None:
    assert csv_sample(b"id,a b\n1,2\n3,4\n") == ({}, "id BIGINT", ())


def test_zip_codes_without_a_leading_zero_stay_text() -> None:
    assert csv_sample(b"id,zip,n\n1,10115,5\n2,20095,6\n")[1] == "id BIGINT, zip STRING, n BIGINT"


def observed(sample: Sample) -> str:
    return ddl_of(sample.observed.schema().schema.columns, with_not_null=False)


def options_for(name: str, **given_ones: Any) -> dict[str, Any]:
    block = {"csv": CsvOptions, "json": JsonOptions, "xml": XmlOptions}.get(name)
    return {} if block is None else block(**given_ones).model_dump(mode="json")


def test_xml_has_attributes_repeated_elements_and_text() -> None:
    data = b"""<o><order id="1"><line sku="a">x</line><line sku="b"/><zip>01067</zip><n>5</n></order>
        <order id="2"><line sku="c"/><paid>true</paid><at>2026-11-21</at></order></o>"""
    sample = observe_heads(memory_store(), [head(data)], Reading("xml", options_for("xml", row_tag="order")))
    assert observed(sample) == (
        "_id BIGINT, line ARRAY<STRUCT<_sku: STRING, _VALUE: STRING>>, zip STRING, n BIGINT, paid BOOLEAN, at DATE"
    )
    assert sample.observed.records == 2


TABLE = pa.table(
    {
        "u8": pa.array([1], pa.uint8()),
        "u64": pa.array([1], pa.uint64()),
        "f16": pa.array([1.0], pa.float16()),
        "ts": pa.array([1], pa.timestamp("ns")),
        "d": pa.array(["x"]).dictionary_encode(),
        "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int16())),
        "t": pa.array([1], pa.time64("us")),
    }
)


def parquet() -> bytes:
    body = io.BytesIO()
    pq.write_table(TABLE, body)
    return body.getvalue()


@pytest.mark.parametrize("max_bytes", [1 << 20, 100])
def test_a_typed_file_has_the_columns_of_its_footer(max_bytes: int) -> None:
    """Also one of which only the beginning was read."""
    store = memory_store()
    sample = observe_files(store, [store.put("a.parquet", parquet())], Reading("parquet", {}), max_bytes)
    assert observed(sample) == (
        "u8 SMALLINT, u64 DECIMAL(20,0), f16 FLOAT, ts TIMESTAMP_NTZ, d STRING, m MAP<STRING, SMALLINT>"
    )
    assert sample.without == {"t": "time64[us]"}
    assert sample.observed.records == (1 if max_bytes > 100 else 0)


def test_old_times_of_parquet_are_in_utc() -> None:
    store, body = memory_store(), io.BytesIO()
    times = pa.table({"at": pa.array([1], pa.timestamp("us")), "n": pa.array([1])})
    pq.write_table(times, body, use_deprecated_int96_timestamps=True)
    sample = observe_files(store, [store.put("a", body.getvalue())], Reading("parquet", {}), 1 << 20)
    assert observed(sample) == "at TIMESTAMP, n BIGINT"


def test_a_quoted_field_that_is_cut_off_is_left_out() -> None:
    store = memory_store()
    file = store.put("a.csv", b'id,text\n1,x\n2,"line\nanother line\nand more"\n')
    sample = observe_files(store, [file], Reading("csv", options_for("csv")), 32)
    assert (sample.observed.records, sample.observed.broken) == (1, 0)


def test_orc_and_avro_have_the_columns_of_their_schemas() -> None:
    store = memory_store()
    body = io.BytesIO()
    orc.write_table(pa.table({"a": pa.array([1, None], pa.int32())}), body)
    assert observed(observe_files(store, [store.put("a", body.getvalue())], Reading("orc", {}), 1 << 20)) == "a INT"
    body = io.BytesIO()
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": ["null", "long"]}, {"name": "u", "type": ["int", "string"]}],
    }
    fastavro.writer(body, schema, [{"a": 1, "u": 1}])
    sample = observe_files(store, [store.put("b", body.getvalue())], Reading("avro", {}), 1 << 20)
    assert observed(sample) == "a BIGINT"
    assert list(sample.without) == ["u"]


def test_a_file_that_cannot_be_read_does_not_hide_the_others() -> None:
    store: MemoryStore = memory_store()
    files = [store.put("a.parquet", b"PAR1 broken"), store.put("b.parquet", parquet())]
    files.append(store.put("c.parquet", b"<html>Forbidden</html>"))
    sample = observe_files(store, files, Reading("parquet", {}), 1 << 20)
    assert sample.files == 1
    assert "cannot be read: not valid Parquet" in sample.faults["a.parquet"]
    assert sample.faults["c.parquet"].endswith("; it begins like a page of HTML")
