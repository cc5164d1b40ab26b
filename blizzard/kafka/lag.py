"""How far behind a source of topics is: messages that wait, and since when the first of them does."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from blizzard.config.kafka_options import KafkaOptions
from blizzard.kafka.brokers import Brokers
from blizzard.kafka.connect import Reports, consumer_settings
from blizzard.kafka.errors import OF_NO_GROUP, read_error
from blizzard.kafka.login import Login
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint

PEEK_SECS = 10.0
PEEKED_BYTES = 1 << 20
_PEEKING = {
    "auto.offset.reset": "earliest",  # the first message may be gone since
    "fetch.message.max.bytes": 1 << 16,
}


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """`lag`: offsets that wait; some may have no message. `waiting_since_ts`: the time of the first message that waits
    (Unix seconds); None: there is none, or it has no time."""

    partition: Partition
    next_offset: int
    end_offset: int
    waiting_since_ts: float | None = None

    @property
    def lag(self) -> int:
        return max(0, self.end_offset - self.next_offset)


def lags(brokers: Brokers, options: KafkaOptions, checkpoint: TopicCheckpoint | None) -> list[PartitionLag]:
    """By topic and partition; of partitions that the checkpoint does not know, from their first message. Errors as of
    `Brokers`."""
    cluster = brokers.cluster()
    partitions = sorted(cluster.partitions())
    ends, firsts = brokers.end_offsets(partitions), brokers.first_offsets(partitions)
    found = []
    for partition in partitions:
        known = None if checkpoint is None else checkpoint.next_offset(partition)
        found.append(PartitionLag(partition, firsts[partition] if known is None else known, ends[partition]))
    behind = {one.partition: max(one.next_offset, firsts[one.partition]) for one in found if one.lag}
    times = first_times(options, behind) if behind else {}
    return [PartitionLag(p.partition, p.next_offset, p.end_offset, times.get(p.partition)) for p in found]


def first_times(
    options: KafkaOptions,
    places: Mapping[Partition, int],
    monotonic: Callable[[], float] = time.monotonic,
) -> dict[Partition, float]:
    """The times of the first messages from these offsets on, as far as they come within PEEK_SECS."""
    reports = Reports()
    settings = consumer_settings(Login(options).settings(), options.isolation, PEEKED_BYTES, reports)
    consumer = Consumer({**settings, **_PEEKING})
    found: dict[Partition, float] = {}
    try:
        waiting = {*places}
        consumer.assign([TopicPartition(topic, number, places[topic, number]) for topic, number in places])
        deadline = monotonic() + PEEK_SECS
        while waiting and monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                if (refusal := reports.refusal()) is not None:
                    raise refusal
                continue
            place, error = (str(message.topic()), int(message.partition() or 0)), message.error()
            if error is not None and error.code() == OF_NO_GROUP:
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise read_error(error)
            time_ms = message.timestamp()[1]
            if error is None and time_ms >= 0 and place in waiting:
                found[place] = time_ms / 1000
            if place in waiting:
                waiting.discard(place)
                consumer.incremental_unassign([TopicPartition(*place)])
    except KafkaException as failed:
        raise read_error(failed.args[0]) from failed
    finally:
        consumer.close()
    return found
