"""Avro: the records of container files, decoded block by block."""

import io
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from blizzard.state.dead_letters import Stage
from spark_job.formats.avro.arrow_schema import AvroField, Unsupported, fields_of, plain_schema
from spark_job.formats.avro.container import MAGIC, Container, EncodedBlock
from spark_job.formats.columns import BLOCK_BYTES, BatchBlock, ColumnFormat, FileColumns
from spark_job.formats.protocol import Content, FileFault

MAX_BLOCK_BYTES = 64 << 20
_ERRORS = (
    ValueError,
    LookupError,
    EOFError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    struct.error,
    SchemaParseException,
    UnknownType,
    pa.ArrowException,
)
"""What fastavro and pyarrow raise for a schema or for bytes that are not valid."""


class AvroFormat(ColumnFormat):
    """A column of the schema is found by the name of a field of the file's records, or else by one of its aliases."""

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        container = Container(content.stream(), max(MAX_BLOCK_BYTES, self._limits.max_record_bytes))
        number = total = 0
        decoder, columns = self._decoder(container)
        for block in container.blocks():
            total += len(block.data)
            self._limits.check_file_bytes(total)
            if number + block.count > first_record:
                pieces = decoder.batches(block, min(BLOCK_BYTES, content.chunk_bytes))
                yield from self.bounded(pieces, columns, number, first_record)
            number += block.count

    def _decoder(self, container: Container) -> "tuple[_Decoder, FileColumns]":
        try:
            found = _by_column(fields_of(container.header.schema), self._schema.names)
            kinds = {name: _kind(name, field) for name, field in found.items() if name in self._schema.names}
            whole = pa.schema([pa.field(name, kinds.get(name, pa.null())) for name in found])
        except Unsupported as error:
            raise FileFault(Stage.PARSE, f"cannot be read: {error}") from error
        except _ERRORS as error:
            raise FileFault(Stage.PARSE, f"not valid Avro: its schema: {error!r}") from error
        columns = self.columns_of(whole)
        return _Decoder(container, {name: found[name] for name in columns.wanted}, kinds), columns


class _Decoder:
    """Decodes the blocks of one file."""

    def __init__(self, container: Container, fields: Mapping[str, AvroField], kinds: Mapping[str, pa.DataType]) -> None:
        self._sync = container.header.sync
        self._fields = fields
        self._kinds = kinds
        try:
            self._decoded = {name: field.decoded() for name, field in fields.items()}
            plain = json.dumps(plain_schema(container.header.schema)).encode()
            self._head = _head(plain, self._sync)
            fastavro.parse_schema(json.loads(plain))
        except _ERRORS as error:
            raise FileFault(Stage.PARSE, f"not valid Avro: its schema: {error!r}") from error

    def batches(self, block: EncodedBlock, size_bytes: int) -> Iterator[pa.RecordBatch]:
        """The records in pieces of about that size."""
        each = max(1, size_bytes * block.count // max(1, len(block.data)))
        records = self._records(block)
        for start in range(0, block.count, each):
            yield self._batch(records, min(each, block.count - start))
        self._at_end(records)

    def _records(self, block: EncodedBlock) -> Iterator[Any]:
        parts = (self._head, _varint(block.count), _varint(len(block.data)), block.data, self._sync)
        try:
            return iter(fastavro.reader(io.BytesIO(b"".join(parts))))
        except _ERRORS as error:
            raise FileFault(Stage.PARSE, f"not valid Avro: its schema: {error!r}") from error

    def _batch(self, records: Iterator[Any], count: int) -> pa.RecordBatch:
        try:
            some = list(islice(records, count))
            columns = [
                pa.array([record[field.name] for record in some], self._decoded[name]).cast(self._kinds[name])
                for name, field in self._fields.items()
            ]
        except _ERRORS as error:
            raise FileFault(Stage.PARSE, f"not valid Avro: a record cannot be decoded: {error!r}") from error
        return pa.RecordBatch.from_arrays(columns, names=[*self._fields])

    def _at_end(self, records: Iterator[Any]) -> None:
        """fastavro compares the mark behind the block when it is asked for a record more."""
        try:
            more = next(records, None)
        except _ERRORS as error:
            raise FileFault(
                Stage.PARSE, f"not valid Avro: a block holds other bytes than its records: {error!r}"
            ) from error
        assert more is None


def _kind(name: str, field: AvroField) -> pa.DataType:
    try:
        return field.kind()
    except Unsupported as error:
        raise FileFault(Stage.PARSE, f"{name}: {error}") from error


def _by_column(fields: Sequence[AvroField], wanted: Sequence[str]) -> dict[str, AvroField]:
    """The fields by the columns that they are for; those that are for none by their own names."""
    found = {field.name: field for field in fields}
    if len(found) < len(fields):
        raise Unsupported("two of its fields have the same name")
    for field in fields:
        if field.name not in wanted:
            for alias in field.aliases:
                if alias in wanted and alias not in found:
                    found[alias] = found.pop(field.name)
                    break
    return found


def _head(schema: bytes, sync: bytes) -> bytes:
    """The header of a container whose blocks are not compressed."""
    entry = b"".join((_varint(11), b"avro.schema", _varint(len(schema)), schema))
    return b"".join((MAGIC, _varint(1), entry, _varint(0), sync))


def _varint(value: int) -> bytes:
    """A number of 0 or more."""
    value <<= 1
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
