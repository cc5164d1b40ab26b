"""Files of another kind than their source says: each is a dead letter whose reason a person understands."""

import bz2
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import orc

from blizzard.cli import main

pytestmark = pytest.mark.usefixtures("signals_as_before")

RECORDS = '{"id": 1}\n{"id": 2}\n'
TABLE = pa.table({"id": [1, 2]})
RECORD_TYPE = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}


def written(write: Callable[[Any], Any]) -> bytes:
    body = io.BytesIO()
    write(body)
    return body.getvalue()


def in_zip(body: io.BytesIO) -> None:
    with zipfile.ZipFile(body, "w") as made:
        made.writestr("a.json", RECORDS)


FILES: Mapping[str, tuple[bytes, str]] = {
    "image": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), "a PNG image"),
    "paper": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n", "PDF"),
    "packed": (gzip.compress(RECORDS.encode()), "a gzip file: name it .gz, or set `compression: gzip`"),
    "archive": (written(in_zip), "a zip or an Office document: name it .zip, or set `compression: zip`"),
    "page": (b"\n<!DOCTYPE html>\n<html>\n<body>403 Forbidden</body>\n</html>\n", "a page of HTML"),
    "wide": (RECORDS.encode("utf-16-le"), "text in UTF-16 without a byte order mark, utf-16-le"),
    "parquet": (written(lambda body: pq.write_table(TABLE, body)), "a file of the format parquet"),
    "avro": (written(lambda body: fastavro.writer(body, RECORD_TYPE, [{"id": 1}])), "a file of the format avro"),
    "orc": (written(lambda body: orc.write_table(TABLE, body)), "a file of the format orc"),
    "error": (b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>\n', "XML"),
    "json": (RECORDS.encode(), "JSON"),
}
"""By name: a file, and what it begins like."""
READ = {"ndjson": {"json"}, "json": {"json"}, "parquet": {"parquet"}, "avro": {"avro"}, "orc": {"orc"}}
"""By format, the files that it reads."""
OTHERS = {"xml": {"error": "it has no element row, which `row_tag` names; its outermost element is Error"}}
"""Reasons that say it already."""


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(format_name: str, files: Mapping[str, bytes], source: str = "") -> dict[str, str]:
    """The reasons of the files that became dead letters."""
    Path("landing").mkdir()
    for name, body in files.items():
        Path("landing", name).write_bytes(body)
    options = "xml: {row_tag: row}, " if format_name == "xml" else ""
    text = (
        f"{{uri: landing, format: {format_name}, schema: id BIGINT NOT NULL, {options}{source} settle_delay_secs: 0}}"
    )
    Path("pipelines.yaml").write_text(f"pipelines: {{p: {{table_uri: lake/t, sources: {{s: {text}}}}}}}\n")
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0
    found = [file for file in Path("lake").glob("**/dead_letters/**/*") if file.is_file()]
    letters = [json.loads(line) for file in found for line in file.read_text().splitlines()]
    assert not [letter for letter in letters if letter.get("row") is not None]
    return {letter["path"]: letter["error"] for letter in letters}


@pytest.mark.parametrize("format_name", ["ndjson", "json", "csv", "parquet", "avro", "orc", "xml"])
def test_the_reason_says_what_the_file_is(format_name: str) -> None:
    reasons = run(format_name, {name: body for name, (body, _) in FILES.items()})
    wanted = FILES.keys() - READ.get(format_name, set())
    assert reasons.keys() == wanted
    for name in wanted:
        said = OTHERS.get(format_name, {}).get(name) or f"; it begins like {FILES[name][1]}"
        assert reasons[name].endswith(said), reasons[name]
    if format_name in READ:
        assert {*DeltaTable("lake/t").to_pyarrow_table().column("id").to_pylist()} <= {1, 2}


def test_a_byte_order_mark_is_named_once() -> None:
    body = RECORDS.encode("utf-16")
    for at, (format_name, reason) in enumerate(
        {
            "ndjson": "not UTF-8: line 0 at byte 0: invalid start byte; it begins like text in UTF-16",
            "csv": "not utf-8: at byte 0: invalid start byte; it begins with the byte order mark of utf-16, so set "
            "`encoding: utf-16`",
        }.items()
    ):
        Path(str(at)).mkdir()
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(str(at))
            assert run(format_name, {"a": body}) == {"a": reason}


def test_a_name_that_promises_a_compression() -> None:
    reasons = run(
        "ndjson",
        {
            "a.gz": RECORDS.encode(),
            "b.gz": FILES["image"][0],
            "c.zst": FILES["packed"][0],
            "d.gz": gzip.compress(FILES["image"][0]),
            "e.gz": FILES["packed"][0][:-9],
            "f.zip": FILES["image"][0],
            "g.zip": FILES["archive"][0][:-9],
            "h.bz2": bz2.compress(RECORDS.encode())[:-9],  # the mark of bzip2 is letters and digits
        },
    )
    ends = {
        "a.gz": "; it begins like text that is not compressed: name it without the extension, or set "
        "`compression: none`",
        "b.gz": "; it begins like a PNG image",
        "c.zst": "; it begins like a gzip file: name it .gz, or set `compression: gzip`",
        "d.gz": "not UTF-8: line 0 at byte 0: invalid start byte; it begins like a PNG image",
        "e.gz": "truncated gzip: it ends before its end mark, or other bytes follow it",
        "f.zip": "; it begins like a PNG image",
        "g.zip": "not a valid zip: File is not a zip file",
        "h.bz2": "truncated bzip2: it ends before its end mark",
    }
    assert reasons.keys() == ends.keys()
    assert {name: reason for name, reason in reasons.items() if not reason.endswith(ends[name])} == {}


def test_rules_of_several_formats() -> None:
    rules = 'mixed: [{pattern: "*.csv", format: csv}, {pattern: "*.json", format: ndjson}],'
    reasons = run("mixed", {"a.csv": FILES["page"][0], "b.json": FILES["page"][0], "c.txt": b"x"}, rules)
    assert {name for name, reason in reasons.items() if reason.endswith("; it begins like a page of HTML")} == {
        "a.csv",
        "b.json",
    }
    assert "none of the source's rules matches" in reasons["c.txt"]


def test_members_of_a_zip() -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as made:
        made.writestr("a.json", RECORDS)
        made.writestr("b.json", FILES["page"][0])
    Path("landing").mkdir()
    Path("landing/a.zip").write_bytes(body.getvalue())
    source = "{uri: landing, format: ndjson, schema: id BIGINT, settle_delay_secs: 0}"
    Path("pipelines.yaml").write_text(f"pipelines: {{p: {{table_uri: lake/t, sources: {{s: {source}}}}}}}\n")
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0
    (letters,) = Path("lake").glob("**/dead_letters/*/records-*")
    reason = json.loads(letters.read_text())["error"]
    assert reason == "member b.json: it is not JSON; it begins like a page of HTML"
