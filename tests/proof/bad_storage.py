"""Bad storage: between everything and S3 a proxy that refuses, fails, stalls, cuts, delays and loses answers.

A round: files arrive; two collectors, a sweeper and a job work over bad storage, and end well or with an error that
says what happened. Then storage is well again, and one more job has everything that was announced; after a sweep of
each kind everything is there once. Between such rounds, with Spark, the real job runs over the same proxy.
"""

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from functools import partial
from unittest.mock import patch

from benchmarks.s3_stand_in import CREDENTIALS, stand_in
from blizzard.environment import adopted
from blizzard.errors import AlreadyExists, BlizzardError
from blizzard.storage.s3 import S3Store
from tests.proof.bad_storage_proxy import BadStorage, Plan, bad_storage
from tests.proof.bad_storage_spark import WITHOUT, Ended, SparkJobs, spark_jobs
from tests.proof.bad_storage_world import LAKE, LANDING, StoredWorld, Unclear, segments_gone_wrong
from tests.proof.campaign import Failed, Run
from tests.proof.variants import RetryingDelta
from tests.unit.fakes import MemoryDelta

RATES = (0.01, 0.05, 0.1, 0.2, 0.3)
STRETCHES, STRETCH_REQUESTS = 0.002, 40
TURNS = 4
"""Of a round, before storage is well again."""
ROUNDS_A_TABLE = 6
SPARK_EVERY = 5
"""Rounds; the last of them is one with the real job."""
RUNS = 3
"""Of the real job in such a round, before storage is well again."""
CLEAR = ("RetryableError", "StorageUnavailable", "LostRace")
"""Kinds of errors that say: try again."""
FOLLOWS = "the source could not be swept"
"""What the job says at its end, after it has said why."""
LOST_ANSWER = "a lost answer is taken for a refusal"
UNCONDITIONAL = "a segment is written by an unconditional PUT"
WITHOUT_A_LOOK = "a commit is tried again without a look at what became of it"


class CheapBadStorage:
    """The rounds without Spark."""

    def __init__(self, run: Run, proxy: BadStorage, calm_endpoint: str) -> None:
        self._run = run
        self._proxy = proxy
        self._calm_endpoint = calm_endpoint
        self._tables = 0
        self._steps: list[str] = []
        self._world = self._another()
        proxy.conditions = run.variant != UNCONDITIONAL

    def _another(self) -> StoredWorld:
        self._tables += 1
        delta = RetryingDelta() if self._run.variant == WITHOUT_A_LOOK else MemoryDelta()
        self._steps.clear()
        return StoredWorld(self._calm_endpoint, self._proxy, delta, f"table-{self._tables}/")

    def round(self, number: int, rng: random.Random) -> None:
        if number % ROUNDS_A_TABLE == 0 and number:
            self._world = self._another()
        rate = rng.choice(RATES)
        self._run.say(f"round {number}: {rate:.0%} of all requests fail")
        self._steps.append(f"round {number}: {rate:.0%} of all requests fail")
        world = self._world
        self._proxy.plan = plan = Plan(f"{self._run.seed}/{number}", rate, STRETCHES, STRETCH_REQUESTS)
        try:
            self._go_badly(world, number, rng, rate)
            self._go_well(world)
        finally:
            self._run.counts.update(plan.counts)
        self._run.counts["records"] += sum(len(rows) for path, rows in world.files().items() if f"-{number}." in path)

    def _go_badly(self, world: StoredWorld, number: int, rng: random.Random, rate: float) -> None:
        world.go(bad=True)
        try:
            for turn in range(TURNS):
                world.collect(world.arrive_some(rng, f"{number}.{turn}"), rng)
                work = [world.sweep_both, partial(world.ingest, rng, rate), partial(world.ingest, rng, rate)]
                for part in rng.sample(work, len(work)):
                    part()
        except Unclear as error:
            self._fail(str(error))
        if wrong := segments_gone_wrong(self._proxy.created):
            self._fail(wrong)

    def _go_well(self, world: StoredWorld) -> None:
        world.go(bad=False)
        self._proxy.created.clear()
        try:
            world.drain()
            if missing := world.missing_though_announced():
                self._fail(f"announced, and after a job over good storage not in the table: {sorted(missing)[:5]}")
            world.settle()
        except BlizzardError as error:
            self._fail(f"storage is well again, and nobody can go on: {error!r}")
        if wrong := world.wrong():
            self._fail(wrong)

    def _fail(self, why: str) -> None:
        raise Failed(f"bad-storage, seed {self._run.seed}: {why}", self._steps)


