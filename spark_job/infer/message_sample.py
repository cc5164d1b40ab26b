"""Looks at some messages of topics, each of which is one record, and finds the types of what they hold."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from blizzard.config.ddl import Struct
from blizzard.config.formats import AVRO
from blizzard.errors import PermanentError
from blizzard.infer.budget import MORE_BYTES
from blizzard.infer.observed import Observed
from blizzard.kafka.schema_registry import NoSchema, SchemaRegistry
from blizzard.state.dead_letters import Stage
from spark_job.formats.avro.records import ERRORS, RecordDecoder
from spark_job.formats.messages.avro_payloads import PREFIX_BYTES, Schemas, schema_id_of
from spark_job.formats.messages.message_columns import Message
from spark_job.formats.messages.payloads import TOMBSTONE, empty_fault, size_fault, text_fault
from spark_job.formats.protocol import FileFault, Limits
from spark_job.infer.json_values import NotJson, parsed
from spark_job.infer.typed_sample import avro_struct
from spark_job.ports.offset_range import OffsetRange

SAMPLE_BYTES = 4 << 20
"""Of the messages of all partitions together; `MORE_BYTES` more if there is no record among them."""
PASSED_BYTES = 64 << 20
"""Of messages beyond the share of their partition, while others wait for theirs: reading ends behind them."""
_COUNTED_BYTES = 64
"""Of each message, besides its own: a sample of empty ones is bounded, too."""


class PayloadTypes(Protocol):
    """The types of some payloads, each of which holds one record."""

    @property
    def observed(self) -> Observed: ...

    def add(self, payload: bytes | None) -> None:
        """Raises FileFault if it holds no record, and what a registry that does not answer raises."""
        ...


class JsonTypes:
    """Of payloads that are JSON objects."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.observed = Observed()

    def add(self, payload: bytes | None) -> None:
        if payload is None:
            raise FileFault(Stage.PARSE, TOMBSTONE)
        if (why := text_fault(payload, self._limits) or empty_fault(payload)) is not None:
            raise FileFault(Stage.PARSE, why)
        try:
            record = parsed(payload)
        except NotJson as error:
            raise FileFault(Stage.PARSE, f"not JSON: {error}") from error
        if not isinstance(record, dict):
            raise FileFault(Stage.PARSE, "not a JSON object")
        self.observed.add_record(record)


@dataclass(slots=True)
class _Writer:
    """What is known of a schema by which messages were written. `is_used`: whether one of them could be read."""

    columns: Struct
    decoder: RecordDecoder
    is_used: bool = False


class AvroTypes:
    """Of payloads that are records of Avro. `given`: the schema of all, as JSON; None: each names its own, of
    `schemas`. Raises PermanentError if a given one has no columns."""

    def __init__(self, limits: Limits, given: str | None, schemas: Schemas | None) -> None:
        self._limits = limits
        self._schemas = schemas
        self._given: _Writer | None = None
        self._writers: dict[int, _Writer | FileFault] = {}
        self.observed = Observed()
        if given is not None:
            try:
                self._given = _writer_of(given)
            except FileFault as fault:
                raise PermanentError(
                    f"no schema can be inferred from the schema in `avro`: {fault.reason}. Nothing was read. Correct "
                    "it, or write the `schema`."
                ) from fault

    def add(self, payload: bytes | None) -> None:
        if payload is None:
            raise FileFault(Stage.PARSE, TOMBSTONE)
        if (why := size_fault(payload, self._limits)) is not None:
            raise FileFault(Stage.PARSE, why)
        writer = self._given
        start = 0 if writer is not None else PREFIX_BYTES
        writer = self._of_registry(schema_id_of(payload)) if writer is None else writer
        record = writer.decoder.one(payload, start)
        if not writer.is_used:
            writer.is_used = True
            self.observed.add_schema(writer.columns)
        self.observed.add_typed_record(record, writer.columns)

    def _of_registry(self, schema_id: int) -> _Writer:
        assert self._schemas is not None
        found = self._writers.get(schema_id)
        if found is None:
            try:
                found = _writer_of(self._schemas.schema(schema_id))
            except NoSchema as error:
                found = FileFault(Stage.PARSE, f"schema {schema_id} of the registry: {error}")
            except FileFault as fault:
                found = FileFault(Stage.PARSE, f"schema {schema_id} of the registry: {fault.reason}")
            self._writers[schema_id] = found
        if isinstance(found, FileFault):
            raise found.with_traceback(None)
        return found


