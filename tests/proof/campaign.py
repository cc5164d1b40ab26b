"""Common to all campaigns of the proof: rounds within a budget, counts, and variants with deliberate faults."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

FILES = 100_000
SPARK_SHARE = 0.1


class Failed(AssertionError):
    """Something is lost, doubled or silently dropped. `steps`: the smallest known steps to reproduce it."""

    def __init__(self, why: str, steps: Sequence[str] = ()) -> None:
        super().__init__("\n".join([why, *(f"{number:4}. {step}" for number, step in enumerate(steps, 1))]))
        self.why = why
        self.steps = steps


@dataclass(frozen=True, slots=True)
class Fault:
    """A deliberate fault, and what a campaign must report when it finds it: a crash of a process is not a finding."""

    shows: str
    """How it shows in this campaign, for the table in docs/proof.md."""
    found_as: str
    """A regular expression that must match the reason of the failure (`Failed.why`)."""

    def finds(self, why: str) -> bool:
        """Whether a campaign that failed for this reason has found the fault."""
        return re.search(self.found_as, why) is not None


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many rounds, and none that begins after `until_ts` (by `clock`); at least one."""

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
    """For its files; empty at first, removed by the caller."""
    variant: str = ""
    """Name of the deliberate fault; empty: none."""
    say: Callable[[str], None] = lambda now: None
    """Shows the current step to a person who watches."""
    files: int = FILES
    """How many files the campaign `engines`, and of each format the campaign `formats`, reads at most."""
    counts: Counter[str] = field(default_factory=Counter)
    """Counts by name: `kills`, `kills before the commit`, `races`, `faults`, `records`."""
    spark_share: float = SPARK_SHARE
    """Of the rounds of the campaign `kafka`: so many have jobs on Spark, from 0 to 1."""

    def rounds(self) -> Iterator[tuple[int, random.Random]]:
        """The number of each round, and its own random generator, so that a round does not depend on those before
        it."""
        done = 0
        while self.budget.left(done):
            yield done, self.rng(done)
            done += 1
            self.counts["rounds"] += 1

    def rng(self, number: int) -> random.Random:
        """The random generator of this round, in its initial state."""
        return random.Random(f"{self.seed}/{number}")


class Campaign(Protocol):
    """A campaign. Its counts have the names that docs/proof.md uses. `wanted`, if it has that, names the counts that
    must be at least one before it has shown everything that it can show."""

    name: str
    """One word, or two with a hyphen, for the command line: `small-worlds`, `kill`."""
    about: str
    """One line of description."""
    variants: Mapping[str, Fault]
    """Deliberate faults by name, each of which it must find."""

    def run(self, run: Run) -> None:
        """Raises Failed; counts in `run.counts`."""
        ...


def untried(campaign: Campaign, counts: Mapping[str, int]) -> list[str]:
    """The required counts that are zero."""
    wanted: Sequence[str] = getattr(campaign, "wanted", ())
    return [name for name in wanted if not counts.get(name)]


def check_shown(run: Run, wanted: Iterable[str]) -> None:
    """Raises Failed if one of these counts is zero."""
    if idle := [name for name in wanted if not run.counts[name]]:
        raise Failed(f"these never came about, so they have shown nothing: {'; '.join(idle)}", [f"seed {run.seed}"])
