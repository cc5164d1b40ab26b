"""Messages whose payload is one record of Avro, by a given schema or by one of a registry."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from blizzard.errors import PermanentError
from blizzard.kafka.schema_registry import NoSchema
from blizzard.state.dead_letters import Stage
from spark_job.formats.columns import BLOCK_BYTES, MAX_BLOCK_ROWS, BatchBlock, FileColumns
from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.messages.message_columns import MessageColumns, joined
from spark_job.formats.messages.payloads import TOMBSTONE, size_fault
from spark_job.formats.odd_data import OddRecord
from spark_job.formats.protocol import FileFault, Limits, Parsed, UnknownField
from spark_job.formats.unknown_counts import UnknownCounts

MAGIC = 0
"""The first byte of a payload in the registry's form; the id of its schema follows in four, the highest first."""
PREFIX_BYTES = 5
_GIVEN = -1
"""The place of a given schema among those of ids."""


class Schemas(Protocol):
    def schema(self, schema_id: int) -> str:
        """As JSON. Raises NoSchema, and what a registry that does not answer raises."""
        ...


class Decoder(Protocol):
    """Of the records of one schema."""

    def one(self, data: bytes, start: int) -> Any:
        """The record that `data` holds from there to its end. Raises FileFault."""
        ...

    def batch(self, records: Sequence[Any]) -> pa.RecordBatch:
        """Raises FileFault if columns cannot hold a value."""
        ...


class AvroRecords(Protocol):
    """The format `avro`."""

    def opened(self, schema: Any) -> tuple[Decoder, FileColumns]:
        """`schema`: as JSON values. Raises FileFault if the records of a payload cannot be read by it."""
        ...

    def bounded(
        self, batches: Iterator[pa.RecordBatch], columns: FileColumns, number: int, first_record: int
    ) -> Iterator[BatchBlock]:
        """Raises FileFault for a record above the limit."""
        ...

    def parse(self, blocks: Sequence[BatchBlock]) -> Parsed: ...

    def decide(self, deferred: DataFrame) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class _Writer:
    """What messages with one schema are read by. `start`: where their records begin."""

    decoder: Decoder
    columns: FileColumns
    start: int


class AvroPayloads:
    """`given`: the schema of all payloads, as JSON; None: each names its own, of `schemas`. Raises PermanentError if
    columns cannot be read by the given one."""

    def __init__(self, records: AvroRecords, limits: Limits, given: str | None, schemas: Schemas | None) -> None:
        self._records = records
        self._limits = limits
        self._schemas = schemas
        self._writers: dict[int, _Writer | FileFault] = {}
        if given is not None:
            found = self._opened(partial(json.loads, given), 0)
            if isinstance(found, FileFault):
                raise PermanentError(
                    f"the schema in `avro` does not fit the `schema` of the source: {found.reason}. Nothing was read. "
                    "Correct one of them."
                )
            self._writers[_GIVEN] = found

    def parse(self, blocks: Sequence[MessageBlock]) -> Parsed:
        """Raises what a registry that does not answer raises."""
        messages = joined([block.messages for block in blocks])
        refused, alike = dict[int, str](), dict[int, list[int]]()
        for number, payload in enumerate(messages.payloads):
            if (why := messages.faults.get(number)) is not None:
                refused[number] = why
                continue
            try:
                alike.setdefault(self._schema_of(payload), []).append(number)
            except FileFault as fault:
                refused[number] = fault.reason
        together = _Together(messages.payloads)
        for schema_id, numbers in alike.items():
            found = [*self._blocks(schema_id, messages, numbers, refused)]
            rows = [*chain.from_iterable(rows for rows, _ in found)]
            together.add(rows, self._records.parse([block for _, block in found]))
        return together.parsed(self._records.parse([]), refused)

    def decide(self, deferred: DataFrame) -> DataFrame:
        return self._records.decide(deferred)

    def _schema_of(self, payload: bytes | None) -> int:
        """The id of the schema, which can be read by. Raises FileFault."""
        if payload is None:
            raise FileFault(Stage.PARSE, TOMBSTONE)
        if (why := size_fault(payload, self._limits)) is not None:
            raise FileFault(Stage.PARSE, why)
        if self._schemas is None:
            return _GIVEN
        schema_id = schema_id_of(payload)
        known = self._writers.get(schema_id)
        if known is None:
            known = self._writers[schema_id] = self._of_registry(self._schemas, schema_id)
        if isinstance(known, FileFault):
            raise known.with_traceback(None)
        return schema_id

    def _of_registry(self, schemas: Schemas, schema_id: int) -> _Writer | FileFault:
        try:
            text = schemas.schema(schema_id)
        except NoSchema as error:
            found: _Writer | FileFault = FileFault(Stage.PARSE, str(error))
        else:
            found = self._opened(partial(json.loads, text), PREFIX_BYTES)
        if isinstance(found, FileFault):
            return FileFault(Stage.PARSE, f"schema {schema_id} of the registry: {found.reason}")
        return found

    def _opened(self, schema: Any, start: int) -> _Writer | FileFault:
        """`schema()`: as JSON values."""
        try:
            return _Writer(*self._records.opened(schema()), start)
        except FileFault as fault:
            return fault
        except (ValueError, RecursionError) as error:
            return FileFault(Stage.PARSE, f"it is no JSON: {error}")

    def _blocks(
        self, schema_id: int, messages: MessageColumns, numbers: Sequence[int], refused: dict[int, str]
    ) -> Iterator[tuple[list[int], BatchBlock]]:
        """Blocks of some MiB, each with the numbers of its records. Adds to `refused`."""
        writer = self._writers[schema_id]
        assert isinstance(writer, _Writer)
        for some in _pieces(messages.payloads, numbers):
            rows, records = list[int](), list[Any]()
            for number in some:
                try:
                    records.append(writer.decoder.one(messages.payloads[number] or b"", writer.start))
                    rows.append(number)
                except FileFault as fault:
                    refused[number] = fault.reason
            yield from self._fitting(writer, messages, rows, records, refused)

    def _fitting(
        self,
        writer: _Writer,
        messages: MessageColumns,
        rows: list[int],
        records: list[Any],
        refused: dict[int, str],
    ) -> Iterator[tuple[list[int], BatchBlock]]:
        """The records without those that columns cannot hold, which halving finds."""
        if not rows:
            return
        try:
            first = messages.message(rows[0]).offset
            [block] = self._records.bounded(iter([writer.decoder.batch(records)]), writer.columns, first, first)
        except FileFault as fault:
            if len(rows) == 1:
                refused[rows[0]] = fault.reason
                return
            half = len(rows) // 2
            yield from self._fitting(writer, messages, rows[:half], records[:half], refused)
            yield from self._fitting(writer, messages, rows[half:], records[half:], refused)
        else:
            yield rows, block


