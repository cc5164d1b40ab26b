"""How far behind a source of topics is: messages that wait, and since when the first of them does."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError, TopicPartition

from blizzard.config.kafka_options import KafkaOptions
from blizzard.kafka.brokers import Brokers
from blizzard.kafka.connect import Reports, consumer_settings
from blizzard.kafka.errors import read_error
from blizzard.kafka.first_messages import first_messages
from blizzard.kafka.login import Login
from blizzard.kafka.positions import check_read
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, path_of

PEEK_SECS = 10.0
PEEKED_BYTES = 1 << 20
_PEEKING = {
    "auto.offset.reset": "earliest",  # the first message may be gone since
    "fetch.message.max.bytes": 1 << 16,
}


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """`lag`: offsets that wait; some may have no message. `waiting_since_ts`: the time of the first message that waits
    (Unix seconds); None: there is none, or it has no time. `held_back`: offsets behind them that no run may read yet,
    since a transaction is open; `held_since_ts`: the time of the first of these messages."""

    partition: Partition
    next_offset: int
    end_offset: int
    waiting_since_ts: float | None = None
    held_back: int = 0
    held_since_ts: float | None = None

    @property
    def lag(self) -> int:
        return max(0, self.end_offset - self.next_offset)


def lags(
    brokers: Brokers, options: KafkaOptions, checkpoint: TopicCheckpoint | None, *, checked: bool = False
) -> list[PartitionLag]:
    """By topic and partition; of partitions that the checkpoint does not know, from their first message. Each thing is
    asked once. Errors as of `Brokers`; with `checked`, also as of `check_read`."""
    cluster = brokers.cluster()
    partitions = sorted(cluster.partitions())
    committed = options.isolation == "read_committed"  # else the ends are the high watermarks
    highs = brokers.high_watermarks(partitions) if committed else {}  # first: what comes in between is not held back
    told = brokers.ends(partitions)
    if checked and checkpoint is not None:
        check_read(checkpoint, brokers, cluster, told)
    ends, firsts = {each: end.offset for each, end in told.items()}, brokers.first_offsets(partitions)
    found = []
    for partition in partitions:
        known = None if checkpoint is None else checkpoint.next_offset(partition)
        found.append(PartitionLag(partition, firsts[partition] if known is None else known, ends[partition]))
    behind = {one.partition: max(one.next_offset, firsts[one.partition]) for one in found if one.lag}
    times = first_times(options, behind) if behind else {}
    held = {partition: high - ends[partition] for partition, high in highs.items() if high > ends[partition]}
    since = first_times(_with_open_ones(options), {each: ends[each] for each in held}) if held else {}
    return [
        replace(
            one,
            waiting_since_ts=times.get(one.partition),
            held_back=held.get(one.partition, 0),
            held_since_ts=since.get(one.partition),
        )
        for one in found
    ]


def _with_open_ones(options: KafkaOptions) -> KafkaOptions:
    """The options, to read messages of transactions that are open, too."""
    return options.model_copy(update={"isolation": "read_uncommitted"})


def first_times(
    options: KafkaOptions,
    places: Mapping[Partition, int],
    monotonic: Callable[[], float] = time.monotonic,
) -> dict[Partition, float]:
    """The times of the first messages from these offsets on, as far as they come within PEEK_SECS."""
    reports = Reports()
    settings = consumer_settings(Login(options).settings(), options.isolation, PEEKED_BYTES, reports)
    wanted = [TopicPartition(*place, offset) for place, offset in places.items()]
    found: dict[Partition, float] = {}
    deadline = monotonic() + PEEK_SECS
    with closing(first_messages({**settings, **_PEEKING}, reports, wanted)) as came:
        for one in came:
            if one is not None:
                place, message = one
                error, time_ms = message.error(), message.timestamp()[1]
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise read_error(error, path_of(place))
                if error is None and time_ms >= 0:
                    found[place] = time_ms / 1000
            if monotonic() >= deadline:
                break
    return found
