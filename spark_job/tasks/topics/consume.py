"""The messages of ranges, as formats take them."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from confluent_kafka import Message as KafkaMessage

from blizzard.kafka.range_consumer import RangeConsumer
from spark_job.formats.messages.message_columns import Headers, MessageColumns
from spark_job.ports.offset_range import OffsetRange, TopicSettings

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The times that every reader of the table can show."""
_OFFSET: Any = KafkaMessage.offset
_TIMESTAMP: Any = KafkaMessage.timestamp
_KEY: Any = KafkaMessage.key
_HEADERS: Any = KafkaMessage.headers
_VALUE: Any = KafkaMessage.value
"""For calls by `map`, which looks whether an error is left behind. Of a header's name that is not UTF-8 confluent_kafka
leaves one, and answers all the same; a call in Python's own way does not look, and a later line would raise it."""
_UNREADABLE = "the name of one of its headers is not UTF-8, so its headers cannot be read"


def messages_of(
    ranges: Sequence[OffsetRange], settings: TopicSettings, memory_bytes: int
) -> Iterator[tuple[OffsetRange, MessageColumns]]:
    """Errors as of `RangeConsumer.messages`."""
    wanted = {(one.topic, one.partition): one for one in ranges}
    places = {place: (one.start, one.end) for place, one in wanted.items()}
    consumer = RangeConsumer(places, settings.client, settings.isolation, memory_bytes)
    for place, found in consumer.messages():
        yield wanted[place], columns_of(found)


def columns_of(found: Sequence[Any]) -> MessageColumns:
    """By calls for all of them at once: Python does nothing for a single message, unless something is odd about it."""
    offsets = pa.array([*map(_OFFSET, found)], pa.int64())
    times, faults = _times(found)
    headers, unreadable = _headers(found)
    faults |= dict.fromkeys(unreadable, _UNREADABLE)
    return MessageColumns(offsets, times, [*map(_KEY, found)], headers, [*map(_VALUE, found)], faults)


def _times(found: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """Null for a message without a time, or with one that is a fault."""
    times = pa.array([ms for kind, ms in map(_TIMESTAMP, found) if kind], pa.int64())  # TIMESTAMP_NOT_AVAILABLE is 0
    least, most = pc.min_max(times).values()
    if len(times) == len(found) and least.as_py() >= FIRST_MS and most.as_py() <= LAST_MS:
        return times, {}
    known, faults = list[int | None](), dict[int, str]()
    for at, (kind, ms) in enumerate(map(_TIMESTAMP, found)):
        is_fit = FIRST_MS <= ms <= LAST_MS
        known.append(ms if is_fit and kind != TIMESTAMP_NOT_AVAILABLE else None)
        if not is_fit and kind != TIMESTAMP_NOT_AVAILABLE:
            faults[at] = f"its time is {ms} ms, which is not in the years 1 to 9999; expected Unix milliseconds"
    return pa.array(known, pa.int64()), faults


def _headers(found: Sequence[Any]) -> tuple[Sequence[Headers] | None, list[int]]:
    """As `MessageColumns` has them, and the places of those of which one of the names is not UTF-8. A message is asked
    once: confluent_kafka keeps what it has not made whole, and a second answer would crash the process."""
    headers: list[Any] = []
    unreadable: list[int] = []
    each = map(_HEADERS, found)
    while len(headers) < len(found):
        try:
            headers.extend(each)
        except SystemError:
            unreadable.append(len(headers))
            headers.append(None)
    return [some or () for some in headers] if any(headers) else None, unreadable
