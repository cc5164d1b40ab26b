"""The rounds of the campaign `bad-storage`: without Spark, and with the real job."""

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice

from blizzard.errors import BlizzardError
from tests.proof.bad_storage.proxy import CONDITIONAL, OUTAGES, READS, STRETCH, BadStorage, Outage, Plan
from tests.proof.bad_storage.world import StoredWorld, Unclear, numbers_gone_wrong
from tests.proof.breaks import NO_LOOK, TWO_RUNS, UNCONDITIONAL_PUT
from tests.proof.campaign import Failed, Run
from tests.proof.interleavings.variants import RetryingDelta
from tests.proof.reduce import reduced
from tests.unit.fakes import MemoryDelta

RATES = (0.01, 0.05, 0.1, 0.2, 0.3)
STRETCHES, STRETCH_SECS = 0.002, (0.1, 1.0)
OUTAGE_SECS, SHORT_OUTAGE_SECS = (60.0, 120.0), (2.0, 3.0)
OUTLASTED_SECS = 5.0
"""Every call with the shipped retries outlasts a shorter outage: its backoffs last at least 6.3 s."""
BEGINS_WITHIN = 60
"""An outage begins within so many requests of its round."""
TURNS = 4
"""Turns of a round over bad storage."""
ROUNDS_A_TABLE = 12
COMMITS = "commits without an answer"
"""A part of a round that can be left out, like the faults of requests."""
FAULTS = (*{**READS, **CONDITIONAL},)
SMALLER_SECS = 120.0
"""No attempt at a reduction begins after so many seconds."""
TRIES = 3
"""Attempts with the same parts: threads decide the order of requests."""


@dataclass(frozen=True, slots=True)
class BadRound:
    """`turns`: the seed of each turn."""

    number: int
    rate: float
    turns: tuple[str, ...]


