"""Reads ranges of offsets by librdkafka: assign and seek, no consumer group."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, TopicPartition

from blizzard.errors import RetryableError
from blizzard.kafka.errors import REFUSED, read_error
from spark_job.formats.messages.block import Message
from spark_job.ports.offset_range import OffsetRange, TopicSettings

MESSAGES_AT_ONCE = 10_000
POLL_SECS = 1.0


class RangeConsumer:
    """Reads some ranges, of different partitions, side by side. `monotonic` is a clock in seconds."""

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        settings: TopicSettings,
        memory_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = {(one.topic, one.partition): one for one in ranges}
        self._quiet_secs = settings.quiet_secs
        self._monotonic = monotonic
        self._error: KafkaError | None = None
        """The newest that the client has reported beside the messages."""
        self._consumer = Consumer({**settings.consumer_settings(memory_bytes), "error_cb": self._note})

    def messages(self) -> Iterator[tuple[OffsetRange, list[Message]]]:
        """All messages of the ranges, some of one range at a time. Raises RetryableError if the brokers do not answer,
        or no longer have what they had; PermanentError if they refuse."""
        try:
            self._consumer.assign([TopicPartition(t, p, one.start) for (t, p), one in self._left.items()])
            heard_ts = self._monotonic()
            while self._left:
                found = self._consumer.consume(MESSAGES_AT_ONCE, POLL_SECS)
                if found:
                    heard_ts = self._monotonic()
                    yield from self._sorted(found)
                elif self._error is not None and self._error.code() in REFUSED:
                    raise read_error(self._error)
                elif self._monotonic() - heard_ts > self._quiet_secs:
                    raise RetryableError(f"no broker has answered for {self._quiet_secs:.0f} s{self._said()}")
        except confluent_kafka.KafkaException as error:
            raise read_error(error.args[0]) from error
        finally:
            self._consumer.close()

    def _note(self, error: KafkaError) -> None:
        self._error = error

    def _said(self) -> str:
        return "" if self._error is None else f"; the client says: {self._error.str()}"

    def _sorted(self, found: Sequence[Any]) -> Iterator[tuple[OffsetRange, list[Message]]]:
        by_partition: dict[tuple[str, int], list[Message]] = {}
        ended = set[tuple[str, int]]()
        for message in found:
            error, place = message.error(), (message.topic(), message.partition())
            one = self._left.get(place)
            if error is not None:
                self._judge(error, one, message.offset())
                ended.add(place)
            elif one is not None and place not in ended:
                if message.offset() >= one.end:
                    ended.add(place)
                else:
                    by_partition.setdefault(place, []).append(_message(message))
        for place, messages in by_partition.items():
            yield self._left[place], messages
            if messages[-1].offset + 1 >= self._left[place].end:
                ended.add(place)
        done = [place for place in ended if self._left.pop(place, None) is not None]
        if done and self._left:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in done])

    def _judge(self, error: KafkaError, one: OffsetRange | None, offset: int) -> None:
        """Returns if it says that the partition's last message has been read. Raises for every other error."""
        if error.code() != KafkaError._PARTITION_EOF:
            raise read_error(error)
        if one is not None and offset < one.end:
            raise RetryableError(
                f"{one.path} ends at offset {offset}; expected messages up to {one.end - 1}, which it had when the "
                "batch was planned"
            )


def _message(message: Any) -> Message:
    kind, time_ms = message.timestamp()
    time_of = None if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else time_ms
    return Message(message.offset(), time_of, message.key(), message.headers() or (), message.value())
