"""Campaign 1: every interleaving of those who work on a small source at once, with crashes, in worlds that grow."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import ClassVar

from tests.proof.breaks import (
    LATE_LETTERS,
    MARKS_ALONE,
    NO_LOOK,
    NO_TXN,
    OLDER_STATE,
    TXN_NOT_COMPARED,
    UNCONDITIONAL_PUT,
    WIPED_BELIEVED,
)
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.interleavings.explore import explore
from tests.proof.interleavings.variants import PROGRAMS, VARIANTS
from tests.proof.interleavings.world import Explored, Found
from tests.proof.interleavings.worlds import Bounds, SmallWorld, ledger_of

SHRINK_SECS = 60.0
"""How long a shorter way to a fault is looked for."""
MOST_SWITCHES = 6
MOST_STATES = 60_000_000
"""Of one world; some 6 GB of memory."""
WHOLE, IN_PART = "states of {}", "states so far of {}"
"""Counts of a world that was explored to its end, and of one that was not."""


@dataclass(frozen=True, slots=True)
class Explorable:
    """Who is there, how many of them may die, how often one may be interrupted that could go on (None: always), and how
    many answers may be lost."""

    bounds: Bounds
    crashes: int
    switches: int | None = None
    lost: int = 0

    def __str__(self) -> str:
        interrupted = "" if self.switches is None else f", {self.switches} interruptions"
        lost = f", {self.lost} lost answers" if self.lost else ""
        return f"{self.bounds}, {self.crashes} deaths{interrupted}{lost}"


_PAIRS = (Bounds(2, 0, 1), Bounds(1, 1, 1), Bounds(1, 0, 2))
_ALL = Bounds(2, 2, 2)
_SHORT_WAYS = (
    *(Explorable(bounds, 0, switches) for switches in range(3) for bounds in _PAIRS),
    Explorable(Bounds(1, 0, 1), 1, 0),
    Explorable(Bounds(1, 0, 1), 0, 0, 1),
    Explorable(Bounds(2, 1, 1), 0, 0),
    Explorable(Bounds(2, 1, 1, wipers=1), 0, 1),
)
"""They give the shortest way to a fault."""
_WHOLE = (
    Bounds(2, 0, 1),
    Bounds(1, 1, 1),
    Bounds(1, 1, 1, bad=True),
    Bounds(0, 2, 1),
    Bounds(1, 0, 2),
    Bounds(0, 1, 2),
    Bounds(0, 1, 2, stale=True),
    Bounds(1, 0, 1, wipers=1),
)
_UNANSWERED = (
    Explorable(Bounds(1, 0, 1), 2, None, 2),
    *(Explorable(bounds, 2, None, 1) for bounds in _WHOLE),
    Explorable(_ALL, 0, 0, 1),
)
"""With a lost answer anywhere, which is some five to forty times as many states."""
_LATE = (
    *(
        Explorable(bounds, 2)
        for bounds in (
            Bounds(1, 0, 1, late=1),
            Bounds(1, 0, 1, late=1, stale=True),
            Bounds(0, 1, 1, late=1),
            Bounds(0, 0, 2, late=1),
        )
    ),
    Explorable(Bounds(1, 0, 1, late=1), 2, None, 1),
    Explorable(Bounds(1, 0, 1, late=1, wipers=1), 1),
    *(Explorable(Bounds(1, 1, 2, late=1), 0, switches) for switches in range(2)),
)
"""With a late sweep that begins and ends at any time among the others."""
_NAMED = (
    *(Explorable(Bounds(1, 1, 2, stale=stale), 1, 1) for stale in (True, False)),
    Explorable(_ALL, 0, 0),
    Explorable(_ALL, 2, 0),
    Explorable(_ALL, 0, 1),
)
"""Either sweeper beside two jobs, with a death and an interruption anywhere. And all at once: each after the other in
any order, with two deaths after any steps; and with an interruption anywhere."""
_IN_FOLDERS = (
    *(
        Explorable(replace(bounds, folders=True), 2)
        for bounds in (
            Bounds(2, 0, 1),
            Bounds(1, 1, 1),
            Bounds(1, 1, 1, bad=True),
            Bounds(1, 0, 2),
            Bounds(1, 0, 1, late=1),
        )
    ),
    Explorable(Bounds(1, 1, 1, folders=True), 2, None, 1),
)
_MERGED = (
    *(
        Explorable(replace(bounds, merged=True), 2)
        for bounds in (Bounds(2, 0, 1), Bounds(1, 1, 1), Bounds(1, 0, 2), Bounds(1, 0, 1, late=1))
    ),
    Explorable(Bounds(1, 0, 1, merged=True), 2, None, 2),
    Explorable(Bounds(1, 1, 1, folders=True, merged=True), 2, None, 1),
)
"""Jobs write runs of the ledger, merge and delete them, while others read them."""
_LARGER = (Bounds(1, 1, 1, wipers=1), Bounds(2, 1, 1))
"""Minutes each."""
_LARGE = (
    Bounds(1, 1, 2, stale=True),
    Bounds(1, 1, 2),
    Bounds(1, 2, 1),
    Bounds(0, 2, 2),
    Bounds(2, 0, 2),
    Bounds(2, 2, 1),
    Bounds(2, 1, 2),
    Bounds(1, 2, 2),
    Bounds(1, 1, 2, wipers=1),
)
WORLDS = (
    *_SHORT_WAYS,
    *(Explorable(bounds, 2) for bounds in _WHOLE),
    *_NAMED,
    *_UNANSWERED,
    *_LATE,
    *_IN_FOLDERS,
    *_MERGED,
    *(Explorable(bounds, 2) for bounds in _LARGER),
    Explorable(Bounds(2, 2, 2, late=1), 0, 0),
    Explorable(_ALL, 1, 1),
    *(Explorable(bounds, 2) for bounds in _LARGE),
    Explorable(_ALL, 2),
)
"""In the order in which they are explored. Each of the large ones has more states than minutes suffice for."""


@dataclass(frozen=True, slots=True)
class SmallWorlds:
    worlds: Sequence[Explorable] = WORLDS
    name: str = "small-worlds"
    about: str = (
        "every interleaving of collectors, sweepers and jobs in a world of three files, with a crash after any step"
    )
    wanted: ClassVar[Sequence[str]] = [
        WHOLE.format(world)
        for world in (
            *(Explorable(bounds, 2) for bounds in _WHOLE),
            *_NAMED,
            *_UNANSWERED,
            *_LATE,
            *_IN_FOLDERS,
            *_MERGED,
        )
    ]
    variants: ClassVar[Mapping[str, Fault]] = {
        UNCONDITIONAL_PUT: Fault(
            "a file that was announced is not in the table", r"^announced, and after a job not in the table"
        ),
        TXN_NOT_COMPARED: Fault("a file's records are in the table twice", r"^doubled: "),
        OLDER_STATE: Fault(
            "what the newest commit holds is doubled by a job that comes before the copy", r"^doubled: "
        ),
        MARKS_ALONE: Fault("the watermark is above a file that is not in the table", r"^lost: the watermark of commit"),
        NO_LOOK: Fault("a batch is in the table twice", r"^doubled: "),
        NO_TXN: Fault(
            "rows are in the table of which no commit has the state", r"^rows of .* of which there is no commit"
        ),
        WIPED_BELIEVED: Fault(
            "the watermark is above a file whose entry was deleted", r"^lost: the watermark of commit"
        ),
        LATE_LETTERS: Fault("a job dies between the commit and the dead letter of a bad record", r"^silent: "),
    }

    def run(self, run: Run) -> None:
        harm = VARIANTS[run.variant] if run.variant and run.variant not in PROGRAMS else _unharmed
        with PROGRAMS.get(run.variant, nullcontext)():
            for number, _ in run.rounds():
                if number >= len(self.worlds):
                    return
                self._explore(self.worlds[number], harm, run)

    def _explore(self, world: Explorable, harm: Callable[[SmallWorld], object], run: Run) -> None:
        with ledger_of(world.bounds):
            self._explore_all(world, harm, run)

    def _explore_all(self, world: Explorable, harm: Callable[[SmallWorld], object], run: Run) -> None:
        before = Counter(run.counts)
        make = partial(SmallWorld, world.bounds, harm)

        def stop(explored: Explored) -> bool:
            run.counts.update(_counted(explored, before, run.counts))
            run.say(f"{world}: {explored.states:,} states")
            late = run.budget.until_ts is not None and run.budget.clock() >= run.budget.until_ts
            return late or explored.states >= MOST_STATES

        try:
            explored = explore(make, crashes=world.crashes, switches=world.switches, lost_answers=world.lost, stop=stop)
        except Found as found:
            raise _failed(world, _shortest(make, world, found, run.budget.clock), run) from found
        run.counts.update(_counted(explored, before, run.counts))
        whole = "worlds explored whole" if world.switches is None else "worlds explored within a bound of interruptions"
        run.counts[(WHOLE if explored.complete else IN_PART).format(world)] = explored.states
        run.counts[whole if explored.complete else "worlds explored in part"] += 1


def _unharmed(world: SmallWorld) -> None:
    return None


def _counted(explored: Explored, before: Counter[str], now: Counter[str]) -> Counter[str]:
    """What has to be added to the counts, for them to hold this exploration once."""
    found = {
        "states": explored.states,
        "steps": explored.steps,
        "ends": explored.ends,
        "deaths": explored.deaths,
        "answers lost": explored.unanswered,
    }
    return Counter({name: before[name] + count - now[name] for name, count in found.items()})


def _shortest(make: Callable[[], SmallWorld], world: Explorable, found: Found, clock: Callable[[], float]) -> Found:
    """As few crashes and interruptions as any way to a fault, if that can be found out in time."""
    until_ts = clock() + SHRINK_SECS
    for less in _fewer(world):
        if clock() >= until_ts:
            break
        crashes, switches, lost = less.crashes, less.switches, less.lost
        try:
            explore(
                make,
                crashes=crashes,
                switches=switches,
                lost_answers=lost,
                stop=lambda explored: clock() >= until_ts,
            )
        except Found as shorter:
            return shorter
    return found


def _fewer(world: Explorable) -> Iterator[Explorable]:
    """The same with less of something."""
    most = MOST_SWITCHES if world.switches is None else world.switches + 1
    for lost, crashes, switches in product(range(world.lost + 1), range(world.crashes + 1), range(most)):
        less = Explorable(world.bounds, crashes, switches, lost)
        if less != world:
            yield less


def _failed(world: Explorable, found: Found, run: Run) -> Failed:
    return Failed(f"{found.why}\nin the world of {world} (after {run.counts['states']:,} states)", found.steps)


CAMPAIGN = SmallWorlds()
