"""Good files of each format, with the numbers of their records: what the campaign damages."""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pyspark.sql.types import StructType

from spark_job.table.schema import columns_of
from tests.proof.bad_input.corpus import COMPRESS
from tests.proof.bad_input.records import DDL as JSON_DDL
from tests.proof.formats import column_corpus
from tests.proof.formats.column_oracles import read_avro, read_orc, read_parquet
from tests.proof.formats.csv_oracle import read_csv
from tests.proof.formats.json_oracle import read_json
from tests.proof.formats.verdicts import Reading
from tests.proof.formats.whole_oracles import read_binary, read_text
from tests.proof.formats.xml_oracle import read_xml

Oracle = Callable[[bytes, StructType, Mapping[str, Any]], Reading]


@dataclass(frozen=True, slots=True)
class Base:
    """A good file. `body`: not compressed. `extension`: of its name; it decides how the file is compressed."""

    name: str
    body: bytes
    records: int
    options: Mapping[str, Any] = field(default_factory=dict)
    extension: str = ""
    refused: int = 0
    """How many of the records are dead letters."""

    @property
    def stored(self) -> bytes:
        return COMPRESS[self.extension](self.body) if self.extension else self.body


@dataclass(frozen=True, slots=True)
class Kind:
    """A format as the campaign tries it."""

    name: str
    ddl: str
    bases: Callable[[], Sequence[Base]]
    oracle: Oracle
    compression: str = "auto"

    @property
    def schema(self) -> StructType:
        return _schema(self.ddl)


@cache
def _schema(ddl: str) -> StructType:
    return columns_of(ddl)


TEXT_DDL = (
    "id BIGINT NOT NULL, name STRING, amount DECIMAL(10,2), ratio DOUBLE, flag BOOLEAN, day DATE, at TIMESTAMP, "
    "note STRING"
)
_NAMES = ("id", "name", "amount", "ratio", "flag", "day", "at", "note")
_CSV = {"delimiter": ",", "quote": '"', "header": True, "encoding": "utf-8", "null_values": [""]}


def _row(number: int) -> list[str]:
    return [
        str(number * 37 - 100),
        ("Ada", "Grace", "", "Émile", "李")[number % 5],
        f"{number * 13 % 1000}.{number % 100:02}",
        ("0.5", "-1e3", "NaN", "12.25", "")[number % 5],
        ("true", "false", "")[number % 3],
        f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}",
        f"2026-11-{number % 28 + 1:02}T10:{number % 60:02}:00Z",
        f"note {number}",
    ]


def _plain_csv(rows: int, delimiter: str = ",", end: str = "\n") -> str:
    return end.join([delimiter.join(_NAMES), *(delimiter.join(_row(number)) for number in range(rows))]) + end


def _quoted_csv(rows: int) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    lines = [",".join(map(quoted, _NAMES))]
    for number in range(rows):
        *typed, note = _row(number)
        said = (f'say "{number}"', f"a,b\nand {number}", f"one\r\ntwo {number}", f'"{number}"', note)[number % 5]
        lines.append(
            ",".join([*(text if at % 2 or not text else quoted(text) for at, text in enumerate(typed)), quoted(said)])
        )
    return "\r\n".join(lines)


def _wide_csv(rows: int) -> str:
    more = [f"extra{number}" for number in range(40)]
    lines = [",".join([*more[:20], *_NAMES, *more[20:]])]
    lines += [",".join([*["x"] * 20, *_row(number), *["7"] * 20]) for number in range(rows)]
    return "\n".join(lines)


def csv_bases() -> list[Base]:
    plain, semicolon = _plain_csv(40).encode(), {**_CSV, "delimiter": ";"}
    listed = {**_CSV, "header": [*_NAMES]}
    return [
        Base("plain", plain, 40, _CSV),
        Base("quoted", _quoted_csv(30).encode(), 30, _CSV),
        Base("wide", _wide_csv(12).encode(), 12, _CSV),
        Base("semicolons", _plain_csv(25, ";", "\r\n").encode(), 25, semicolon, ".gz"),
        Base("latin-1", _plain_csv(20).replace("李", "ü").encode("latin-1"), 20, {**_CSV, "encoding": "latin-1"}),
        Base("utf-16", _plain_csv(15).encode("utf-16"), 15, {**_CSV, "encoding": "utf-16"}),
        Base("without header", _plain_csv(20).partition("\n")[2].encode(), 20, listed, ".zst"),
        Base("with a mark", b"\xef\xbb\xbf" + _quoted_csv(10).encode(), 10, _CSV, ".gz"),
        Base("a header alone", _plain_csv(0).encode(), 0, _CSV),
    ]


def _object(number: int) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "n": number * 7 - 30,
        "kind": ("x", None, "ü")[number % 3],
        "amount": number + 0.25,
        "ratio": number / 8,
        "flag": number % 2 == 0,
        "day": f"2026-11-{number % 28 + 1:02}",
        "at": f"2026-11-21T10:{number % 60:02}:00Z",
        "tags": ["a", "[b", '"c"', "}", None][: number % 6],
        "attributes": {"a": "b\\", "c": "\u00e9"} if number % 2 else None,
        "place": {"name": "x{", "x": number},
        "other": {"deep": [[1, {"a": []}], {}]},
    }


