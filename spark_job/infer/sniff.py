"""Which format a file has, by its content."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from spark_job.formats.marks import READ, foreign, is_html
from spark_job.infer.csv_dialect import Dialect, dialect_of
from spark_job.infer.heads import Head
from spark_job.infer.json_values import document_values, line_values, records_path
from spark_job.infer.texts import encoding_of, whole_lines
from spark_job.infer.xml_sample import row_tag_of

_MAX_BROKEN = 0.2
"""Share of lines that may be broken in a file of ndjson."""


@dataclass(frozen=True, slots=True)
class Sniffed:
    """`format`: one that Blizzard reads; None: it is `what`. `options`: those that the content shows. `dialect`: of
    CSV. `is_cut`: whether more of the file must be read to know."""

    format: str | None
    what: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    dialect: Dialect | None = None
    is_cut: bool = False


def sniff(head: Head) -> Sniffed:
    data = head.data
    for mark, name in READ.items():
        if data.startswith(mark):
            return Sniffed(name)
    if (what := foreign(data)) is not None:
        return Sniffed(None, what)
    if not data.strip():
        return Sniffed(None, "an empty file")
    encoding = encoding_of(data)
    if encoding is None:
        return Sniffed("binary", "bytes that are no text")
    text = whole_lines(data, encoding, is_whole=head.is_whole)
    assert text is not None
    return _text(head, text, encoding)


def _text(head: Head, text: str, encoding: str) -> Sniffed:
    begin = text.lstrip()[:1]
    if is_html(text):
        return Sniffed(None, "a page of HTML")
    if begin in ("{", "[") and encoding == "utf-8" and (found := _json(head)) is not None:
        return found
    if begin == "<" and (tag := row_tag_of(head.data)) is not None:
        return Sniffed("xml", options={"row_tag": tag})
    if not head.is_whole and "\n" not in text:
        return _cut(head)
    if (dialect := dialect_of(text, sure=_is_csv_by_name(head))) is not None:
        return Sniffed("csv", options={"encoding": encoding}, dialect=dialect)
    if encoding == "utf-8":
        return Sniffed("text")
    return Sniffed(None, f"text in {encoding}; in other encodings than UTF-8 only CSV and XML are read")


def _is_csv_by_name(head: Head) -> bool:
    return any(suffix.lower() in (".csv", ".tsv", ".psv") for suffix in PurePosixPath(head.name).suffixes)


def _json(head: Head) -> Sniffed | None:
    lines = line_values(head.data, is_whole=head.is_whole)
    objects = [value for value in lines.values if isinstance(value, dict)]
    others = len(lines.values) - len(objects) + lines.broken
    if len(objects) > 1 and others <= _MAX_BROKEN * len(objects):
        return Sniffed("ndjson")
    documents = document_values(head.data, is_whole=head.is_whole)
    known = [*documents.values, *([] if documents.cut is None else [documents.cut])]
    if len(known) == 1 and (path := records_path(known[0])) is not None:
        return Sniffed("json", options={"records": ".".join(path)})
    if len(objects) == 1 and not others:
        return Sniffed("ndjson")
    of_cut = documents.cut if isinstance(documents.cut, list) else []
    records = [one for value in documents.values for one in (value if isinstance(value, list) else [value])] + of_cut
    if records:
        return Sniffed("json") if all(isinstance(one, dict) for one in records) else None
    return _cut(head) if documents.is_cut and not documents.broken else None


def _cut(head: Head) -> Sniffed:
    return Sniffed(None, no_record(len(head.data)), is_cut=True)


def no_record(read_bytes: int) -> str:
    return (
        f"no record ends within the first {read_bytes:,} bytes, which are all that was read of a file; raise "
        "--sample-bytes, or write the configuration by hand"
    )
