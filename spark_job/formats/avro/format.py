"""Avro: the records of container files, decoded block by block."""

import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql.types import StringType

from blizzard.state.dead_letters import Stage
from spark_job.formats.avro.aliases import renamed
from spark_job.formats.avro.arrow_schema import AvroField, Unsupported, fields_of
from spark_job.formats.avro.container import Container, EncodedBlock, Header
from spark_job.formats.avro.records import ERRORS, RecordDecoder
from spark_job.formats.columns import BLOCK_BYTES, MAX_BLOCK_ROWS, BatchBlock, ColumnFormat, FileColumns
from spark_job.formats.old_calendar import ANY, Earliest, earliest_of
from spark_job.formats.protocol import Content, FileFault

MAX_BLOCK_BYTES = 64 << 20
AT_ONCE_BYTES = 1 << 20
"""A block up to this size is decoded in one call; its records then take some ten times as much memory."""
MAX_RECORDS = 10_000_000
"""Of a block. Records that take no bytes could be any number."""


class AvroFormat(ColumnFormat):
    """A column of the schema, and a field inside of one, is found by the name of a field of the file's records, or else
    by one of its aliases."""

    _last: tuple[tuple[bytes, Earliest], RecordDecoder, FileColumns] | None = None
    """Of the last file. Replaced as a whole, since threads share it."""

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        container = Container(content.stream(), max(MAX_BLOCK_BYTES, self._limits.max_record_bytes))
        number = total = 0
        records, columns = self._opened_as_before(container.header)
        decoder = _Decoder(records)
        for block in container.blocks():
            total += len(block.data)
            self._limits.check_file_bytes(total)
            if number + block.count > first_record or not block.count:
                pieces = decoder.batches(block, min(BLOCK_BYTES, content.chunk_bytes))
                yield from self.bounded(pieces, columns, number, first_record)
            number += block.count

    def _opened_as_before(self, header: Header) -> tuple[RecordDecoder, FileColumns]:
        """Files that follow each other mostly have the same schema, and a decoder for it costs more than a small
        file."""
        last, key = self._last, (header.schema_text, earliest_of(header.metadata))
        if last is not None and last[0] == key:
            return last[1:]
        found = self.opened(header.schema, key[1])
        self._last = (key, *found)
        return found

    def opened(self, schema: Any, earliest: Earliest = ANY) -> tuple[RecordDecoder, FileColumns]:
        """`schema`: by which records were written, as JSON values. Raises FileFault if they cannot be read."""
        try:
            found = _by_column(fields_of(schema), self._schema.names)
            as_wanted = renamed(schema, found, self._schema, str.lower if self._rules.ignores_case else str)
            if as_wanted is not schema:
                schema, found = as_wanted, _by_column(fields_of(as_wanted), self._schema.names)
            kinds, texts = self._kinds(found)
            named = pa.schema([pa.field(name, kinds.get(name, pa.null())) for name in found])
            columns = self.columns_of(named, earliest)
            return RecordDecoder(schema, {name: found[name] for name in columns.wanted}, texts), columns
        except Unsupported as error:
            raise FileFault(Stage.PARSE, f"cannot be read: {error}") from error
        except ERRORS as error:
            raise FileFault(Stage.PARSE, f"not valid Avro: its schema: {error!r}") from error

    def _kinds(self, found: Mapping[str, AvroField]) -> tuple[dict[str, pa.DataType], set[str]]:
        """The types of the fields that are read, and those whose values are read as JSON text because no other column
        could hold them: for a column STRING, or because rules ask for them. Raises FileFault if another column is for
        such a field."""
        fold = str.lower if self._rules.ignores_case else str
        columns = {fold(field.name): field.dataType for field in self._schema}
        kinds, texts = dict[str, pa.DataType](), set[str]()
        for name, field in found.items():
            column = columns.get(fold(name))
            if column is None and not self._rules.looks_at_fields:
                continue
            try:
                kinds[name] = field.kind()
            except Unsupported as error:
                if not isinstance(column, StringType | None):
                    raise FileFault(Stage.PARSE, f"{name}: {error}") from error
                kinds[name] = pa.string()
                texts.add(name)
        return kinds, texts


class _Decoder:
    """Decodes the blocks of one file."""

    def __init__(self, records: RecordDecoder) -> None:
        self._decoder = records

    def batches(self, block: EncodedBlock, size_bytes: int) -> Iterator[pa.RecordBatch]:
        """The records in pieces of about that size."""
        if block.count * self._decoder.least_bytes > len(block.data) or block.count > MAX_RECORDS:
            reason = f"not valid Avro: a block of {len(block.data):,} bytes says that it has {block.count:,} records"
            raise FileFault(Stage.PARSE, reason)
        each = min(MAX_BLOCK_ROWS, max(1, size_bytes * block.count // max(1, len(block.data))))
        records = self._records(block)
        for start in range(0, block.count, each):
            yield self._batch(records, min(each, block.count - start))
        self._at_end(records)

    def _records(self, block: EncodedBlock) -> Iterator[Any]:
        """Those of a block of usual size at once, as one array, which takes less time. After the last it is compared
        whether the block has other bytes."""
        if len(block.data) <= AT_ONCE_BYTES:
            stored = io.BytesIO(b"".join((_varint(block.count), block.data, b"\0")) if block.count else b"\0")
            decoded: Any = fastavro.schemaless_reader(stored, self._decoder.array)
            yield from decoded
            left = len(stored.getvalue()) - stored.tell() if block.count else len(block.data)
        else:
            stored = io.BytesIO(block.data)
            for _ in range(block.count):
                yield fastavro.schemaless_reader(stored, self._decoder.record)
            left = len(block.data) - stored.tell()
        if left:
            raise FileFault(Stage.PARSE, f"not valid Avro: {left:,} bytes of a block belong to no record")

    def _batch(self, records: Iterator[Any], count: int) -> pa.RecordBatch:
        try:
            some = list(islice(records, count))
        except ERRORS as error:
            raise FileFault(Stage.PARSE, f"not valid Avro: a record cannot be decoded: {error!r}") from error
        return self._decoder.batch(some)

    def _at_end(self, records: Iterator[Any]) -> None:
        """Past the last record, where the rest of the block is compared."""
        try:
            more = next(records, None)
        except ERRORS as error:
            raise FileFault(Stage.PARSE, f"not valid Avro: what follows the records of a block: {error!r}") from error
        if more is not None:
            raise FileFault(Stage.PARSE, "not valid Avro: a block has more records than it says")


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


def _varint(value: int) -> bytes:
    """A number of 0 or more."""
    value <<= 1
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