def json_bases() -> list[Base]:
    objects = [_object(number) for number in range(20)]
    odd: list[Any] = [objects[0], 17, "text", None, [1, [2]], objects[1], {}, objects[2]]
    plain, path = {"records": None}, {"records": "response.items"}
    inside = {"meta": {"items": [1], "a": "}"}, "response": {"page": 1, "items": objects[:12], "more": [{}]}, "z": []}
    return [
        Base("array", json.dumps(objects).encode(), 20, plain),
        Base("indented array", json.dumps(objects[:10], indent=2, ensure_ascii=False).encode(), 10, plain),
        Base("objects", "".join(map(json.dumps, objects)).encode(), 20, plain, ".gz"),
        Base("indented objects", "\n".join(json.dumps(o, indent=1) for o in objects[:8]).encode(), 8, plain),
        Base("elements that are no objects", json.dumps(odd, indent=1).encode(), 8, plain, refused=5),
        Base("at a path", json.dumps(inside).encode(), 12, path),
        Base("at a path, indented", json.dumps(inside, indent=1).encode(), 12, path, ".zst"),
        Base("an empty array", b"[ ]", 0, plain),
    ]


XML_DDL = (
    "_id BIGINT, name STRING, amount DECIMAL(10,2), day DATE, line ARRAY<STRUCT<_sku: STRING, _VALUE: STRING>>, "
    "address STRUCT<city: STRING, zip: STRING>, flag BOOLEAN"
)


def _order(number: int, end: str = "") -> str:
    lines = "".join(f'<line sku="s{at}">{at} &amp; more</line>{end}' for at in range(number % 4))
    address = f"<address><city>Zürich {number}</city><zip>80{number:02}</zip></address>" if number % 3 else "<address/>"
    return (
        f'<order id="{number}">{end}<name>n{number}&lt;</name>{end}<amount>{number}.50</amount>{end}'
        f"<day>2026-11-{number % 28 + 1:02}</day>{lines}{address}{end}<flag>true</flag><other a='1'>x</other></order>"
    )


def xml_bases() -> list[Base]:
    options = {"row_tag": "order", "ignore_namespace": False, "decimal_point": ".", "timezone": "UTC"}
    flat = "<orders>" + "".join(map(_order, range(25))) + "</orders>"
    deep = "<?xml version='1.0' encoding='UTF-8'?>\n<a><b><!-- no -->" + "\n".join(
        _order(number, "\n  ") for number in range(12)
    )
    twice = _order(1).replace("</name>", "</name><name>again</name>")
    entity = '<!DOCTYPE a [<!ENTITY e "text">]><a>' + _order(0) + "</a>"
    return [
        Base("flat", flat.encode(), 25, options),
        Base("deep", (deep + "</b></a>").encode(), 12, options),
        Base("compressed", ("<?xml version='1.0'?>" + flat).encode(), 25, options, ".gz"),
        Base("latin-1", ("<?xml version='1.0' encoding='ISO-8859-1'?>" + flat).encode("latin-1"), 25, options),
        Base("CDATA", f"<a>{_order(3)}<order><name><![CDATA[<b>]]></name></order></a>".encode(), 2, options, ".zst"),
        Base("an element twice", f"<a>{_order(2)}{twice}{_order(3)}</a>".encode(), 3, options, refused=1),
        Base("an entity", entity.encode(), -1, options),
    ]


def text_bases() -> list[Base]:
    whole = {"whole": True}
    text = "first line\r\nÉmile, 李\n\n{[<\t" + "x" * 300
    return [
        Base("text", text.encode(), 1, whole),
        Base("with a mark", b"\xef\xbb\xbf" + text.encode(), 1, whole, ".gz"),
        Base("long", (text * 40).encode(), 1, whole, ".zst"),
        Base("empty", b"", 1, whole),
    ]


def binary_bases() -> list[Base]:
    data = bytes(range(256)) * 8
    return [Base("bytes", data, 1), Base("gzip as it is", gzip.compress(data, mtime=0), 1), Base("empty", b"", 1)]


def _typed(bodies: Iterator[tuple[str, bytes, int]], extensions: Sequence[str] = ("",)) -> list[Base]:
    return [
        Base(name, body, records, {}, extensions[at % len(extensions)])
        for at, (name, body, records) in enumerate(bodies)
    ]


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("csv", TEXT_DDL, cache(csv_bases), read_csv),
        Kind("json", JSON_DDL, cache(json_bases), read_json),
        Kind("parquet", column_corpus.DDL, cache(lambda: _typed(column_corpus.parquet_files())), read_parquet),
        Kind("avro", column_corpus.DDL, cache(lambda: _typed(column_corpus.avro_files())), read_avro),
        Kind("orc", column_corpus.DDL, cache(lambda: _typed(column_corpus.orc_files())), read_orc),
        Kind("xml", XML_DDL, cache(xml_bases), read_xml),
        Kind("text", "value STRING", cache(text_bases), read_text),
        Kind("binary", "content BINARY, length BIGINT", cache(binary_bases), read_binary),
    )
}
"""By the name of the format. `ndjson` and `text` by lines are in `bad_input`."""
