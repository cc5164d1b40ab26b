"""Reads ranges of offsets by librdkafka: assign and seek, no consumer group."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from blizzard.errors import RetryableError
from blizzard.kafka.connect import Reports, consumer_settings, made
from blizzard.kafka.errors import OF_NO_GROUP, read_error
from blizzard.state.topic_checkpoint import Partition, path_of

MESSAGES_AT_ONCE = 10_000
POLL_SECS = 0.05
"""How long the client waits for as many as it was asked for, even if it has some already."""
QUIET_SECS = 60.0
TOLD_EACH = 4
"""So often within that time the client tells how far it has fetched."""
_TOPIC: Any = Message.topic
_PARTITION: Any = Message.partition
_ERROR: Any = Message.error


class RangeConsumer:
    """Reads some ranges of offsets, each from its first (inclusive) to its second (exclusive), side by side. `client`:
    the settings of `Login`, with the passwords. `memory_bytes`: for messages that are fetched ahead.
    `quiet_secs`: how long no broker may give any messages, be it some that do not count. `monotonic` is a clock in
    seconds. Raises as `made`."""

    def __init__(
        self,
        ranges: Mapping[Partition, tuple[int, int]],
        client: Mapping[str, str],
        isolation: str,
        memory_bytes: int,
        quiet_secs: float = QUIET_SECS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = dict(ranges)
        self._is_one_topic = len({topic for topic, _ in ranges}) == 1
        self._quiet_secs = quiet_secs
        self._monotonic = monotonic
        self._reports = Reports()
        self._heard_ts = 0.0
        self._fetched: dict[Partition, int] = {}
        settings = consumer_settings(client, isolation, memory_bytes, self._reports)
        told = {"statistics.interval.ms": max(1, int(quiet_secs * 1000 / TOLD_EACH)), "stats_cb": self._note_fetched}
        self._consumer = made(Consumer, {**settings, **told})

    def messages(self) -> Iterator[tuple[Partition, list[Any]]]:
        """All messages of the ranges, as confluent_kafka has them, some of one partition at a time. Raises
        RetryableError if the brokers do not answer, or no longer have what they had; PermanentError if they refuse."""
        try:
            self._consumer.assign([TopicPartition(*place, start) for place, (start, _) in self._left.items()])
            self._heard_ts = self._monotonic()
            while self._left:
                found, has_errors = self._consumed()
                if found:
                    self._heard_ts = self._monotonic()
                    yield from self._sorted(found, has_errors)
                elif (refusal := self._reports.refusal()) is not None:
                    raise refusal
                elif self._monotonic() - self._heard_ts > self._quiet_secs:
                    raise RetryableError(f"no broker has answered for {self._quiet_secs:.0f} s{self._said()}")
        except confluent_kafka.KafkaException as error:
            raise read_error(error.args[0]) from error
        finally:
            self._consumer.close()

    def _consumed(self) -> tuple[list[Any], bool]:
        """Some messages, and whether there are errors among them."""
        left = sum(end - start for start, end in self._left.values())
        found: list[Any] = self._consumer.consume(min(MESSAGES_AT_ONCE, max(1, left)), POLL_SECS)
        if not any(map(_ERROR, found)):  # an error is true
            return found, False
        return [one for one in found if (error := one.error()) is None or error.code() != OF_NO_GROUP], True

    def _note_fetched(self, statistics: str) -> None:
        """Messages of aborted transactions come, too, and nobody is given them. The client calls this."""
        for name, topic in json.loads(statistics)["topics"].items():
            for number, partition in topic["partitions"].items():
                place, at = (name, int(number)), partition["next_offset"]
                if at > self._fetched.setdefault(place, at):
                    self._fetched[place], self._heard_ts = at, self._monotonic()

    def _said(self) -> str:
        newest = self._reports.newest
        return "" if newest is None else f"; the client says: {newest.str()}"

    def _sorted(self, found: Sequence[Any], has_errors: bool) -> Iterator[tuple[Partition, list[Any]]]:
        by_partition: dict[Partition, list[Any]] = {}
        ended = set[Partition]()
        for place, run in self._runs(found, has_errors):
            start, end = self._left.get(place, (0, None))
            if (error := run[0].error()) is not None:
                self._judge(error, place, end, run[0].offset())
                ended.add(place)
            elif end is not None and place not in ended:
                inside = run
                if run[-1].offset() >= end:
                    ended.add(place)
                    inside = [message for message in run if message.offset() < end]
                self._left[place] = max(start, run[-1].offset() + 1), end
                if inside:
                    by_partition.setdefault(place, []).extend(inside)
        for place, messages in by_partition.items():
            yield place, messages
            if messages[-1].offset() + 1 >= self._left[place][1]:
                ended.add(place)
        done = [place for place in ended if self._left.pop(place, None) is not None]
        if done and self._left:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in done])

    def _judge(self, error: KafkaError, place: Partition, end: int | None, offset: int) -> None:
        """Returns if it says that the partition's last message has been read. Raises for every other error."""
        if error.code() != KafkaError._PARTITION_EOF:
            raise read_error(error, "" if end is None else path_of(place))
        if end is not None and offset < end:
            raise RetryableError(
                f"{path_of(place)} ends at offset {offset}; expected messages up to {end - 1}, which it had before"
            )

    def _runs(self, found: Sequence[Any], has_errors: bool) -> Iterator[tuple[Partition, Sequence[Any]]]:
        """Messages of one partition that follow each other; an error is alone. Errors are told apart by their identity:
        to compare one with None leaves an exception behind, which another call would raise."""
        keys: Iterable[Any] = map(_PARTITION, found)
        if not self._is_one_topic:
            keys = zip(keys, map(_TOPIC, found), strict=True)
        if has_errors:
            keys = zip(keys, map(id, map(_ERROR, found)), strict=True)
        start = 0
        for _, some in groupby(keys):
            first, end = found[start], start + len([*some])
            yield (first.topic(), first.partition()), found[start:end]
            start = end
