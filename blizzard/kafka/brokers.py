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


@dataclass(frozen=True, slots=True)
class End:
    """Of a partition. `offset`: as of `Brokers.end_offsets`. `leader_epoch`: a number that grows with each election of
    the partition's leader. None: the brokers do not tell it."""

    offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """In a partition's log: behind messages that a leader of this epoch, or one before it, had."""

    offset: int
    leader_epoch: int


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

    def high_watermarks(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Behind the last message that all replicas in sync have, also of transactions that are open."""
        ...

    def ends(self, partitions: Collection[Partition]) -> Mapping[Partition, End]:
        """As `end_offsets`, with the epochs of the leaders that said so."""
        ...

    def truncated(self, places: Mapping[Partition, Place]) -> Mapping[Partition, str]:
        """Of these, the partitions whose logs were cut off before the place, and perhaps filled again since; with what
        the brokers say about it. Raises RetryableError as well if one of them says nothing for some seconds."""
        ...

    def offsets_at(self, partitions: Collection[Partition], since_ts: float) -> Mapping[Partition, int]:
        """Of the first message of each with that time or a later one (Unix seconds); without one, the end offset."""
        ...

    def publish(self, group: str, next_offsets: Mapping[Partition, int]) -> None:
        """As the committed offsets of a consumer group."""
        ...
