"""Avro: containers, codecs, schemas, and what is refused."""

import bz2
import contextlib
import io
import json
import lzma
import zlib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from blizzard.config.schema_rules import NO_RULES
from spark_job.formats.avro import container
from spark_job.formats.avro.format import AT_ONCE_BYTES
from spark_job.formats.protocol import FileFault, Limits
from spark_job.formats.registry import open_format
from spark_job.table.schema import columns_of
from tests.unit.contents import CHUNK_BYTES, StoredContent
from tests.unit.format_reading import read_file

NOON = datetime(2026, 11, 21, 12, 0, 0, 123_456, tzinfo=UTC)


def avro(fields: dict[str, Any] | list[dict[str, Any]], records: list[dict[str, Any]], codec: str = "null") -> bytes:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()] if isinstance(fields, dict) else fields
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "r", "fields": listed}, records, codec=codec, sync_interval=64)
    return file.getvalue()


def logical(kind: str, of: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": of, **more}


@pytest.mark.parametrize(
    ("kind", "value", "ddl", "expected"),
    [
        ("int", 5, "BIGINT", 5),
        ("long", 1 << 40, "BIGINT", 1 << 40),
        ("int", 5, "DOUBLE", 5.0),
        ("float", 0.5, "DOUBLE", 0.5),
        ("boolean", True, "BOOLEAN", True),
        ("string", "é", "STRING", "é"),
        ("bytes", b"\xff", "BINARY", b"\xff"),
        ("bytes", b"x", "STRING", "x"),
        (["null", "string"], None, "STRING", None),
        (["string", "null"], "a", "STRING", "a"),
        (["int", "long"], 1 << 40, "BIGINT", 1 << 40),
        (["null", "float", "double"], 0.1, "DOUBLE", 0.1),
        (logical("int", "date"), date(2026, 11, 21), "DATE", date(2026, 11, 21)),
        (logical("long", "timestamp-millis"), NOON, "TIMESTAMP", NOON.replace(microsecond=123_000)),
        (logical("long", "timestamp-micros"), NOON, "TIMESTAMP", NOON),
        (
            logical("long", "local-timestamp-micros"),
            NOON.replace(tzinfo=None),
            "TIMESTAMP_NTZ",
            NOON.replace(tzinfo=None),
        ),
        (logical("bytes", "decimal", precision=10, scale=2), Decimal("-1.50"), "DECIMAL(12,2)", Decimal("-1.50")),
        (
            logical("fixed", "decimal", name="f", size=16, precision=38, scale=2),
            Decimal("123456789012345678901234567890123456.78"),
            "DECIMAL(38,2)",
            Decimal("123456789012345678901234567890123456.78"),
        ),
        (logical("string", "uuid"), UUID(int=5), "STRING", str(UUID(int=5))),
        (logical("int", "time-millis"), time(1), "INT", 3_600_000),
        (logical("long", "time-micros"), time(1), "BIGINT", 3_600_000_000),
        (logical("fixed", "duration", name="f", size=12), bytes(range(12)), "BINARY", bytes(range(12))),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "STRING", "B"),
        ({"type": "fixed", "name": "f", "size": 2}, b"xy", "BINARY", b"xy"),
        ({"type": "array", "items": ["null", "int"]}, [1, None], "ARRAY<BIGINT>", [1, None]),
        ({"type": "map", "values": "string"}, {"a": "x"}, "MAP<STRING, STRING>", {"a": "x"}),
        (
            {"type": "array", "items": logical("long", "timestamp-micros")},
            [NOON],
            "ARRAY<TIMESTAMP>",
            [NOON],
        ),
        (
            {"type": "record", "name": "in", "fields": [{"name": "b", "type": "int"}, {"name": "a", "type": "string"}]},
            {"b": 1, "a": "x"},
            "STRUCT<a: STRING, b: BIGINT, c: INT>",
            {"a": "x", "b": 1, "c": None},
        ),
    ],
)
def test_a_type_is_read_into_the_column(kind: Any, value: Any, ddl: str, expected: Any) -> None:
    stored = avro({"v": kind, "other": "string"}, [{"v": value, "other": "x"}] * 3)
    assert read_file("avro", f"v {ddl}", stored).values == [{"v": expected}] * 3


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs_of_fastavro(codec: str) -> None:
    stored = avro({"v": "string"}, [{"v": f"{n:050}"} for n in range(100)], codec)
    for chunk_bytes in (1, 64, 1 << 20):
        found = read_file("avro", "v STRING", stored, chunk_bytes=chunk_bytes)
        assert [row["v"] for row in found.values] == [f"{n:050}" for n in range(100)]


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_codecs_of_arrow(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """fastavro writes these only with further packages, so its blocks are compressed again here."""
    assert codec in container._DECOMPRESS
    plain = container.Container(io.BytesIO(avro({"v": "string"}, [{"v": "x" * 500}] * 20)), 1 << 20)
    blocks = [block.data for block in plain.blocks()]
    for data in blocks:
        if codec == "snappy":
            stored = pa.compress(data, codec="snappy", asbytes=True) + container.zlib.crc32(data).to_bytes(4, "big")
            wrong = stored[:-1] + bytes([stored[-1] ^ 1])
            with pytest.raises(FileFault, match="its checksum is wrong"):
                container._within(container._DECOMPRESS[codec], wrong, 1 << 20, 0)
        else:
            stored = pa.compress(data, codec="zstd", asbytes=True)
        assert container._within(container._DECOMPRESS[codec], stored, 1 << 20, 0) == data
        with pytest.raises(FileFault):
            container._within(container._DECOMPRESS[codec], stored, len(data) - 1, 0)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_block_that_does_not_decompress_to_its_end_refuses_the_file(codec: str) -> None:
    """Also if all of its content is there, and only the end with its checksum is missing."""
    block = next(container.Container(io.BytesIO(avro({"v": "string"}, [{"v": "x" * 500}])), 1 << 20).blocks())
    stored = {"bzip2": bz2.compress, "xz": lzma.compress, "deflate": lambda data: zlib.compress(data)[2:-4]}[codec](
        block.data
    )
    assert container._within(container._DECOMPRESS[codec], stored, 1 << 20, 0) == block.data
    for missing in range(1, len(stored)):
        with pytest.raises(FileFault, match="block 0 does not decompress"):
            container._within(container._DECOMPRESS[codec], stored[:-missing], 1 << 20, 0)


@pytest.mark.parametrize("name", [b"null", b"1", b"[]", b'"\\ud800"'])
def test_a_field_whose_name_is_no_text_refuses_the_file(name: bytes) -> None:
    stored = avro({"v": "string", "other_one": "string"}, [{"v": "x", "other_one": "y"}])
    known = b'"other_one"'
    with pytest.raises(FileFault, match="not valid Avro: its schema"):
        read_file("avro", "v STRING", stored.replace(known, name.ljust(len(known))))


def test_a_record_that_does_not_fit_keeps_its_number() -> None:
    stored = avro(
        {"id": ["null", "int"], "s": "bytes"}, [{"id": 1, "s": b"a"}, {"id": None, "s": b"b"}, {"id": 3, "s": b"\xff"}]
    )
    found = read_file("avro", "id INT NOT NULL, s STRING", stored)
    assert found.rows == {0: {"id": 1, "s": "a"}}
    assert found.reasons == {
        1: "id: NOT NULL, but it is missing or null",
        2: "s: the value does not fit string",
    }


NODE = {"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (["int", "string"], "v: it is a union of int, string; expected at most one type beside null"),
        ("double", "v: expected int, found double, which does not widen to it"),
    ],
)
def test_a_type_that_no_column_can_hold_refuses_the_file(kind: Any, reason: str) -> None:
    stored = avro({"v": kind, "id": "int"}, [])
    with pytest.raises(FileFault) as fault:
        read_file("avro", "id INT, v INT", stored)
    assert reason in fault.value.reason
    assert read_file("avro", "id INT", stored).rows == {}


