"""What one task reads of topics: ranges of offsets, and how to reach the brokers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from blizzard.state.topic_checkpoint import path_of


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The messages of one partition with offsets from `start` (inclusive) to `end` (exclusive). There may be fewer than
    `end - start`: compaction leaves gaps, and markers of transactions have offsets, too.

    `wanted`: only the messages with these offsets, ascending; None: all. `given`: payloads that an operator gives in
    place of theirs, by offset; a message with such an offset need not be there, and the range may be empty then."""

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int
    wanted: tuple[int, ...] | None = None
    given: tuple[tuple[int, str], ...] = ()

    def as_values(self) -> list[Any]:
        """As JSON has them. Few ranges have the last two."""
        values: list[Any] = [self.topic, self.partition, self.topic_id, self.start, self.end]
        return values if self.wanted is None else [*values, self.wanted, self.given]

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> Self:
        topic, partition, topic_id, start, end, *some = values
        if not some:
            return cls(topic, partition, topic_id, start, end)
        wanted, given = some
        texts = tuple((offset, text) for offset, text in given)
        return cls(topic, partition, topic_id, start, end, tuple(wanted), texts)

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
