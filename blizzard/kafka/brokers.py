"""What a source of topics asks the brokers: which topics there are, and which offsets they have."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from blizzard.state.topic_checkpoint import Partition


@dataclass(frozen=True, slots=True)
class Topic:
    """`topic_id`: the brokers' own id, which a topic made later under the same name does not have. `partitions`: their
    numbers."""

    topic_id: str
    partitions: Collection[int]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The topics that a source reads, by name."""

    cluster_id: str
    topics: Mapping[str, Topic]

    def partitions(self) -> list[Partition]:
        return [(name, number) for name, topic in self.topics.items() for number in topic.partitions]


class Brokers(Protocol):
    """Every method raises RetryableError if no broker answers, PermanentError if they refuse."""

    def cluster(self) -> Cluster: ...

    def first_offsets(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Of the first message that each still has; of one without messages, that of the next one."""
        ...

    def end_offsets(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Behind the last message that may be read: with `read_committed`, before the first transaction that is
        open."""
        ...

    def offsets_at(self, partitions: Collection[Partition], since_ts: float) -> Mapping[Partition, int]:
        """Of the first message of each with that time or a later one (Unix seconds); without one, the end offset."""
        ...

    def publish(self, group: str, next_offsets: Mapping[Partition, int]) -> None:
        """As the committed offsets of a consumer group."""
        ...
