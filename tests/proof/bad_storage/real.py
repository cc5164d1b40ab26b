"""The rounds of the campaign `bad-storage` with the real job."""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.proof.bad_storage.proxy import DELAYED, LOST, OUTAGES, BadStorage, Outage, Plan
from tests.proof.bad_storage.rounds import BEGINS_WITHIN, RATES, SMALLER_SECS, STRETCH_SECS, STRETCHES
from tests.proof.bad_storage.spark import Ended, SparkJobs
from tests.proof.breaks import NO_LOOK
from tests.proof.campaign import Failed, Run
from tests.proof.job_engines import BY, JOBS_OF, known_again, ran_by, went_on
from tests.proof.reduce import reduced

SPARK_OUTAGES = "outages of the real job"
KNOWN_AGAIN = "answers lost of a Delta commit that was known again"
LOST_BY_CHANCE = "answers lost by chance of a Delta commit that was known again"
LATE = "requests of the real job that were delayed for long"
IN_A_ROW = "outages in a row of the real job"
UNTIL_GIVEN_UP = "outages that lasted until the real job gave up"
PARTS = "commits of a part of a file"
RUNS = 3
"""Runs of the real job over bad storage in a round with faults."""
MANY_FILES = 12
"""At least so many files arrive before a run whose commits matter: enough for three commits."""
LONGER_THAN_A_RUN_SECS = 900.0
CLEAR = ("RetryableError", "StorageUnavailable", "LostRace")
"""Kinds of errors after which a retry is expected."""
FOLLOWS = "the source could not be swept"
"""Start of an error that follows another one, which has the reason."""


@dataclass(frozen=True, slots=True)
class Form:
    """Amounts of each fault. `losses`: the ways in which responses to commits are lost; one that times out takes 20
    s."""

    runs: int
    losses: Sequence[str]
    commit_losses: float
    delays: float
    delay_secs: tuple[float, float]
    in_a_row: int
    outage_secs: tuple[float, float]


LONG = Form(3, LOST, 0.5, 0.1, (0.5, 5.0), 3, (20.0, 40.0))
SHORT = Form(1, ("answer lost", "500 though done"), 0.7, 0.05, (0.2, 0.8), 3, (0.7, 1.2))


@dataclass(frozen=True, slots=True)
class Part:
    """One run of the job over bad storage. `seed`: decides which files arrive before it. `unharmed`: the job must
    handle the faults without an error. `engine`: of the job; empty: any."""

    what: str
    seed: str
    plan: Plan
    shipped: bool = True
    fewest: int = 1
    unharmed: bool = False
    engine: str = ""

    def new_plan(self) -> Plan:
        """The same plan, not used yet."""
        return replace(self.plan, then=[*self.plan.then], counts=Counter(), lost_delta_commits=[], _times=Counter())


