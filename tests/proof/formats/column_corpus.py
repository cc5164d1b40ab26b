"""Good Parquet, Avro and ORC files of several shapes and codecs."""

import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

DDL = (
    "id BIGINT NOT NULL, name STRING, amount DECIMAL(10,2), ratio DOUBLE, flag BOOLEAN, day DATE, at TIMESTAMP, "
    "raw BINARY, small SMALLINT, tags ARRAY<STRING>, place STRUCT<name: STRING, x: BIGINT>, "
    "attributes MAP<STRING, STRING>"
)
_TYPES: Mapping[str, pa.DataType] = {
    "id": pa.int64(),
    "name": pa.string(),
    "amount": pa.decimal128(10, 2),
    "ratio": pa.float64(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "raw": pa.binary(),
    "small": pa.int32(),
    "tags": pa.list_(pa.string()),
    "place": pa.struct([("name", pa.string()), ("x", pa.int64())]),
    "attributes": pa.map_(pa.string(), pa.string()),
    "other": pa.string(),
}
_FLAT = ("id", "name", "amount", "ratio", "flag", "day", "at", "raw", "small")


def _row(number: int) -> dict[str, Any]:
    some = number % 4 != 3
    return {
        "id": number * 1_000_003 - 7,
        "name": ("Ada", "Grace", "Émile", "李", None)[number % 5],
        "amount": Decimal(number * 101) / 100 if some else None,
        "ratio": number / 8,
        "flag": number % 3 == 0 if some else None,
        "day": date(2026, 1, 1) + timedelta(days=number),
        "at": datetime(2026, 11, 21, 10, tzinfo=UTC) + timedelta(minutes=number, microseconds=number),
        "raw": bytes([number % 256, 0, 255]),
        "small": number - 20,
        "tags": ["a", None, f"t{number}"][: number % 4] if some else None,
        "place": {"name": f"p{number}", "x": number if some else None} if number % 5 else None,
        "attributes": {"k": f"v{number}", "l": "w"} if number % 3 else {},
        "other": f"no column is for {number}",
    }


def _table(rows: int, names: Sequence[str] = tuple(_TYPES)) -> pa.Table:
    found = [_row(number) for number in range(rows)]

    def values(name: str) -> list[Any]:
        some = [row[name] for row in found]
        return [None if one is None else [*one.items()] for one in some] if name == "attributes" else some

    return pa.table({name: pa.array(values(name), _TYPES[name]) for name in names})


def _parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def parquet_files() -> Iterator[tuple[str, bytes, int]]:
    """Name, content, and number of records."""
    flat, nested = _table(40, _FLAT), _table(30)
    for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        yield f"flat, {codec}", _parquet(flat, compression=codec, row_group_size=16), 40
    yield "nested", _parquet(nested, row_group_size=11), 30
    yield "nested, without dictionaries", _parquet(nested, use_dictionary=False, compression="none"), 30
    yield "pages of version 2", _parquet(nested, data_page_version="2.0", compression="zstd", row_group_size=20), 30
    yield "small pages", _parquet(_table(60, _FLAT), data_page_size=64, write_batch_size=8, compression="none"), 60
    yield "checksums", _parquet(nested, write_page_checksum=True, row_group_size=15), 30
    yield "page index", _parquet(flat, write_page_index=True, store_schema=False), 40
    yield "INT96", _parquet(flat, use_deprecated_int96_timestamps=True, store_schema=False), 40
    encodings = {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "ratio": "BYTE_STREAM_SPLIT"}
    yield "other encodings", _parquet(flat, use_dictionary=False, column_encoding=encodings), 40
    yield "no rows", _parquet(flat.slice(0, 0)), 0


def orc_files() -> Iterator[tuple[str, bytes, int]]:
    flat, nested = _table(40, _FLAT), _table(30)
    for codec in ("uncompressed", "snappy", "zlib", "zstd", "lz4"):
        yield f"flat, {codec}", _orc(flat, compression=codec), 40
    yield "nested", _orc(nested, compression="uncompressed"), 30
    yield "nested, zlib", _orc(nested, compression="zlib", compression_block_size=1 << 16), 30
    yield "dictionaries", _orc(flat, compression="snappy", dictionary_key_size_threshold=1.0), 40
    yield "row index", _orc(_table(1_200, ("id", "name")), row_index_stride=1_000, compression="zstd"), 1_200
    yield "no rows", _orc(flat.slice(0, 0)), 0


def _orc(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    orc.write_table(table, file, **options)
    return file.getvalue()


_AVRO: Mapping[str, Any] = {
    "id": "long",
    "name": ["null", "string"],
    "amount": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
    "ratio": "double",
    "flag": ["null", "boolean"],
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "raw": "bytes",
    "small": "int",
    "tags": ["null", {"type": "array", "items": ["null", "string"]}],
    "place": [
        "null",
        {
            "type": "record",
            "name": "place",
            "fields": [{"name": "name", "type": "string"}, {"name": "x", "type": ["null", "long"]}],
        },
    ],
    "attributes": {"type": "map", "values": "string"},
    "other": "string",
}
_AVRO_NAMES = tuple(name for name in _AVRO if name != "small")
"""`small` is wider than its column, and Avro has no narrower type."""


def avro_files() -> Iterator[tuple[str, bytes, int]]:
    for codec in ("null", "deflate", "bzip2", "xz"):
        yield f"flat, {codec}", _avro(40, _FLAT[:-1], codec=codec, sync_interval=600), 40
    yield "flat, snappy", _packed(40, "snappy"), 40
    yield "flat, zstandard", _packed(40, "zstandard"), 40
    yield "nested", _avro(30, _AVRO_NAMES, sync_interval=400), 30
    yield "nested, deflate", _avro(30, _AVRO_NAMES, codec="deflate", sync_interval=900), 30
    yield "one block", _avro(20, _AVRO_NAMES), 20
    yield "no records", _avro(0, _AVRO_NAMES), 0


def _avro(rows: int, names: Sequence[str], **options: Any) -> bytes:
    file, fields = io.BytesIO(), [{"name": name, "type": _AVRO[name]} for name in names]
    schema = {"type": "record", "name": "row", "fields": fields}
    mark = b"0123456789abcdef"
    fastavro.writer(file, schema, [_row(number) for number in range(rows)], sync_marker=mark, **options)
    return file.getvalue()


def _packed(rows: int, codec: str) -> bytes:
    """With a codec whose package is not there: of a file without compression, each block anew."""
    plain, mark = _avro(rows, _FLAT[:-1], sync_interval=600), b"0123456789abcdef"
    head, *blocks = plain.split(mark)
    parts = [head.replace(b"\x08null", _varint(len(codec)) + codec.encode()), mark]
    for block in blocks[:-1]:
        count, at = _read_varint(block, 0)
        size, at = _read_varint(block, at)
        data = block[at : at + size]
        stored = pa.compress(data, codec="snappy" if codec == "snappy" else "zstd", asbytes=True)
        if codec == "snappy":
            stored += zlib.crc32(data).to_bytes(4, "big")
        parts += [_varint(count), _varint(len(stored)), stored, mark]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    value, found = value << 1, bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value >> 1, at
