"""How long each part of a turn of the ingest loop takes, or each part of a task. Only for the log and its metrics."""

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
    """Seconds of each part of one turn, rounded to milliseconds; 0 for parts that did not occur."""

    recover: float = 0.0
    """Finding the checkpoint to continue from."""
    plan: float = 0.0
    """Reading segments and deciding what the batch takes; settling by a listing."""
    prepare: float = 0.0
    """Starting Spark and preparing the table, before the first batch."""
    suspects: float = 0.0
    """Looking files up in the ledger."""
    read: float = 0.0
    """The tasks without `write`: fetch, decompress, parse."""
    write: float = 0.0
    """The share of the tasks' time that went into writing data files, by the tasks' own clocks."""
    letters: float = 0.0
    receipt: float = 0.0
    lookup: float = 0.0
    """Reading the Txn of the table's newest version, in whichever part that happens."""
    commit: float = 0.0
    landed: float = 0.0
    """Checking whether the commit in the log is this one."""
    copy: float = 0.0
    trim: float = 0.0
    total: float = 0.0
    """Since the start of the turn, including the time between parts."""


class Stopwatch:
    """Times the parts of a turn. `clock` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Start a turn."""
        self._began = self._clock()
        self._parts: dict[str, float] = {}
        self._inner_secs = 0.0

    @contextmanager
    def part(self, name: Part) -> Iterator[None]:
        """Add the time of the block to a part, even if the block raises; without the time of parts within the block."""
        before_secs, self._inner_secs = self._inner_secs, 0.0
        began = self._clock()
        try:
            yield
        finally:
            secs = self._clock() - began
            self._parts[name] = self._parts.get(name, 0.0) + secs - self._inner_secs
            self._inner_secs = before_secs + secs

    def move_share(self, share: float, *, source: Part, target: Part) -> None:
        """Move a share (0 to 1) of the seconds that `source` has so far to `target`."""
        secs = share * self._parts.get(source, 0.0)
        self._parts[source] = self._parts.get(source, 0.0) - secs
        self._parts[target] = self._parts.get(target, 0.0) + secs

    def secs(self) -> TurnSecs:
        """The turn so far."""
        total = self._clock() - self._began
        return TurnSecs(**{name: round(secs, 3) for name, secs in self._parts.items()}, total=round(total, 3))
