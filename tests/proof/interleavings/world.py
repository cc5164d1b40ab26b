"""What an exploration needs of a world, and what it finds there."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.proof.interleavings.processes import Worker


class Broken(AssertionError):
    """An invariant does not hold."""


class World(Protocol):
    """Made once for an exploration, and put into each state in turn."""

    workers: Sequence[Worker]
    checked: int
    """The areas that `check` looks at."""
    heeded: frozenset[str]
    """The workers of whom `finish` asks whether they have ended."""

    def keep(self) -> tuple[Hashable, Any]:
        """What is shared, as it is now: a key that is the same for the same content, and what `restore` gets."""
        ...

    def restore(self, kept: Any) -> None: ...

    def check(self) -> None:
        """Raises Broken where an invariant does not hold in this state."""
        ...

    def finish(self, ended: frozenset[str]) -> None:
        """Those of `heeded` that have ended; all others have ended or are dead. Raises Broken if what is there does not
        lead to a good end. It may do with the world what it likes."""
        ...


class Found(AssertionError):
    """A way to a state in which an invariant does not hold."""

    def __init__(self, why: str, steps: Sequence[str]) -> None:
        super().__init__("\n".join([why, *(f"{number:4}. {step}" for number, step in enumerate(steps, 1))]))
        self.why = why
        self.steps = steps


@dataclass(slots=True)
class Explored:
    """What was looked at."""

    states: int = 0
    steps: int = 0
    """Between two states."""
    ends: int = 0
    """States in which all processes have ended that are not dead, each led to a good end."""
    deaths: int = 0
    """In all ends."""
    unanswered: int = 0
    """Steps of which no answer came."""
    runs: int = 0
    """Sequences of answers that a process was given."""
    complete: bool = True