@pytest.mark.parametrize(
    ("digits", "reason"),
    [
        (b'"precision": 1 , "scale": 2', "v: its decimal has a scale of 2; expected 0 to its precision of 1"),
        (b'"precision": 10, "scale":-2', "v: its decimal has a scale of -2; expected 0 to its precision of 10"),
        (b'"precision": 99, "scale": 2', "v: its decimal has no precision of 1 to 38"),
    ],
)
def test_a_decimal_that_there_is_not_refuses_the_file(digits: bytes, reason: str) -> None:
    good = b'"precision": 10, "scale": 2'
    stored = avro({"v": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, "id": "int"}, [])
    damaged = stored.replace(good, digits)
    assert (damaged.count(digits), len(damaged)) == (1, len(stored))
    with pytest.raises(FileFault) as fault:
        read_file("avro", "id INT, v DECIMAL(10, 2)", damaged)
    assert reason in fault.value.reason
    assert read_file("avro", "id INT", damaged).rows == {}


NULLS = {"type": "array", "items": {"type": "null"}}
EMPTY = {"type": "record", "name": "e", "fields": []}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (NODE, "its type n contains itself"),
        (["null", NODE], "its type n contains itself"),
        ({"type": "map", "values": NODE}, "its type n contains itself"),
        (NULLS, "it has an array whose elements take no bytes"),
        ({"type": "array", "items": EMPTY}, "it has an array whose elements take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}, "whose elements take no bytes"),
    ],
)
def test_a_type_whose_size_no_byte_bounds_refuses_the_file(kind: Any, reason: str) -> None:
    """Whether a column is for it or not: fastavro decodes every field."""
    stored = avro({"v": kind, "id": "int"}, [])
    for ddl in ("id INT", "id INT, v INT"):
        with pytest.raises(FileFault) as fault:
            read_file("avro", ddl, stored)
        assert reason in fault.value.reason