def _writer_of(text: str) -> _Writer:
    """Raises FileFault."""
    try:
        schema = json.loads(text)
        columns, _ = avro_struct(schema)
        return _Writer(columns, RecordDecoder(schema, {}, frozenset()))
    except ERRORS as error:
        raise FileFault(Stage.PARSE, f"not a schema of Avro: {error!r:.200}") from error


def payload_types(format_name: str, limits: Limits, options: Mapping[str, Any]) -> PayloadTypes:
    """`options`: those of the format, with a registry's login."""
    if format_name != AVRO:
        return JsonTypes(limits)
    registry = options["registry"]
    return AvroTypes(limits, options["schema"], None if registry is None else SchemaRegistry(**registry))


@dataclass(slots=True)
class _Part:
    """Of one partition. `is_read`: whether its last message has come. `fault`: why a message holds no record, with its
    place."""

    path: str
    types: PayloadTypes
    messages: int = 0
    taken_bytes: int = 0
    is_read: bool = False
    fault: str | None = None

    def add(self, message: Message, size: int) -> bool:
        """Whether it holds a record."""
        self.messages += 1
        self.taken_bytes += size
        fault = message.fault
        if fault is None:
            try:
                self.types.add(message.payload)
            except FileFault as found:
                fault = found.reason
        if fault is not None:
            self.types.observed.broken += 1
            self.fault = self.fault or f"offset {message.offset} of {self.path}: {fault}"
        return fault is None


@dataclass(frozen=True, slots=True)
class MessageSample:
    """`first`: the path of the first partition with a record. `fault`: why a message holds none, with its place; None:
    there is no such message."""

    observed: Observed
    messages: int
    partitions: int
    first: str | None
    fault: str | None


def observe_messages(
    found: Iterable[tuple[OffsetRange, Iterable[Message]]], paths: Sequence[str], new_types: Callable[[], PayloadTypes]
) -> MessageSample:
    """As many messages of each of these partitions as its share of `SAMPLE_BYTES` has; more if there is no record among
    them. Reading ends before if others have much more than their share. The partitions are put together in their order,
    whichever comes first. Raises what reading them raises."""
    parts, share = {path: _Part(path, new_types()) for path in paths}, max(1, SAMPLE_BYTES // max(1, len(paths)))
    left_bytes, passed_bytes, has_record = SAMPLE_BYTES + MORE_BYTES, 0, False
    for one, messages in found:
        part = parts[one.path]
        for message in messages:
            size = message.size_bytes + _COUNTED_BYTES
            if part.taken_bytes < share or not has_record:
                left_bytes -= size
                has_record = part.add(message, size) or has_record
            else:
                passed_bytes += size
            part.is_read = message.offset + 1 >= one.end
        is_whole = has_record and all(each.is_read or each.taken_bytes >= share for each in parts.values())
        if is_whole or left_bytes <= 0 or passed_bytes >= PASSED_BYTES:
            break
    return _sample([*parts.values()])


def _sample(parts: Sequence[_Part]) -> MessageSample:
    observed = Observed()
    for part in parts:
        observed.join(part.types.observed)
    return MessageSample(
        observed,
        sum(part.messages for part in parts),
        sum(part.messages > 0 for part in parts),
        next((part.path for part in parts if part.types.observed.records), None),
        next((part.fault for part in parts if part.fault is not None), None),
    )
