"""How long each part of a turn of the ingest loop takes, or of a task: for the log and its metrics, never for a
decision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Part = Literal[
    "recover",
    "plan",
    "prepare",
    "suspects",
    "read",
    "write",
    "letters",
    "receipt",
    "lookup",
    "commit",
    "landed",
    "copy",
    "trim",
]


@dataclass(frozen=True, slots=True)
class TurnSecs:
    """Seconds of each part of one turn, in whole milliseconds; 0 for what it did not do."""

    recover: float = 0.0
    """Finding the state to go on from."""
    plan: float = 0.0
    """Reading segments, deciding what the batch takes; settling by a listing."""
    prepare: float = 0.0
    """Starting the engine and fitting the table, before the first batch."""
    suspects: float = 0.0
    """Asking the table about files."""
    read: float = 0.0
    """The tasks, but for `write`: fetch, decompress, parse."""
    write: float = 0.0
    """Of the tasks' time what they say that writing data files took of it."""
    letters: float = 0.0
    receipt: float = 0.0
    lookup: float = 0.0
    """Asking the table for the Txn of its newest version, wherever that happens."""
    commit: float = 0.0
    landed: float = 0.0
    """Looking whether the commit in the log is this one."""
    copy: float = 0.0
    trim: float = 0.0
    total: float = 0.0
    """From the turn's begin, with what is in between the parts."""


class Stopwatch:
    """Times the parts of a turn. `clock` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """A turn begins."""
        self._began = self._clock()
        self._parts: dict[str, float] = {}
        self._inner_secs = 0.0

    @contextmanager
    def part(self, name: Part) -> Iterator[None]:
        """Add the block's time to a part, also if it raises; but for that of parts within it, which is theirs alone."""
        before_secs, self._inner_secs = self._inner_secs, 0.0
        began = self._clock()
        try:
            yield
        finally:
            secs = self._clock() - began
            self._parts[name] = self._parts.get(name, 0.0) + secs - self._inner_secs
            self._inner_secs = before_secs + secs

    def set_apart(self, name: Part, share: float, *, of: Part) -> None:
        """Give a share (0 to 1) of what one part has so far to another."""
        secs = share * self._parts.get(of, 0.0)
        self._parts[of] = self._parts.get(of, 0.0) - secs
        self._parts[name] = self._parts.get(name, 0.0) + secs

    def secs(self) -> TurnSecs:
        """The turn so far."""
        total = self._clock() - self._began
        return TurnSecs(**{name: round(secs, 3) for name, secs in self._parts.items()}, total=round(total, 3))