def varint(value: int) -> bytes:
    found = b""
    value <<= 1
    while value >= 0x80:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def one_block(fields: dict[str, Any], count: int, data: bytes) -> bytes:
    """A file with one block that says it has so many records."""
    empty = avro(fields, [])
    return empty + varint(count) + varint(len(data)) + data + empty[-16:]


@pytest.mark.parametrize(
    ("fields", "count", "data", "reason"),
    [
        ({"id": "int"}, 1, b"\x02\x04", "a record cannot be decoded"),
        ({"id": "int"}, 1, b"\x02\x02\x04", "a block has more records than it says"),
        ({"id": "int"}, 1, b"\x02\x00\x00", "2 bytes of a block belong to no record"),
        ({"id": "int"}, 0, b"\x02\x04", "2 bytes of a block belong to no record"),
        ({"id": "int"}, 2, b"\x02", "a block of 1 bytes says that it has 2 records"),
        ({"id": "null"}, 1 << 40, b"", "says that it has 1,099,511,627,776 records"),
        ({"id": "int"}, 1 << 40, b"\x02", "says that it has 1,099,511,627,776 records"),
    ],
)
def test_a_block_has_exactly_its_records(fields: dict[str, Any], count: int, data: bytes, reason: str) -> None:
    with pytest.raises(FileFault) as fault:
        read_file("avro", "id INT", one_block(fields, count, data))
    assert reason in fault.value.reason


def test_a_block_with_other_bytes_than_its_records_is_found_in_a_large_block_too() -> None:
    data = b"\x02" * (AT_ONCE_BYTES + 1)
    assert len(read_file("avro", "id INT", one_block({"id": "int"}, len(data), data)).rows) == len(data)
    with pytest.raises(FileFault, match="1 bytes of a block belong to no record"):
        read_file("avro", "id INT", one_block({"id": "int"}, len(data) - 1, data))


def test_text_that_is_not_utf8_refuses_its_record_at_any_depth() -> None:
    data = b"\x02a\x02\x02b\x00" + b"\x02\xff\x02\x02c\x00" + b"\x02d\x02\x02\xff\x00"
    stored = one_block({"s": "string", "l": {"type": "array", "items": "string"}}, 3, data)
    found = read_file("avro", "s STRING, l ARRAY<STRING>", stored)
    assert found.rows == {0: {"s": "a", "l": ["b"]}}
    assert found.reasons == {1: "s: the value does not fit string", 2: "l: the value does not fit array<string>"}


@pytest.mark.parametrize("name", ["5", "null", "\ud800"])
def test_an_odd_name_in_a_schema_is_a_fault_of_the_file_or_harmless(name: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, {"name": name, "type": "int"}]}
    text = json.dumps(schema).encode()
    stored = b"Obj\x01\x02\x16avro.schema" + varint(len(text)) + text + b"\x00" + b"s" * 16
    with contextlib.suppress(FileFault):
        assert read_file("avro", "id INT", stored).rows == {}


def test_the_header_as_a_whole_is_bounded() -> None:
    entry = b"\x02k" + varint(5 << 20) + b"x" * (5 << 20)
    with pytest.raises(FileFault, match="the header: found"):
        read_file("avro", "id INT", b"Obj\x01" + varint(5) + entry * 5)


