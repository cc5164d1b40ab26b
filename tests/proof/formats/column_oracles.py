"""Parquet and ORC read as whole files by pyarrow, and Avro by fastavro."""

import ctypes
import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import fastavro
import fastavro._read
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyspark.sql.types import DecimalType, StructField, StructType

from tests.proof.bad_input.plain_codecs import zstd
from tests.proof.bad_input.values import Expected
from tests.proof.formats.typed import Days, Entries, Micros, expected, plain_values
from tests.proof.formats.verdicts import UNKNOWN, Reading, wanted

_MOST_BYTES = 64 << 20
_UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, LookupError)
_LIBC, _PERTURB = ctypes.CDLL(None), -6
"""glibc, and its option of that name."""


def read_parquet(body: bytes, schema: StructType, options: Mapping[str, Any]) -> Reading:
    def opened() -> pq.ParquetFile:
        return pq.ParquetFile(io.BytesIO(body), coerce_int96_timestamp_unit="us", page_checksum_verification=True)

    def whole(names: list[str]) -> pa.Table:
        file = opened()
        return file.read([name for name in names if name in file.schema_arrow.names], use_threads=False)

    def in_batches(names: list[str]) -> pa.Table:
        file = opened()
        some = [name for name in names if name in file.schema_arrow.names]
        batches = [*file.iter_batches(7, columns=some, use_threads=False)]
        return pa.Table.from_batches(batches) if batches else whole(names)

    found = _by_arrow(whole, schema)
    if found.records is None or _said(whole, schema) == _said(in_batches, schema):
        return found
    return UNKNOWN  # of some damaged nested columns libarrow makes what depends on the sizes of its batches


def read_orc(body: bytes, schema: StructType, options: Mapping[str, Any]) -> Reading:
    def whole(names: list[str]) -> pa.Table:
        file = orc.ORCFile(io.BytesIO(body))
        return file.read([name for name in names if name in file.schema.names])

    # libarrow takes some values of damaged files from memory that it has not written.
    said = {_said(whole, schema, fill) for fill in (0x55, 0xAA)}
    return _by_arrow(whole, schema) if len(said) == 1 else UNKNOWN


def _said(read: Callable[[list[str]], pa.Table], schema: StructType, fill: int = 0) -> str:
    """The values, or the error. `fill`: a byte with which the C library fills the memory that it gives; 0: none."""
    _LIBC.mallopt(_PERTURB, fill)
    try:
        return f"{_plain_columns(read(schema.names))}"
    except _UNREADABLE as error:
        return f"{type(error).__name__}"
    finally:
        _LIBC.mallopt(_PERTURB, 0)


def _by_arrow(whole: Callable[[list[str]], pa.Table], schema: StructType) -> Reading:
    try:
        table = whole(schema.names)
    except _UNREADABLE as error:
        return Reading(None, f"{type(error).__name__}: {error}")
    if not {*table.schema.names} & {*schema.names}:
        return Reading(None, "none of the columns")
    decimals = [f.name for f in schema if isinstance(f.dataType, DecimalType) and f.name in table.schema.names]
    odd = [name for name in decimals if table.schema.field(name).type != pa.decimal128(*_digits(schema, name))]
    try:
        columns = _plain_columns(table)
    except UnicodeDecodeError as error:  # values are bytes here: it is the name of a nested field
        return Reading(None, f"a name is no UTF-8: {error}")
    return _of_columns(table.num_rows, columns, schema, odd)


def _digits(schema: StructType, name: str) -> tuple[int, int]:
    kind = schema[name].dataType
    assert isinstance(kind, DecimalType)
    return kind.precision, kind.scale


def _plain_columns(table: pa.Table) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        found[name] = [value for chunk in column.chunks for value in plain_values(chunk)]
    return found


def _of_columns(
    count: int, columns: Mapping[str, Sequence[Any]], schema: StructType, odd: Collection[str] = ()
) -> Reading:
    """Columns that are not there are null. `odd`: columns of another type, whose values may be refused."""
    nulls = [None] * count

    def of(field: StructField, row: int) -> Expected:
        value = expected(columns.get(field.name, nulls)[row], field)
        return value if field.name not in odd or value.fits is False else Expected(None, value.holds)

    records = [wanted(schema, {field.name: of(field, row) for field in schema}) for row in range(count)]
    # A column of a type that does not widen to the schema's is a dead file.
    return Reading(records, may_be_dead=True)


# -- Avro


