"""The processes of one race, and the search for a smaller race that still fails."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tests.proof.campaign import Failed
from tests.proof.race.names import OPERATIONS

FILES = 8
"""Files of each source before the race begins; half as many arrive during the race."""
OPERATIONS_OF_A_ROUND = 4
"""Operations of the other writer; half as many in a short run."""
FEWEST_FILES = 2
WIDENS_EVERY = 5
"""Rounds: no multiple or divisor of those after which operations, places, ways to meet and mixes repeat."""
MIXES: Sequence[tuple[str, ...]] = (("spark", "auto"), ("auto", "spark"), ("spark",), ("auto",))
"""Engines of jobs. The first job of the first two is the one that has to lose, where one has to."""


class Meeting(StrEnum):
    """How two jobs of one source come to commit the same sequence."""

    ONE_WAITS = "one waits with its first commit, of a larger batch, until another has made one of that number"
    BY_CHANCE = "each hesitates for as long as a commit takes"


@dataclass(frozen=True, slots=True)
class Shape:
    """`jobs` of the source `raced` for, and so many of the other one."""

    raced: str
    jobs: int
    others: int
    collectors: int
    sweepers: int
    """Both of each source."""
    operations: tuple[str, ...]
    """Operations of the other writer."""
    files: int
    meeting: Meeting
    engines: tuple[str, ...]
    """Of the jobs of each source."""
    widens: bool = False
    """Whether records widen a column, so that from then on only Spark commits to the table."""

    def __str__(self) -> str:
        who = f"{self.jobs} jobs of {self.raced}, {self.others} of the other source, with {' and '.join(self.engines)}"
        helpers = f"{self.collectors} collectors and {self.sweepers} sweepers of each"
        somebody = f"; somebody with {', '.join(self.operations)}" if self.operations else ""
        widened = "; a column is widened" if self.widens else ""
        return f"{self.files} files of each source; {who}, {helpers}; of the jobs {self.meeting}{somebody}{widened}"

    def engine_of(self, job: int) -> str:
        """Of a job of one source, counted from 0. Where the first one waits, all others have the other engine if there
        is one: with the same engine they would be quicker than those, and it would never lose to the other."""
        last = len(self.engines) - 1
        return self.engines[min(job, last) if self.meeting is Meeting.ONE_WAITS else job % (last + 1)]

    def smaller(self) -> "Iterator[Shape]":
        """Shapes with less of one thing each, first those with much less."""
        if self.operations:
            yield replace(self, operations=())
        if self.sweepers or self.collectors:
            yield replace(self, sweepers=0, collectors=0)
        if self.others:
            yield replace(self, others=0)
        if self.jobs > 2:
            yield replace(self, jobs=2)
        if self.widens:
            yield replace(self, widens=False)
        yield from (replace(self, engines=(engine,)) for engine in self.engines if len(self.engines) > 1)
        if self.files > FEWEST_FILES:
            yield replace(self, files=self.files // 2)
        if len(self.operations) > 1:
            for one in self.operations:
                yield replace(self, operations=tuple(other for other in self.operations if other != one))
        if self.sweepers and self.collectors:
            yield replace(self, sweepers=0)
            yield replace(self, collectors=0)


def drawn(
    rng: random.Random,
    number: int,
    sources: Sequence[str],
    *,
    short: bool,
    alone: bool,
    places: int,
    mixes: Sequence[tuple[str, ...]] = MIXES,
    widens: bool | None = None,
) -> Shape:
    """The shape of a round. 2 to 4 jobs on one source (2 in a `short` run), 1 on the other. `alone`: nobody else
    changes the table. How jobs meet changes after each of `places` had it; the most telling way comes first. Each of
    `mixes`, of engines, comes in turn, and later with the other place and way to meet. `widens` None: every fifth round
    does, so that each place, way to meet and mix comes with it and without it."""
    raced, jobs = rng.choice(sources), rng.randint(2, 2 if short else 4)
    return Shape(
        raced=raced,
        jobs=jobs,
        others=1,
        collectors=1 if short else 2,
        sweepers=1,
        operations=() if alone else tuple(operations_of(number, rng, short=short)),
        files=FILES,
        meeting=[*Meeting][number // places % len(Meeting)],
        engines=mixes[(number + number // (places * len(Meeting))) % len(mixes)],
        widens=number % WIDENS_EVERY == WIDENS_EVERY - 1 if widens is None else widens,
    )


def operations_of(number: int, rng: random.Random, *, short: bool) -> list[str]:
    """Some in each round, each after two or three."""
    count = OPERATIONS_OF_A_ROUND // (2 if short else 1)
    some = [OPERATIONS[(number * count + more) % len(OPERATIONS)] for more in range(count)]
    return rng.sample(some, len(some))


def smallest(
    shape: Shape, failed: Failed, go: Callable[[Shape], Failed | None], left: Callable[[], bool]
) -> tuple[Shape, Failed]:
    """The smallest shape that still fails, as far as `go` finds it while there is time `left`, with its failure. A
    random failure may pass once, so it may not be the smallest of all."""
    tried: list[Shape] = []
    while True:
        for less in shape.smaller():
            if less in tried:
                continue
            if not left():
                return shape, failed
            tried.append(less)
            if (again := go(less)) is not None:
                shape, failed = less, again
                break
        else:
            return shape, failed
