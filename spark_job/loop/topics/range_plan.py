"""What the next commit of a source of topics reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from blizzard.kafka.positions import Gap
from blizzard.state.schema_changes import SchemaChange
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint
from spark_job.ports.offset_range import OffsetRange


@dataclass(frozen=True, slots=True)
class RangePlan:
    """What the next commit reads. `found`: the checkpoint as this plan leaves it, with partitions that are new and gaps
    behind it, but without the ranges. `waiting`: messages that the partitions have altogether. `lags`: how many of them
    each partition has, also those that have none; empty if the brokers were not asked. `caught_up`: as of `RunGoal`."""

    base: TopicCheckpoint
    found: TopicCheckpoint
    ranges: Sequence[OffsetRange] = ()
    gaps: Sequence[Gap] = ()
    waiting: int = 0
    full: bool = False
    lags: Mapping[Partition, int] = field(default_factory=lambda: MappingProxyType({}))
    caught_up: bool = False
    schema_change: SchemaChange | None = None
    unresolved: bool = False
    segments: int = 0
    duplicates: int = 0

    @property
    def empty(self) -> bool:
        """A gap waits for the next messages, of whatever partition."""
        return not self.ranges

    @property
    def moved(self) -> bool:
        """A partition that was found is found again."""
        return False