def test_every_damage_of_a_file_is_found_or_harmless() -> None:
    records = [{"id": n, "s": f"text {n}"} for n in range(30)]
    stored = avro({"id": "int", "s": "string"}, records, "deflate")
    for size in range(len(stored)):
        try:
            found = read_file("avro", "id INT, s STRING", stored[:size])
        except FileFault:
            continue
        assert found.values == records[: len(found.values)]  # the file ends between two blocks


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04", "it begins with b'PK"),
        (b"Obj\x01\x02\x16avro.schema\x04{}\x00" + b"s" * 16, "cannot be read: its records are of the type None"),
        (b"Obj\x01\x02\x16avro.schema\x02{\x00" + b"s" * 16, "no schema that is JSON"),
        (b"Obj\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "the header: found"),
    ],
)
def test_what_is_no_avro_is_refused_with_a_reason(stored: bytes, reason: str) -> None:
    with pytest.raises(FileFault) as fault:
        read_file("avro", "id INT", stored)
    assert reason in fault.value.reason


def test_a_block_that_says_it_is_huge_takes_no_memory() -> None:
    stored = avro({"id": "int"}, [{"id": 1}])
    huge = stored[:-20] + b"\x02" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(FileFault, match="the size of block 0: found"):
        read_file("avro", "id INT", huge[: stored.rindex(stored[-16:]) - 3] + b"\x02\xfe\xff\xff\xff\xff\x7f")


def test_a_record_above_the_limit_refuses_the_file() -> None:
    with pytest.raises(FileFault, match="limit max_record_bytes: record 1 takes more than 4096 bytes"):
        read_file(
            "avro",
            "s STRING",
            avro({"s": "string"}, [{"s": ""}, {"s": "x" * 5_000}]),
            limits=Limits(max_record_bytes=4_096),
        )


def test_types_that_double_each_other_refuse_the_file() -> None:
    """They would be as many as 2 to the power of 45."""
    inner: Any = "long"
    for at in range(45):
        fields = [{"name": "x", "type": inner}, {"name": "y", "type": f"b{at - 1}" if at else "long"}]
        inner = {"type": "record", "name": f"b{at}", "fields": fields}
    fields = [{"name": "v", "type": "string"}, {"name": "z", "type": inner}]
    text = json.dumps({"type": "record", "name": "r", "fields": fields}).encode()
    stored = b"Obj\x01\x02\x16avro.schema" + varint(len(text)) + text + b"\x00" + b"s" * 16
    with pytest.raises(FileFault, match="more than 100,000 types"):
        read_file("avro", "v STRING", stored)


def test_files_with_other_schemas_may_follow_each_other() -> None:
    file_format = open_format("avro", columns_of("id BIGINT, s STRING"), Limits(), {}, NO_RULES)
    found = []
    for fields, record in (
        ({"id": "int"}, {"id": 1}),
        ({"id": "int"}, {"id": 2}),
        ({"s": "string", "id": "long"}, {"s": "x", "id": 3}),
        ({"id": "int"}, {"id": 4}),
        ({"id": ["null", "string"]}, {"id": "5"}),
    ):
        content = StoredContent(io.BytesIO(avro(fields, [record])), chunk_bytes=CHUNK_BYTES)
        try:
            found += file_format.parse([*file_format.blocks(content, first_record=0)]).records.to_pylist()
        except FileFault as fault:
            found.append(fault.reason)
    assert found == [
        {"id": 1, "s": None},
        {"id": 2, "s": None},
        {"id": 3, "s": "x"},
        {"id": 4, "s": None},
        "id: expected bigint, found string, which does not widen to it",
    ]


@pytest.mark.parametrize("size", [1, 100, 5_000, 16_300, 16_384, 40_000, 300_000])
def test_blocks_of_any_size_are_read_whole(size: int) -> None:
    records = [{"s": str(at) * size} for at in range(10)]
    stored = avro({"s": "string"}, records)
    whole = Limits(max_record_bytes=1 << 20)
    for chunk_bytes in (1_000, 1 << 20):
        found = read_file("avro", "s STRING", stored, limits=whole, chunk_bytes=chunk_bytes)
        assert found.values == records
    blocks = [*container.Container(io.BytesIO(stored), 1 << 20).blocks()]
    assert sum(block.count for block in blocks) == 10
    with pytest.raises(FileFault, match="truncated in "):
        read_file("avro", "s STRING", stored[:-1], limits=whole)
