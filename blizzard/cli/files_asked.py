"""Which files, and which offsets of topics, `blizzard files` is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    COMMITTED = "committed"
    DEAD_LETTERED = "dead_lettered"
    SKIPPED = "skipped"
    PENDING = "pending"
    MISSING = "missing"
    ABSENT = "absent"


UNKNOWN = "unknown"
"""The state of what only a source may have that could not be looked at."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the arguments ask for. `limit` 0: all."""

    globs: Sequence[str]
    since_ts: float | None
    states: frozenset[State]
    limit: int