class CheapBadStorage:
    """The rounds without Spark."""

    def __init__(self, run: Run, proxy: BadStorage, calm_endpoint: str, name: str = "table") -> None:
        self._run = run
        self._proxy = proxy
        self._calm_endpoint = calm_endpoint
        self._name = name
        self._tables = self._rounds = 0
        self._steps: list[str] = []
        self._world = self._another()
        proxy.conditions = run.variant != UNCONDITIONAL_PUT

    def _another(self) -> StoredWorld:
        self._tables += 1
        delta = RetryingDelta() if self._run.variant == NO_LOOK else MemoryDelta()
        self._steps.clear()
        prefix, honest = f"{self._name}-{self._tables}/", self._run.variant != TWO_RUNS
        return StoredWorld(self._calm_endpoint, self._proxy, delta, prefix, honest=honest)

    def round(self, number: int, rng: random.Random) -> None:
        """A share of all requests fails, with short outages."""
        bad = BadRound(number, rng.choice(RATES), tuple(str(rng.random()) for _ in range(TURNS)))
        counted = Counter(self._run.counts)
        try:
            self.go(bad, f"{self._run.seed}/{number}")
        except Failed as failed:
            came = self._run.counts - counted
            raise self._with_the_smallest_way(
                failed, bad, [fault for fault in FAULTS if came[f"fault {fault}"]]
            ) from failed

    def go(self, bad: "BadRound", seed: str, only: Collection[str] | None = None) -> None:
        """`only`: the allowed faults; None: all."""
        plan = Plan(seed, bad.rate, STRETCHES, STRETCH_SECS, only=only)
        commits = bad.rate if only is None or COMMITS in only else 0.0

        def work() -> None:
            for turn, own in enumerate(bad.turns):
                self._turn(random.Random(own), commits, turn)

        what = f"{bad.rate:.0%} of all requests fail" + (
            "" if only is None else f", with {', '.join(only) or 'nothing'}"
        )
        self._over(plan, bad.number, f"{what}, for {len(bad.turns)} turns", work)

    def _with_the_smallest_way(self, failed: Failed, bad: "BadRound", came: Sequence[str]) -> Failed:
        """Not for a variant, whose fault is known."""
        if self._run.variant:
            return failed
        self._run.say("looks for the smallest way to what it has found")
        until_secs = time.monotonic() + SMALLER_SECS
        parts = [*bad.turns, STRETCH, COMMITS, *came]
        return reduced(failed, parts, self.again(bad), lambda: time.monotonic() < until_secs)

    def again(self, bad: "BadRound") -> Callable[[Sequence[str]], None]:
        """Repeats some turns with some faults, each time over a new table. Raises Failed. Its counts do not count for
        the run."""
        numbers = count(1)

        def again(parts: Sequence[str]) -> None:
            turns, faults = (
                [part for part in parts if part in bad.turns],
                [part for part in parts if part not in bad.turns],
            )
            for number in islice(numbers, TRIES if turns else 0):
                quiet = Run(self._run.seed, self._run.budget, self._run.folder, self._run.variant, self._run.say)
                name = f"{self._name}-{bad.number}-again-{number}"
                other = CheapBadStorage(quiet, self._proxy, self._calm_endpoint, name)
                self._proxy.created.clear()
                other.go(replace(bad, turns=tuple(turns)), f"{self._run.seed}/{bad.number}/{number}", faults)

        return again

    @property
    def outage_is_due(self) -> bool:
        """Once for each table."""
        return self._rounds % ROUNDS_A_TABLE == ROUNDS_A_TABLE // 2

    def outage(self, number: int, rng: random.Random, secs: tuple[float, float]) -> None:
        """All requests fail for so long. A process that gives up begins again, with the retries of production."""
        outage = Outage(rng.randrange(BEGINS_WITHIN), rng.uniform(*secs), rng.choice(OUTAGES))
        plan = Plan(f"{self._run.seed}/{number}", outage=outage)

        def work() -> None:
            turn = 0
            while not plan.outage_is_over:
                self._turn(rng, 0.0, turn)
                turn += 1

        what = f"all requests fail for {outage.secs:.0f} s ({outage.fault}), from the {outage.after_requests}. on"
        self._over(plan, number, what, work, shipped=True)
        gave_up = {what: count for what, count in plan.counts.items() if what.endswith("gave up")}
        if outage.secs < OUTLASTED_SECS and gave_up:
            self._fail(f"an outage of {outage.secs:.1f} s was not outlasted: {gave_up}")

    def _over(self, plan: Plan, number: int, what: str, work: Callable[[], object], *, shipped: bool = False) -> None:
        """The processes work while storage follows the plan; the final steps use good storage."""
        if self._rounds % ROUNDS_A_TABLE == 0 and self._rounds:
            self._world = self._another()
        self._rounds += 1
        self._steps.append(f"round {number}: {what}")
        self._run.say(self._steps[-1])
        world, self._proxy.plan = self._world, plan
        before = {path for path, _ in world.contents}
        try:
            world.go(bad=True, shipped=shipped)
            work()
            plan.end()
            self._go_well(world)
        except Unclear as error:
            self._fail(str(error))
        finally:
            plan.end()
            self._run.counts.update(plan.counts)
        self._run.counts["records"] += sum(
            len(data.splitlines()) for (path, _), data in world.contents.items() if path not in before
        )

    def _turn(self, rng: random.Random, rate: float, turn: int) -> None:
        world = self._world
        world.collect(world.arrive_some(rng, f"{self._rounds}.{turn}"), rng)
        job = partial(world.ingest, rng, rate)
        work = [world.sweep_both, job, job, partial(world.dispatch_twice, rng, rate), world.look]
        for part in rng.sample(work, len(work)):
            part()
        if wrong := numbers_gone_wrong(self._proxy.created) or world.runs.at_once():
            self._fail(wrong)

    def _go_well(self, world: StoredWorld) -> None:
        world.go(bad=False)
        self._proxy.created.clear()
        try:
            world.run_all_that_waits()
            if missing := world.missing_though_announced():
                self._fail(f"announced, and after a job over good storage not in the table: {sorted(missing)[:5]}")
            world.settle()
            status = world.status()
        except BlizzardError as error:
            self._fail(f"storage is well again, and nobody can go on: {error!r}")
        if wrong := world.wrong() or world.runs.at_once() or world.runs.records_gone_wrong(world.calm_state):
            self._fail(wrong)
        if status.problem or status.sequence != world.state_now().sequence:
            self._fail(f"expected commit {world.state_now().sequence} and no problem, status says {status}")

    def _fail(self, why: str) -> None:
        raise Failed(f"bad-storage, seed {self._run.seed}: {why}", [*self._steps])