class SparkBadStorage:
    """The rounds with the real job. Its process starts with the first of them."""

    def __init__(self, run: Run, jobs: Callable[[], SparkJobs], proxy: BadStorage) -> None:
        self._run = run
        self._make = jobs
        self._proxy = proxy
        self._jobs: SparkJobs | None = None
        self._steps: list[str] = []
        self._parts: list[Part] = []
        """Runs since the last successful comparison."""
        self._engines: Sequence[str] = [*JOBS_OF]
        self._gave_up = ""
        """By which engine the last run went, if it gave up."""

    # -- rounds

    def turn(self, turn: int, number: int, rng: random.Random) -> None:
        """One round of each kind in turn."""
        kinds = (self.round, self.commits, self.slowly, self.until_given_up, self.round, self.outages)
        kinds[turn % len(kinds)](number, rng)

    def round(self, number: int, rng: random.Random, runs: int = RUNS) -> None:
        """First the response to a commit is lost without other faults; then a share of all requests fails."""
        self.lose_a_commit(number, rng)
        for turn in range(runs):
            rate = rng.choice(RATES)
            plan = Plan(f"{self._run.seed}/{number}/{turn}", rate, STRETCHES, STRETCH_SECS)
            self._go(number, Part(f"{rate:.0%} of all requests fail", _seed(rng), plan, shipped=False))
        self._go_well(number)

    def broken(self, number: int, rng: random.Random, engine: str) -> None:
        """Over a new table, with this engine alone. A commit that makes a table is another one, and is made before."""
        self._engines = [engine]
        self._jobs = self._jobs or self._make()
        self._jobs.begin_anew()
        self._steps.clear()
        self._jobs.arrive(rng)
        self._go_well(number)
        self.lose_a_commit(number, rng)
        self._go_well(number)

    def lose_a_commit(self, number: int, rng: random.Random) -> None:
        """The log store must recognise its own commit, though S3 refuses the second write. With the timeouts of
        production, because a machine that is busy for a second must not look like another fault."""
        unharmed = self._run.variant != NO_LOOK
        part = Part("the answer of a commit is lost", _seed(rng), Plan(0, lose_delta_commits=1), unharmed=unharmed)
        if not self._go(number, part).lost_delta_commits:
            self._fail("the job had files to ingest, and committed nothing")

    def commits(self, number: int, rng: random.Random, form: Form = LONG, *, well: bool = True) -> None:
        """Responses to any commits are lost, in any way, some of them twice; there are no other faults."""
        what = f"{form.commit_losses:.0%} of the answers of commits are lost"
        for turn in range(form.runs):
            plan = Plan(f"{self._run.seed}/{number}/{turn}", commit_losses=form.commit_losses, losses=form.losses)
            lost = self._go(number, Part(what, _seed(rng), plan, fewest=MANY_FILES, unharmed=True)).lost_delta_commits
            self._run.counts[LOST_BY_CHANCE] += len({*lost})
        if well:
            self._go_well(number)

    def slowly(self, number: int, rng: random.Random, form: Form = LONG, *, well: bool = True) -> None:
        """Requests or responses are delayed by seconds; there are no other faults."""
        what = f"{form.delays:.0%} of all requests take up to {form.delay_secs[1]:g} s longer"
        for turn in range(form.runs):
            plan = Plan(f"{self._run.seed}/{number}/{turn}", delays=form.delays, delay_secs=form.delay_secs)
            self._go(number, Part(what, _seed(rng), plan, unharmed=True))
        if well:
            self._go_well(number)

    def outage(self, number: int, rng: random.Random, secs: tuple[float, float]) -> None:
        """All requests fail for so long. A job that gives up is started again, with the settings of production."""
        self._outlive(number, rng, [_outage(rng, secs)])
        self._run.counts[SPARK_OUTAGES] += 1
        self._go_well(number)

    def outages(self, number: int, rng: random.Random, form: Form = LONG) -> None:
        """One outage after the other, of any kind, with so few requests in between that a retrying client may meet
        two."""
        self._outlive(number, rng, [_outage(rng, form.outage_secs) for _ in range(form.in_a_row)])
        self._run.counts[IN_A_ROW] += form.in_a_row
        self._go_well(number)

    def until_given_up(self, number: int, rng: random.Random) -> None:
        """Storage is gone for longer than the job goes on trying, once for each engine. The other one goes on."""
        for engine in self._engines:
            outage = _outage(rng, (LONGER_THAN_A_RUN_SECS, LONGER_THAN_A_RUN_SECS))
            what = f"all requests fail ({outage.fault}) from the {outage.after_requests}. on, until it gives up"
            plan = Plan(f"{self._run.seed}/{number}/{engine}", outage=outage)
            self._go(number, Part(what, _seed(rng), plan, shipped=False, engine=engine))
            self._run.counts[UNTIL_GIVEN_UP] += bool(self._gave_up)
            self._go_well(number)

    def _outlive(self, number: int, rng: random.Random, outages: Sequence[Outage]) -> None:
        what = ", then ".join(
            f"all requests fail for {one.secs:.1f} s ({one.fault}), from the {one.after_requests}. on"
            for one in outages
        )
        plan = Plan(f"{self._run.seed}/{number}", outage=outages[0], then=[*outages[1:]])
        self._go(number, Part(what, _seed(rng), plan))

    # -- one run

    def _go(self, number: int, part: Part) -> Plan:
        """Runs until its outages are over. Returns the used plan."""
        self._parts.append(part)
        try:
            return self._gone(number, part)
        except Failed as failed:
            raise self._with_the_smallest_way(failed, number) from failed

    def _gone(self, number: int, part: Part) -> Plan:
        plan, rng = part.new_plan(), random.Random(part.seed)
        while True:
            self._steps.append(f"round {number}: the real job, {part.what}")
            self._run.say(self._steps[-1])
            self._jobs = self._jobs or self._make()
            self._jobs.arrive(rng, fewest=part.fewest)
            self._proxy.created.clear()
            engine = self._engine(rng, part.engine)
            ended = self._go_badly(plan, shipped=part.shipped, engine=engine)
            if part.unharmed:
                self._check_unharmed(part, plan, ended, engine)
            if plan.outage_is_over:
                return plan

    def _check_unharmed(self, part: Part, plan: Plan, ended: Ended, engine: str) -> None:
        """Each engine recognises its own commit, and there is no other job with which it could race."""
        if ended.code:
            self._fail(f"{part.what}, nothing else, and the job gave up: {ended.failures}")
        unclear = [event for event in ended.events if event["event"] == "commit_unclear"]
        lost_races = [event for event in ended.events if event["event"] == "race_lost"]
        if lost_races or unclear:
            self._fail(f"a commit whose answer was lost was taken for another's: {unclear}, {lost_races}")
        commits = sum(event["event"] == "batch_committed" for event in ended.events)
        lost = {*plan.lost_delta_commits}
        done = [path for path, _ in self._proxy.created if path in lost]
        if len(done) != len(lost) or (lost and not commits):
            self._fail(f"{sorted(lost)} were written {len(done)} times, and the job said {commits} commits")
        self._run.counts[KNOWN_AGAIN] += len(lost)
        self._run.counts[known_again(ran_by(engine, ended.events))] += len(lost)

    def _engine(self, rng: random.Random, wanted: str = "") -> str:
        """After a run that gave up it is the turn of the other engine, unless one is wanted."""
        others = [engine for engine in self._engines if BY[engine] != self._gave_up]
        engine = wanted or rng.choice(others or self._engines)
        self._run.counts[JOBS_OF[engine]] += 1
        return engine

    def _count_engines(self, engine: str, ended: Ended) -> None:
        by = ran_by(engine, ended.events)
        if self._gave_up and ended.code == 0:
            self._run.counts[went_on(self._gave_up, by)] += 1
        self._gave_up = by if ended.code else ""

    def _go_badly(self, plan: Plan, *, shipped: bool, engine: str) -> Ended:
        assert self._jobs is not None
        ended = self._jobs.run(plan, shipped=shipped, engine=engine)
        counts = self._run.counts
        if plan.outage_is_over or not shipped:
            plan.end()
        counts["time-outs of the real job"] += sum(
            count for what, count in plan.counts.items() if what.startswith("fault ") and "timeout" in what
        )
        counts[LATE] += plan.counts[f"fault {DELAYED}"]
        counts.update(plan.counts)
        plan.counts.clear()
        if ended.unclear:
            self._fail(ended.unclear)
        self._count_engines(engine, ended)
        counts["real job ended well" if ended.code == 0 else "real job gave up"] += 1
        for failure in ended.failures:
            counts[f"real job gave up with {failure['kind']}"] += 1
            self._run.say(str(failure["error"])[:300])
            if failure["kind"] not in CLEAR and not str(failure["error"]).startswith(FOLLOWS):
                self._fail(f"storage failed for a while, and this was taken for good: {failure}")
        return ended

    def _go_well(self, number: int) -> None:
        try:
            self._gone_well(number)
        except Failed as failed:
            raise self._with_the_smallest_way(failed, number) from failed
        self._parts.clear()

    def _gone_well(self, number: int) -> None:
        assert self._jobs is not None
        self._run.say(f"round {number}: the real job, storage is well again")
        engine = self._engine(random.Random(number))
        ended = self._jobs.run(Plan(0), shipped=True, engine=engine)
        if ended.code or ended.unclear:
            self._fail(f"storage is well again, and the job does not go on: {ended.unclear or ended.failures}")
        self._count_engines(engine, ended)
        verdict = self._jobs.verdict()
        if not verdict.good or verdict.dead_letters:
            self._fail("; ".join(line for line in verdict.lines() if not line.endswith(" 0")))
        self._run.counts["records of the real job"] = verdict.rows_in
        self._run.counts[PARTS] = self._jobs.parts()

    # -- when it fails

    def _with_the_smallest_way(self, failed: Failed, number: int) -> Failed:
        """Not for a variant, whose steps are the shortest already."""
        if self._run.variant:
            return failed
        self._run.say("looks for the smallest way to what it has found")
        until_secs = time.monotonic() + SMALLER_SECS
        return reduced(failed, [*self._parts], self.again(number), lambda: time.monotonic() < until_secs)

    def again(self, number: int) -> Callable[[Sequence[Part]], None]:
        """Repeats some parts over a new table. Raises Failed. Its counts do not count for the run."""
        quiet = Run(self._run.seed, self._run.budget, self._run.folder, self._run.variant, self._run.say)
        other = SparkBadStorage(quiet, self._make, self._proxy)

        def again(parts: Sequence[Part]) -> None:
            other._jobs = other._jobs or self._jobs or self._make()
            other._jobs.begin_anew()
            other._steps.clear()
            for part in parts:
                other._gone(number, part)
            other._gone_well(number)

        return again

    def _fail(self, why: str) -> None:
        raise Failed(f"bad-storage, seed {self._run.seed}: {why}", [*self._steps])


def _seed(rng: random.Random) -> str:
    return str(rng.random())


def _outage(rng: random.Random, secs: tuple[float, float]) -> Outage:
    return Outage(rng.randrange(BEGINS_WITHIN), rng.uniform(*secs), rng.choice(OUTAGES))
