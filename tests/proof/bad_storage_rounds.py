"""The rounds of the campaign `bad-storage`: without Spark, and with the real job."""

import random
from collections.abc import Callable
from functools import partial

from blizzard.errors import BlizzardError
from tests.proof.bad_storage_proxy import OUTAGES, BadStorage, Outage, Plan
from tests.proof.bad_storage_spark import Ended, SparkJobs
from tests.proof.bad_storage_world import StoredWorld, Unclear, numbers_gone_wrong
from tests.proof.breaks import NO_LOOK, TWO_RUNS, UNCONDITIONAL_PUT
from tests.proof.campaign import Failed, Run
from tests.proof.variants import RetryingDelta
from tests.unit.fakes import MemoryDelta

RATES = (0.01, 0.05, 0.1, 0.2, 0.3)
STRETCHES, STRETCH_SECS = 0.002, (0.1, 1.0)
OUTAGE_SECS, SHORT_OUTAGE_SECS = (60.0, 120.0), (2.0, 3.0)
OUTLASTED_SECS = 5.0
"""An outage that is shorter is outlasted by every call with the shipped patience: its pauses last 6.3 s at least."""
SPARK_OUTAGES = "outages of the real job"
BEGINS_WITHIN = 60
"""Requests, of a round with an outage."""
TURNS = 4
"""Of a round, before storage is well again."""
ROUNDS_A_TABLE = 12
RUNS = 3
"""Of the real job in such a round, before storage is well again."""
CLEAR = ("RetryableError", "StorageUnavailable", "LostRace")
"""Kinds of errors that say: try again."""
FOLLOWS = "the source could not be swept"
"""What the job says at its end, after it has said why."""


class CheapBadStorage:
    """The rounds without Spark."""

    def __init__(self, run: Run, proxy: BadStorage, calm_endpoint: str) -> None:
        self._run = run
        self._proxy = proxy
        self._calm_endpoint = calm_endpoint
        self._tables = self._rounds = 0
        self._steps: list[str] = []
        self._world = self._another()
        proxy.conditions = run.variant != UNCONDITIONAL_PUT

    def _another(self) -> StoredWorld:
        self._tables += 1
        delta = RetryingDelta() if self._run.variant == NO_LOOK else MemoryDelta()
        self._steps.clear()
        prefix, honest = f"table-{self._tables}/", self._run.variant != TWO_RUNS
        return StoredWorld(self._calm_endpoint, self._proxy, delta, prefix, honest=honest)

    def round(self, number: int, rng: random.Random) -> None:
        """So many of all requests fail, with short outages now and then."""
        rate = rng.choice(RATES)
        plan = Plan(f"{self._run.seed}/{number}", rate, STRETCHES, STRETCH_SECS)
        with_rate = partial(self._turn, rng, rate)
        self._over(plan, number, f"{rate:.0%} of all requests fail", lambda: [with_rate(t) for t in range(TURNS)])

    @property
    def outage_is_due(self) -> bool:
        """Once for each table."""
        return self._rounds % ROUNDS_A_TABLE == ROUNDS_A_TABLE // 2

    def outage(self, number: int, rng: random.Random, secs: tuple[float, float]) -> None:
        """All requests fail for so long. Whoever gives up begins again, with the patience that users have."""
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
        """The work while storage follows the plan, then the end over good storage."""
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
        raise Failed(f"bad-storage, seed {self._run.seed}: {why}", self._steps)


