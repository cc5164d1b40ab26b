"""What one task reads of topics: ranges of offsets, and how to reach the brokers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """How tasks read topics. `client`: librdkafka's settings, with the passwords, so this is never logged. `options`:
    those of the format that take the place of the source's, with a registry's login."""

    client: Mapping[str, str]
    isolation: str
    options: Mapping[str, Any] = field(default_factory=dict)
