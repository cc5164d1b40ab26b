"""The messages of ranges, as formats take them."""

from collections.abc import Iterator, Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from blizzard.kafka.range_consumer import RangeConsumer
from spark_job.formats.messages.block import Headers, Message
from spark_job.ports.offset_range import OffsetRange, TopicSettings

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The times that every reader of the table can show."""
_headers_of = methodcaller("headers")
"""Of a name that is not UTF-8 confluent_kafka leaves an error behind and answers all the same. A call in Python's own
way does not look for such an error, and a later line would raise it."""


def messages_of(
    ranges: Sequence[OffsetRange], settings: TopicSettings, memory_bytes: int
) -> Iterator[tuple[OffsetRange, list[Message]]]:
    """Errors as of `RangeConsumer.messages`."""
    wanted = {(one.topic, one.partition): one for one in ranges}
    places = {place: (one.start, one.end) for place, one in wanted.items()}
    consumer = RangeConsumer(places, settings.client, settings.isolation, memory_bytes)
    for place, found in consumer.messages():
        yield wanted[place], [_message(message) for message in found]


def _message(message: Any) -> Message:
    kind, time_ms = message.timestamp()
    time_of = None if kind == TIMESTAMP_NOT_AVAILABLE else time_ms
    fault: str | None = None
    if time_of is not None and not FIRST_MS <= time_of <= LAST_MS:
        fault = f"its time is {time_of} ms, which is not in the years 1 to 9999; expected Unix milliseconds"
        time_of = None
    headers: Headers = ()
    try:
        headers = _headers_of(message) or ()
    except SystemError:
        fault = "the name of one of its headers is not UTF-8, so its headers cannot be read"
    return Message(message.offset(), time_of, message.key(), headers, message.value(), fault)
