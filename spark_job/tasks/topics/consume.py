"""The messages of ranges, as formats take them."""

from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from confluent_kafka import Message as KafkaMessage

from blizzard.kafka.range_consumer import RangeConsumer
from spark_job.formats.messages.block import Headers, Message
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


def messages_of(
    ranges: Sequence[OffsetRange], settings: TopicSettings, memory_bytes: int
) -> Iterator[tuple[OffsetRange, list[Message]]]:
    """Errors as of `RangeConsumer.messages`."""
    wanted = {(one.topic, one.partition): one for one in ranges}
    places = {place: (one.start, one.end) for place, one in wanted.items()}
    consumer = RangeConsumer(places, settings.client, settings.isolation, memory_bytes)
    for place, found in consumer.messages():
        yield wanted[place], _messages(found)


def _messages(found: Sequence[Any]) -> list[Message]:
    """By calls for all of them at once, which take a third of the time of a call for each."""
    times, headers = [*map(_TIMESTAMP, found)], _headers(found)
    all_fit = all(kind != TIMESTAMP_NOT_AVAILABLE and FIRST_MS <= time_ms <= LAST_MS for kind, time_ms in times)
    if not all_fit or None in headers:
        return [_message(*each) for each in zip(found, times, headers, strict=True)]
    fields: Any = map(_OFFSET, found), [ms for _, ms in times], map(_KEY, found), headers, map(_VALUE, found)
    return [Message(*each) for each in zip(*fields, strict=True)]


def _headers(found: Sequence[Any]) -> list[Headers | None]:
    """None: one of the names is not UTF-8. A message is asked once: confluent_kafka keeps what it has not made whole,
    and a second answer would crash the process."""
    headers: list[Any] = []
    each = map(_HEADERS, found)
    while len(headers) < len(found):
        try:
            headers.extend(some or () for some in each)
        except SystemError:
            headers.append(None)
    return headers


def _message(message: Any, timestamp: tuple[int, int], headers: Headers | None) -> Message:
    kind, time_ms = timestamp
    time_of = None if kind == TIMESTAMP_NOT_AVAILABLE else time_ms
    fault: str | None = None
    if time_of is not None and not FIRST_MS <= time_of <= LAST_MS:
        fault = f"its time is {time_of} ms, which is not in the years 1 to 9999; expected Unix milliseconds"
        time_of = None
    if headers is None:
        fault = "the name of one of its headers is not UTF-8, so its headers cannot be read"
    return Message(message.offset(), time_of, message.key(), headers or (), message.value(), fault)
