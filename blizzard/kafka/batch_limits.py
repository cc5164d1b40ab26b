"""How many messages a batch has."""

from dataclasses import dataclass

FIRST_GUESS_BYTES = 1024
"""Of a message, before any was read."""
LARGEST_BYTES = 1 << 20
"""Of a message, unless a broker or topic is told to take larger ones."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Of one batch. `bytes`: of keys, headers and payloads, about."""

    messages: int
    bytes: int

    def messages_of(self, bytes_each: float) -> int:
        return max(1, min(self.messages, int(self.bytes / max(1.0, bytes_each))))

    @property
    def first(self) -> int:
        """Messages in the first batch of a source, which tells how large they are: `bytes` hold, however large."""
        return self.messages_of(LARGEST_BYTES)