def schema_id_of(payload: bytes) -> int:
    """Of a payload in the registry's form. Raises FileFault for another one."""
    if len(payload) < PREFIX_BYTES:
        reason = f"its {len(payload)} bytes are too few for a magic byte and the id of a schema, which take 5"
        raise FileFault(Stage.PARSE, f"not of a schema registry: {reason}")
    if payload[0] != MAGIC:
        raise FileFault(Stage.PARSE, f"not of a schema registry: it begins with byte {payload[0]}; expected {MAGIC}")
    return int.from_bytes(payload[1:PREFIX_BYTES], "big")


class _Together:
    """Puts what became of the messages of each schema in the order of all."""

    def __init__(self, payloads: Sequence[bytes | None]) -> None:
        self._payloads = payloads
        self._tables: list[pa.Table] = []
        self._numbers: list[int] = []
        self._refused: dict[int, str | None] = {}
        self._unknown: list[tuple[int, str, UnknownField]] = []
        self._odd: dict[int, OddRecord] = {}

    def add(self, rows: Sequence[int], parsed: Parsed) -> None:
        """`rows`: the numbers of these messages among all."""
        self._tables.append(parsed.records)
        self._numbers += [rows[at] for at in parsed.numbers]
        self._refused |= {rows[at]: why for at, why in parsed.refused}
        for name, field in parsed.unknown.items():
            first = rows[field.first]
            self._unknown.append((first, name, UnknownField(field.records, first, field.kind)))
        for at, record in parsed.odd.items():
            if record.text:
                record.text = self._payloads[rows[at]] or b""
            self._odd[rows[at]] = record

    def parsed(self, nothing: Parsed, refused: Mapping[int, str]) -> Parsed:
        """`nothing`: of no message. `refused`: the others."""
        table, numbers = pa.concat_tables([nothing.records, *self._tables]), self._numbers
        if len(self._tables) > 1:
            order = sorted(range(len(numbers)), key=numbers.__getitem__)
            table, numbers = table.take(pa.array(order, pa.int64())), [numbers[at] for at in order]
        reasons = sorted({**self._refused, **refused}.items())
        unknown = UnknownCounts()
        for _, name, field in sorted(self._unknown, key=lambda one: one[:2]):
            unknown.add_part({name: field}, 0)
        texts = [self._payloads[number] or b"" for number, _ in reasons]
        return Parsed(table, numbers if reasons else None, reasons, texts, unknown.found, odd=self._odd)


def _pieces(payloads: Sequence[bytes | None], numbers: Sequence[int]) -> Iterator[list[int]]:
    """The numbers in pieces with payloads of some MiB: decoded they take some ten times as much."""
    piece, size = list[int](), 0
    for number in numbers:
        piece.append(number)
        size += len(payloads[number] or b"")
        if size >= BLOCK_BYTES or len(piece) >= MAX_BLOCK_ROWS:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
