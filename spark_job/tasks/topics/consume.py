"""The messages of ranges, as formats take them."""

from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from blizzard.kafka.range_consumer import RangeConsumer
from spark_job.formats.messages.block import Message
from spark_job.ports.offset_range import OffsetRange, TopicSettings


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
    return Message(message.offset(), time_of, message.key(), message.headers() or (), message.value())
