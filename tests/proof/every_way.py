"""Campaign 1: every interleaving of those who work on a small source at once, with crashes, in worlds that grow."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from tests.proof.campaign import Failed, Run
from tests.proof.explore import Explored, Found, explore
from tests.proof.small_worlds import Bounds, SmallWorld
from tests.proof.variants import VARIANTS

SHRINK_SECS = 60.0
"""How long a shorter way to a fault is looked for."""
MOST_SWITCHES = 6


@dataclass(frozen=True, slots=True)
class Explorable:
    """Who is there, how many of them may die, and how often one may be interrupted that could go on (None: always)."""

    bounds: Bounds
    crashes: int
    switches: int | None = None

    def __str__(self) -> str:
        interrupted = "" if self.switches is None else f", interrupted {self.switches} times at most"
        return f"{self.bounds}, {self.crashes} crashes{interrupted}"


_PAIRS = (Bounds(2, 0, 1), Bounds(1, 1, 1), Bounds(1, 0, 2))
_ALL = Bounds(2, 2, 2)
WORLDS = (
    *(Explorable(bounds, 0, switches) for switches in range(3) for bounds in _PAIRS),
    Explorable(Bounds(2, 0, 1), 1),
    Explorable(Bounds(1, 1, 1), 1),
    Explorable(_ALL, 0, 0),
    Explorable(Bounds(0, 1, 2), 0),
    Explorable(Bounds(0, 2, 1), 1),
    Explorable(Bounds(1, 0, 2), 1),
    Explorable(_ALL, 1, 0),
    Explorable(_ALL, 0, 1),
    Explorable(Bounds(2, 1, 1), 1),
    Explorable(_ALL, 1, 1),
    Explorable(Bounds(1, 1, 2), 1),
    Explorable(Bounds(2, 2, 1), 1),
    Explorable(_ALL, 1, 2),
    Explorable(Bounds(1, 2, 2), 2),
    Explorable(_ALL, 2),
)
"""In the order in which they are explored; the last one has more states than any budget."""


class SmallWorlds:
    name = "small-worlds"
    about = "every interleaving of collectors, sweepers and jobs in a world of three files, with a crash after any step"
    variants: Mapping[str, str] = {
        "a segment is written by an unconditional PUT": "a file that was announced is not in the table",
        "the Txn's version is not compared": "a file's records are in the table twice",
        "an older state is taken for the current one": "nobody can go on, or what the newest commit holds is doubled",
        "a watermark passes a file that is in no segment": "the watermark is above a file that is not in the table",
        "a commit is tried again without a look at what became of it": "a batch is in the table twice",
    }

    def run(self, run: Run) -> None:
        harm = VARIANTS[run.variant] if run.variant else _unharmed
        for number, _ in run.rounds():
            if number >= len(WORLDS):
                return
            self._explore(WORLDS[number], harm, run)

    def _explore(self, world: Explorable, harm: Callable[[SmallWorld], object], run: Run) -> None:
        before = Counter(run.counts)
        make = partial(SmallWorld, world.bounds, harm)

        def stop(explored: Explored) -> bool:
            run.counts.update(_counted(explored, before, run.counts))
            run.say(f"{world}: {explored.states:,} states")
            return run.budget.until_ts is not None and run.budget.clock() >= run.budget.until_ts

        try:
            explored = explore(make, crashes=world.crashes, switches=world.switches, stop=stop)
        except Found as found:
            raise _failed(world, _shortest(make, world, found, run.budget.clock), run) from found
        run.counts.update(_counted(explored, before, run.counts))
        run.counts["worlds explored whole" if explored.complete else "worlds in part"] += 1


def _unharmed(world: SmallWorld) -> None:
    return None


def _counted(explored: Explored, before: Counter[str], now: Counter[str]) -> Counter[str]:
    """What has to be added to the counts, for them to hold this exploration once."""
    found = {"states": explored.states, "steps": explored.steps, "ends": explored.ends, "crashes": explored.crashes}
    return Counter({name: before[name] + count - now[name] for name, count in found.items()})


def _shortest(make: Callable[[], SmallWorld], world: Explorable, found: Found, clock: Callable[[], float]) -> Found:
    """As few crashes and interruptions as any way to a fault, if that can be found out in time."""
    until_ts = clock() + SHRINK_SECS
    for crashes, switches in _fewer(world):
        if clock() >= until_ts:
            break
        try:
            explore(make, crashes=crashes, switches=switches, stop=lambda explored: clock() >= until_ts)
        except Found as shorter:
            return shorter
    return found


def _fewer(world: Explorable) -> Iterator[tuple[int, int]]:
    for crashes in range(world.crashes + 1):
        for switches in range(MOST_SWITCHES if world.switches is None else world.switches + 1):
            yield crashes, switches


def _failed(world: Explorable, found: Found, run: Run) -> Failed:
    return Failed(f"{found.why}\nin the world of {world} (after {run.counts['states']:,} states)", found.steps)


CAMPAIGN = SmallWorlds()