def read_avro(body: bytes, schema: StructType, options: Mapping[str, Any]) -> Reading:
    reader: Any = None
    try:
        with _raw_values():
            reader = fastavro.reader(io.BytesIO(body), handle_unicode_errors="surrogateescape")
            found, records = reader.writer_schema, [*reader]
    except Exception as error:  # noqa: BLE001 - fastavro raises whatever it stumbles over
        if reader is None and isinstance(error, UnicodeDecodeError):
            return UNKNOWN  # of an entry of the header, of which only the schema and the codec count
        return Reading(None, f"{type(error).__name__}: {error!s:.200}")
    if not isinstance(found, dict) or found.get("type") != "record":
        return Reading(None, "no record")
    kinds = {field["name"]: field["type"] for field in found["fields"]}
    if not {*kinds} & {*schema.names} or '"aliases"' in json.dumps(found):
        return UNKNOWN
    if any(isinstance(kind, list) and len({*map(str, kind)} - {"null"}) > 1 for kind in kinds.values()):
        return UNKNOWN  # JSON text, for STRING
    try:
        columns = {
            name: [_plain(record[name], kinds[name]) for record in records] for name in schema.names if name in kinds
        }
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return UNKNOWN
    odd = [
        name
        for name, kind in kinds.items()
        if name in schema.names and isinstance(schema[name].dataType, DecimalType) and not _says(kind, schema, name)
    ]
    return _of_columns(len(records), columns, schema, odd)


def _says(kind: Any, schema: StructType, name: str) -> bool:
    """Whether the file's decimal has the digits of the column."""
    branches = kind if isinstance(kind, list) else [kind]
    precision, scale = _digits(schema, name)
    return any(isinstance(b, dict) and (b.get("precision"), b.get("scale")) == (precision, scale) for b in branches)


@contextmanager
def _raw_values() -> Iterator[None]:
    """Without logical types, which fastavro cannot hold for any number, and with codecs whose packages are absent."""
    logical, blocks = fastavro._read.LOGICAL_READERS, fastavro._read.BLOCK_READERS
    kept, codecs = dict(logical), dict(blocks)
    logical.clear()
    blocks.update(snappy=_by("snappy"), zstandard=_by("zstandard"))
    try:
        yield
    finally:
        logical.update(kept)
        blocks.update(codecs)


def _by(codec: str) -> Callable[[Any], Any]:
    def read_block(file: Any) -> Any:
        data = fastavro._read.read_bytes(file) if hasattr(fastavro._read, "read_bytes") else _sized(file)
        if codec == "zstandard":
            content, is_whole = zstd(data, _MOST_BYTES)
            if not is_whole:
                raise ValueError("zstandard")
            return io.BytesIO(content)
        return io.BytesIO(_snappy(data))

    return read_block


def _sized(file: Any) -> bytes:
    value = shift = 0
    while True:
        byte = file.read(1)[0]
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    size = (value >> 1) ^ -(value & 1)
    data = bytes(file.read(size))
    if size < 0 or len(data) < size:
        raise EOFError
    return data


def _snappy(data: bytes) -> bytes:
    size = shift = 0
    for byte in data:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > _MOST_BYTES:
        raise ValueError("snappy")
    return bytes(pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True))


def _plain(value: Any, kind: Any) -> Any:
    """As `plain_values` has it."""
    if isinstance(kind, list):
        some = [branch for branch in kind if branch != "null"]
        if value is None or len(some) != 1:
            return value
        return _plain(value, some[0])
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    if not isinstance(kind, dict):
        return value
    rule = _PLAIN.get((kind["type"], kind.get("logicalType"))) or _PLAIN.get((kind["type"], None))
    return value if rule is None else rule(value, kind)


def _entries(value: Mapping[str, Any], kind: Mapping[str, Any]) -> Entries:
    return Entries((key.encode(errors="surrogateescape"), _plain(item, kind["values"])) for key, item in value.items())


def _decimal(value: bytes, kind: Mapping[str, Any]) -> Decimal:
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-kind.get("scale", 0))


_PLAIN: Mapping[tuple[str, str | None], Callable[[Any, Mapping[str, Any]], Any]] = {
    ("long", "timestamp-micros"): lambda value, _: Micros(value),
    ("long", "timestamp-millis"): lambda value, _: Micros(value * 1_000),
    ("int", "date"): lambda value, _: Days(value),
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("array", None): lambda value, kind: [_plain(element, kind["items"]) for element in value],
    ("map", None): _entries,
    ("record", None): lambda value, kind: {
        field["name"]: _plain(value[field["name"]], field["type"]) for field in kind["fields"]
    },
}
"""By type and logical type."""
