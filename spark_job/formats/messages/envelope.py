"""The format `envelope`: each message of a topic as it is."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_job.formats.deferred import all_refused
from spark_job.formats.messages.block import Message, MessageBlock
from spark_job.formats.messages.payloads import decoded_payloads, size_fault
from spark_job.formats.protocol import Limits, Parsed

_HEADERS = pa.map_(pa.string(), pa.binary())


class EnvelopeFormat:
    """`schema`: the columns of `envelope`, in their order. A header that is there twice is twice in the map."""

    def __init__(self, schema: StructType, limits: Limits, options: Mapping[str, Any]) -> None:
        self._schema = schema
        self._limits = limits
        self._as_text = options["payload"] == "string"

    def parse(self, blocks: Sequence[MessageBlock]) -> Parsed:
        messages = [*chain.from_iterable(block.messages for block in blocks)]
        payloads: Sequence[str | bytes | None] = [message.payload for message in messages]
        refused: Mapping[int, str] = {}
        positions: list[int] | None = None
        if self._as_text:
            payloads, positions, refused = decoded_payloads(messages, self._limits)
        elif refused := self._refused(messages):
            positions = [number for number in range(len(messages)) if number not in refused]
            payloads = [messages[number].payload for number in positions]
        taken = messages if positions is None else [messages[number] for number in positions]
        topics, partitions = _repeated(blocks, positions)
        columns = [
            topics,
            partitions,
            pa.array([message.offset for message in taken], pa.int64()),
            pa.array([None if m.time_ms is None else 1000 * m.time_ms for m in taken], pa.timestamp("us", tz="UTC")),
            pa.array([message.key for message in taken], pa.binary()),
            pa.array([message.headers for message in taken], _HEADERS),
            pa.array(payloads, pa.string() if self._as_text else pa.binary()),
        ]
        records = pa.Table.from_arrays(columns, names=self._schema.names)
        texts = [messages[number].payload or b"" for number in refused]
        return Parsed(records, positions, [*refused.items()], texts)

    def _refused(self, messages: Sequence[Message]) -> dict[int, str]:
        """By number, why no envelope can take the message. Nearly always there is none, which is found at once."""
        sizes = (len(message.payload) for message in messages if message.payload is not None)
        if max(sizes, default=0) <= self._limits.max_record_bytes and not any(message.fault for message in messages):
            return {}
        return {
            number: why
            for number, message in enumerate(messages)
            if (why := message.fault or size_fault(message.payload, self._limits)) is not None
        }

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)


def _repeated(blocks: Sequence[MessageBlock], positions: Sequence[int] | None) -> tuple[pa.Array, pa.Array]:
    """Topic and partition of each message, or of those at `positions`."""
    topics = pa.concat_arrays([pa.repeat(pa.scalar(block.topic, pa.string()), block.count) for block in blocks])
    partitions = pa.concat_arrays([pa.repeat(pa.scalar(block.partition, pa.int32()), block.count) for block in blocks])
    if positions is None:
        return topics, partitions
    chosen = pa.array(positions, pa.int64())
    return topics.take(chosen), partitions.take(chosen)