class SparkBadStorage:
    """The rounds with the real job. Its process is started when the first of them comes."""

    def __init__(self, run: Run, jobs: Callable[[], SparkJobs], runs: int = RUNS) -> None:
        self._run = run
        self._make = jobs
        self._runs = runs
        self._jobs: SparkJobs | None = None
        self._steps: list[str] = []

    def round(self, number: int, rng: random.Random) -> None:
        jobs = self._jobs = self._jobs or self._make()
        for turn in range(self._runs):
            rate = rng.choice(RATES)
            self._steps.append(f"round {number}: the real job, {rate:.0%} of all requests fail")
            self._run.say(self._steps[-1])
            jobs.arrive(rng)
            seed = f"{self._run.seed}/{number}/{turn}"
            plan = Plan(seed, rate, STRETCHES, STRETCH_REQUESTS, without=WITHOUT)
            self._look(jobs.run(plan), plan, "real job")
        self._run.say(f"round {number}: the real job, storage is well again")
        ended = jobs.run(Plan(0))
        if ended.code or ended.unclear:
            self._fail(f"storage is well again, and the job does not go on: {ended.unclear or ended.failures}")
        verdict = jobs.verdict()
        if not verdict.good or verdict.dead_letters:
            self._fail("; ".join(line for line in verdict.lines() if not line.endswith(" 0")))
        self._run.counts["records of the real job"] = verdict.rows_in

    def _look(self, ended: Ended, plan: Plan, who: str) -> None:
        self._run.counts.update(plan.counts)
        if ended.unclear:
            self._fail(ended.unclear)
        self._run.counts[f"{who} ended well" if ended.code == 0 else f"{who} gave up"] += 1
        for failure in ended.failures:
            self._run.counts[f"{who} gave up with {failure['kind']}"] += 1
            self._run.say(str(failure["error"])[:300])
            if failure["kind"] not in CLEAR and not str(failure["error"]).startswith(FOLLOWS):
                self._fail(f"storage failed for a while, and this was taken for good: {failure}")

    def _fail(self, why: str) -> None:
        raise Failed(f"bad-storage, seed {self._run.seed}: {why}", self._steps)


def _not_looked_at(store: S3Store, key: str, data: bytes, refused: Exception) -> None:
    raise AlreadyExists(f"create {key}: refused") from refused


class BadStorageCampaign:
    name = "bad-storage"
    about = "S3 that throttles, fails, stalls, breaks off, and loses the answer to what it has done"
    variants: Mapping[str, str] = {
        LOST_ANSWER: "one append is in two segments",
        UNCONDITIONAL: "a segment is overwritten, and what it announced is not in the table",
        WITHOUT_A_LOOK: "the rows of a commit whose answer was lost are doubled",
    }

    def run(self, run: Run) -> None:
        buckets = {name: run.folder / name for name in (LANDING, LAKE)}
        with ExitStack() as stack:
            stack.enter_context(adopted(CREDENTIALS))
            s3 = stack.enter_context(stand_in(buckets, latency_secs=0.0))
            endpoint = s3.environment["AWS_ENDPOINT_URL"]
            proxy = stack.enter_context(bad_storage(endpoint))
            broken = patch.object(S3Store, "_own", _not_looked_at) if run.variant == LOST_ANSWER else nullcontext()
            stack.enter_context(broken)
            without_spark = CheapBadStorage(run, proxy, endpoint)
            jobs = partial(stack.enter_context, spark_jobs(run.folder, proxy, s3.environment))
            with_spark = SparkBadStorage(run, jobs)
            for number, rng in run.rounds():
                ours = with_spark if number % SPARK_EVERY == SPARK_EVERY - 1 else without_spark
                ours.round(number, rng)


CAMPAIGN = BadStorageCampaign()