class SparkBadStorage:
    """The rounds with the real job. Its process is started when the first of them comes."""

    def __init__(self, run: Run, jobs: Callable[[], SparkJobs], proxy: BadStorage) -> None:
        self._run = run
        self._make = jobs
        self._proxy = proxy
        self._jobs: SparkJobs | None = None
        self._steps: list[str] = []

    def round(self, number: int, rng: random.Random, runs: int = RUNS) -> None:
        """First the answer of a commit is lost and nothing else goes wrong; then so many of all requests fail."""
        self.lose_a_commit(number, rng)
        for turn in range(runs):
            rate = rng.choice(RATES)
            self._begin(number, rng, f"{rate:.0%} of all requests fail")
            self._go_badly(Plan(f"{self._run.seed}/{number}/{turn}", rate, STRETCHES, STRETCH_SECS))
        self._go_well(number)

    def lose_a_commit(self, number: int, rng: random.Random) -> None:
        """The log store knows its own commit again, though S3 refuses to write it twice. With the patience that users
        have: that this machine is busy for a second must not look like another fault."""
        self._begin(number, rng, "the answer of a commit is lost")
        plan = Plan(0, lose_delta_commits=1)
        ended = self._go_badly(plan, shipped=True)
        if not plan.lost_delta_commits:
            self._fail(f"the job had files to ingest, and committed nothing: {[*ended.events][-5:]}")
        if ended.code:
            self._fail(f"the answer of a commit was lost, nothing else, and the job gave up: {ended.failures}")
        if unclear := [event for event in ended.events if event["event"] == "commit_unclear"]:
            self._fail(f"a commit whose answer was lost was taken for another's: {unclear}")
        commits = sum(event["event"] == "batch_committed" for event in ended.events)
        done = [path for path, _ in self._proxy.created if path in plan.lost_delta_commits]
        if not commits or len(done) != 1:
            self._fail(f"{plan.lost_delta_commits} was written {len(done)} times, and the job said {commits} commits")
        self._run.counts["answers lost of a Delta commit that was known again"] += 1

    def outage(self, number: int, rng: random.Random, secs: tuple[float, float]) -> None:
        """All requests fail for so long. A job that gives up is started again, with the settings that users have."""
        outage = Outage(rng.randrange(BEGINS_WITHIN), rng.uniform(*secs), rng.choice(OUTAGES))
        plan = Plan(f"{self._run.seed}/{number}", outage=outage)
        while not plan.outage_is_over:
            what = f"all requests fail for {outage.secs:.0f} s ({outage.fault}), from the {outage.after_requests}. on"
            self._begin(number, rng, what)
            self._go_badly(plan, shipped=True)
        self._run.counts[SPARK_OUTAGES] += 1
        self._go_well(number)

    def _begin(self, number: int, rng: random.Random, what: str) -> None:
        self._steps.append(f"round {number}: the real job, {what}")
        self._run.say(self._steps[-1])
        self._jobs = self._jobs or self._make()
        self._jobs.arrive(rng)
        self._proxy.created.clear()

    def _go_badly(self, plan: Plan, *, shipped: bool = False) -> Ended:
        assert self._jobs is not None
        ended = self._jobs.run(plan, shipped=shipped)
        counts = self._run.counts
        if plan.outage_is_over or not shipped:
            plan.end()
        counts["time-outs of the real job"] += sum(
            count for what, count in plan.counts.items() if what.startswith("fault ") and "timeout" in what
        )
        counts.update(plan.counts)
        plan.counts.clear()
        if ended.unclear:
            self._fail(ended.unclear)
        counts["real job ended well" if ended.code == 0 else "real job gave up"] += 1
        for failure in ended.failures:
            counts[f"real job gave up with {failure['kind']}"] += 1
            self._run.say(str(failure["error"])[:300])
            if failure["kind"] not in CLEAR and not str(failure["error"]).startswith(FOLLOWS):
                self._fail(f"storage failed for a while, and this was taken for good: {failure}")
        return ended

    def _go_well(self, number: int) -> None:
        assert self._jobs is not None
        self._run.say(f"round {number}: the real job, storage is well again")
        ended = self._jobs.run(Plan(0), shipped=True)
        if ended.code or ended.unclear:
            self._fail(f"storage is well again, and the job does not go on: {ended.unclear or ended.failures}")
        verdict = self._jobs.verdict()
        if not verdict.good or verdict.dead_letters:
            self._fail("; ".join(line for line in verdict.lines() if not line.endswith(" 0")))
        self._run.counts["records of the real job"] = verdict.rows_in

    def _fail(self, why: str) -> None:
        raise Failed(f"bad-storage, seed {self._run.seed}: {why}", self._steps)
