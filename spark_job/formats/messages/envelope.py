"""The format `envelope`: each message of a topic as it is."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_job.formats.deferred import all_refused
from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.messages.message_columns import Headers, joined
from spark_job.formats.messages.payloads import payload_column
from spark_job.formats.protocol import Limits, Parsed


class EnvelopeFormat:
    """`schema`: the columns of `envelope`, in their order. A header that is there twice is twice in the map."""

    def __init__(self, schema: StructType, limits: Limits, options: Mapping[str, Any]) -> None:
        self._schema = schema
        self._limits = limits
        self._as_text = options["payload"] == "string"

    def parse(self, blocks: Sequence[MessageBlock]) -> Parsed:
        messages = joined([block.messages for block in blocks])
        payloads, positions, refused = payload_column(messages, self._limits, as_text=self._as_text)
        taken = messages if positions is None else messages.chosen(positions)
        topics, partitions = _repeated(blocks, positions)
        columns = [
            topics,
            partitions,
            taken.offsets,
            pc.multiply(taken.times_ms, 1000).cast(pa.timestamp("us", tz="UTC")),
            pa.array(taken.keys, pa.binary()),
            _header_maps(taken.headers, len(taken)),
            payloads,
        ]
        records = pa.Table.from_arrays(columns, names=self._schema.names)
        texts = [messages.payloads[number] or b"" for number in refused]
        return Parsed(records, positions, [*refused.items()], texts)

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)


def _header_maps(headers: Sequence[Headers] | None, count: int) -> pa.Array:
    """`headers`: of `count` messages."""
    if headers is not None:
        return pa.array(headers, pa.map_(pa.string(), pa.binary()))
    starts = pa.repeat(pa.scalar(0, pa.int32()), count + 1)
    return pa.MapArray.from_arrays(starts, pa.array([], pa.string()), pa.array([], pa.binary()))


def _repeated(blocks: Sequence[MessageBlock], positions: Sequence[int] | None) -> tuple[pa.Array, pa.Array]:
    """Topic and partition of each message, or of those at `positions`."""
    topics = pa.concat_arrays([pa.repeat(pa.scalar(block.topic, pa.string()), block.count) for block in blocks])
    partitions = pa.concat_arrays([pa.repeat(pa.scalar(block.partition, pa.int32()), block.count) for block in blocks])
    if positions is None:
        return topics, partitions
    chosen = pa.array(positions, pa.int64())
    return topics.take(chosen), partitions.take(chosen)
