"""What every campaign of the proof has: rounds within a budget, counts of what it did, and variants that are broken on
purpose, which it must find."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Failed(AssertionError):
    """Something is lost, doubled or silent. `steps` are the smallest way there that is known."""

    def __init__(self, why: str, steps: Sequence[str] = ()) -> None:
        super().__init__("\n".join([why, *(f"{number:4}. {step}" for number, step in enumerate(steps, 1))]))
        self.why = why
        self.steps = steps


@dataclass(frozen=True, slots=True)
class Fault:
    """What is broken on purpose, and what a campaign must say when it meets it: that a life crashes finds nothing."""

    shows: str
    """How it shows in this campaign, in words for docs/proof.md."""
    found_as: str
    """A regular expression that is in the reason of the failure (`Failed.why`)."""

    def finds(self, why: str) -> bool:
        """Whether a campaign that failed for this reason has found it."""
        return re.search(self.found_as, why) is not None


@dataclass(frozen=True, slots=True)
class Budget:
    """So many rounds at most, and none that begins after `until_ts` (as `clock` counts seconds); at least one."""

    clock: Callable[[], float]
    rounds: int | None = None
    until_ts: float | None = None

    def left(self, done: int) -> bool:
        """Whether another round may begin after `done` of them."""
        within = self.rounds is None or done < self.rounds
        return done == 0 or (within and (self.until_ts is None or self.clock() < self.until_ts))


@dataclass(slots=True)
class Run:
    """One run of one campaign."""

    seed: int
    budget: Budget
    folder: Path
    """For whatever it writes; empty at first, removed by whoever made it."""
    variant: str = ""
    """What is broken on purpose; empty: nothing."""
    say: Callable[[str], None] = lambda now: None
    """What it does at this moment, for a person who watches."""
    counts: Counter[str] = field(default_factory=Counter)
    """What was done so far, in words: `kills`, `kills before the commit`, `races`, `faults`, `records`."""

    def rounds(self) -> Iterator[tuple[int, random.Random]]:
        """The number of each round and its own source of randomness, so that it does the same however much of it those
        before it have used."""
        done = 0
        while self.budget.left(done):
            yield done, self.rng(done)
            done += 1
            self.counts["rounds"] += 1

    def rng(self, number: int) -> random.Random:
        """Of the round of this number, as it was when the round began."""
        return random.Random(f"{self.seed}/{number}")


class Campaign(Protocol):
    """Named in words of docs/proof.md. One that knows what it has to have done before it has shown all that it can show
    says so in `wanted`, as names of counts, of which each is to be one at least."""

    name: str
    """One word or two with a hyphen, for the command line: `small-worlds`, `kill`."""
    about: str
    """One line for people."""
    variants: Mapping[str, Fault]
    """What is broken on purpose, by name, and must be found here."""

    def run(self, run: Run) -> None:
        """Raises Failed; counts what it did in `run.counts`."""
        ...


def untried(campaign: Campaign, counts: Mapping[str, int]) -> list[str]:
    """Of what it wants, that of which these counts have nothing."""
    wanted: Sequence[str] = getattr(campaign, "wanted", ())
    return [name for name in wanted if not counts.get(name)]


def check_shown(run: Run, wanted: Iterable[str]) -> None:
    """Raises Failed: what never came about has shown nothing."""
    if idle := [name for name in wanted if not run.counts[name]]:
        raise Failed(f"these never came about, so they have shown nothing: {'; '.join(idle)}", [f"seed {run.seed}"])
