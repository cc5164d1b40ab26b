"""What one task reads of topics: ranges of offsets, and how to reach the brokers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.state.topic_checkpoint import path_of


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The messages of one partition with offsets from `start` (inclusive) to `end` (exclusive). There may be fewer than
    `end - start`: compaction leaves gaps, and markers of transactions have offsets, too."""

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int

    @property
    def path(self) -> str:
        return path_of((self.topic, self.partition))

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How tasks read topics. `client`: librdkafka's settings, with the passwords, so this is never logged."""

    client: Mapping[str, str]
    isolation: str
    quiet_secs: float = 60.0
    """How long no broker may answer before the batch is given up, and planned again."""

    def consumer_settings(self, memory_bytes: int) -> dict[str, Any]:
        """A consumer that belongs to no group, commits nothing, and fails rather than read other offsets than those
        that it is told."""
        return {
            "client.id": "blizzard",
            "log_level": 0,  # what matters comes with the answers
            "group.id": "blizzard-reads-without-a-group",  # librdkafka wants one; nothing is ever sent for it
            **self.client,
            "isolation.level": self.isolation,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 5_000,
            "queued.max.messages.kbytes": max(1024, memory_bytes >> 10),
        }
