"""Campaign `bad-storage`: a proxy before S3 refuses, fails, stalls, truncates and delays requests, and loses responses.

In each round, files arrive. Two collectors, a sweeper, two dispatchers, a job and a reader of the status work over bad
storage. Each must succeed, or fail with an error that says what happened. Then storage is good again, and the jobs that
the dispatcher starts must ingest everything that was announced. After a sweep of each kind every record is there once,
and no two runs were active at once. Between such rounds the real job runs over the same proxy, and in some rounds no
request gets a response for a minute or two.
"""

import random
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

from benchmarks.s3_stand_in import CREDENTIALS, stand_in
from blizzard.environment import temporary_variables
from blizzard.errors import AlreadyExists
from blizzard.storage.s3 import S3Store
from tests.proof.bad_storage.proxy import bad_storage
from tests.proof.bad_storage.real import (
    IN_A_ROW,
    LATE,
    LOST_BY_CHANCE,
    PARTS,
    SPARK_OUTAGES,
    UNTIL_GIVEN_UP,
    SparkBadStorage,
)
from tests.proof.bad_storage.rounds import OUTAGE_SECS, ROUNDS_A_TABLE, SHORT_OUTAGE_SECS, CheapBadStorage
from tests.proof.bad_storage.spark import spark_jobs
from tests.proof.bad_storage.variants import OF_REAL_JOB, OWN_COMMIT
from tests.proof.bad_storage.world import LAKE, LANDING
from tests.proof.breaks import NO_LOOK, TWO_RUNS, UNCONDITIONAL_PUT
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.job_engines import (
    JOBS_OF,
    LOCAL,
    SPARK,
    WENT_ON_FOR_THE_OTHER,
    find_with_each,
    found_by,
    known_again,
)

SPARK_EVERY = 3
"""Of so many rounds the last is one with the real job, of each kind in turn."""
ROUNDS_FOR_THE_WORST = 5
ROUNDS_FOR_EACH_KIND = 18
"""Of those with the real job."""
SPARK_OUTAGE_EVERY, SPARK_OUTAGE_AT = 60, SPARK_EVERY + 1
"""Of so many rounds one has a long outage, and the first of them; early, so that a run of ten minutes has one."""
SHORT_OUTAGE_EVERY = 2
"""In a run with a fixed number of rounds: outages of seconds only, and no Spark."""
KINDS = (LOST_BY_CHANCE, LATE, IN_A_ROW, UNTIL_GIVEN_UP, PARTS)
"""What must happen in rounds with the real job."""
WORST = ("a segment", "a Delta commit", "a Delta commit that was known again")
"""Calls whose response must be lost at least once."""
LOST_ANSWER = "a lost answer is taken for a refusal"


def _not_looked_at(store: S3Store, key: str, data: bytes, refused: Exception) -> None:
    raise AlreadyExists(f"create {key}: refused") from refused


class BadStorageCampaign:
    name = "bad-storage"
    wanted = (
        *(f"answers lost of {what}" for what in WORST),
        "answers lost of a run's record",
        SPARK_OUTAGES,
        *KINDS,
        *JOBS_OF.values(),
        *map(known_again, (SPARK, LOCAL)),
        *WENT_ON_FOR_THE_OTHER,
    )
    about = (
        "S3 that throttles, fails, stalls, breaks off, loses the answer to what it has done, and is gone for minutes"
    )
    variants: Mapping[str, Fault] = {
        LOST_ANSWER: Fault("one append is in two segments", "one append is in two segments"),
        UNCONDITIONAL_PUT: Fault(
            "a segment is overwritten, and what it announced is not in the table",
            "was written twice, by two writers|announced, and after a job over good storage not in the table",
        ),
        NO_LOOK: Fault("the rows of a commit whose answer was lost are doubled", r": doubled: \[|\bdoubled +[1-9]"),
        TWO_RUNS: Fault(
            "a dispatcher that finds a start without its run starts another one", r": [2-9] runs are active at once$"
        ),
        OWN_COMMIT: Fault(
            "a commit whose answer was lost counts as another job's", "answer was lost was taken for another's"
        ),
    }

    def run(self, run: Run) -> None:
        buckets = {name: run.folder / name for name in (LANDING, LAKE)}
        with ExitStack() as stack:
            stack.enter_context(temporary_variables(CREDENTIALS))
            s3 = stack.enter_context(stand_in(buckets, latency_secs=0.0))
            endpoint = s3.environment["AWS_ENDPOINT_URL"]
            proxy = stack.enter_context(bad_storage(endpoint))
            if run.variant == LOST_ANSWER:
                stack.enter_context(patch.object(S3Store, "_existing_if_equal", _not_looked_at))
            proxy.keeps_write_ids = run.variant not in OF_REAL_JOB
            without_spark = CheapBadStorage(run, proxy, endpoint)
            jobs = partial(stack.enter_context, spark_jobs(run.folder, proxy, s3.environment, run.variant))
            with_spark = SparkBadStorage(run, jobs, proxy)
            (find if run.variant in OF_REAL_JOB else go)(run, without_spark, with_spark)


def find(run: Run, without_spark: CheapBadStorage, with_spark: SparkBadStorage) -> None:
    """What is broken in the real job, with each engine. Raises Failed if it is found with each, and if the core has it,
    too, also without."""

    def go_without() -> None:
        for number, rng in run.rounds():
            without_spark.round(number, rng)

    def go_with(engine: str) -> None:
        for number, rng in run.rounds():
            with_spark.broken(number, rng, engine)

    fault = BadStorageCampaign.variants[run.variant]
    if run.variant == NO_LOOK and found_by(fault, go_without) is None:
        return
    find_with_each(run, fault, go_with)


def go(run: Run, without_spark: CheapBadStorage, with_spark: SparkBadStorage) -> None:
    """Chooses the kind of each round. Deliberate faults show without outages."""
    for number, rng in run.rounds():
        if run.variant:
            without_spark.round(number, rng)
        elif run.budget.rounds is not None:
            _short(number, rng, without_spark)
        else:
            _long(number, rng, without_spark, with_spark)
    if run.budget.rounds is None and not run.variant:
        _hold_to_its_word(run)


def _short(number: int, rng: random.Random, without_spark: CheapBadStorage) -> None:
    if number % SHORT_OUTAGE_EVERY == SHORT_OUTAGE_EVERY - 1:
        without_spark.outage(number, rng, SHORT_OUTAGE_SECS)
    else:
        without_spark.round(number, rng)


def _long(number: int, rng: random.Random, without_spark: CheapBadStorage, with_spark: SparkBadStorage) -> None:
    if number % SPARK_OUTAGE_EVERY == SPARK_OUTAGE_AT:
        with_spark.outage(number, rng, OUTAGE_SECS)
    elif number % SPARK_EVERY == SPARK_EVERY - 1:
        with_spark.turn(number // SPARK_EVERY, number, rng)
    elif without_spark.outage_is_due:
        without_spark.outage(number, rng, OUTAGE_SECS)
    else:
        without_spark.round(number, rng)


def _hold_to_its_word(run: Run) -> None:
    """Raises Failed for a long run in which the worst faults never occurred."""
    expected: dict[str, int] = {}
    if run.counts["rounds"] >= ROUNDS_FOR_THE_WORST:
        expected = dict.fromkeys((f"answers lost of {what}" for what in WORST), 1)
        expected["runs of the dispatcher"] = 2
    if run.counts["rounds"] > ROUNDS_A_TABLE:
        expected |= {"seconds of outage": int(OUTAGE_SECS[0]), "answers lost of a run's record": 1}
    if run.counts["rounds"] > SPARK_OUTAGE_AT:
        expected[SPARK_OUTAGES] = 1
    if run.counts["rounds"] > ROUNDS_FOR_EACH_KIND:
        expected |= dict.fromkeys(KINDS, 1)
    if missing := [what for what, fewest in expected.items() if run.counts[what] < fewest]:
        raise Failed(f"bad-storage, seed {run.seed}: it ended without {', '.join(missing)}")


CAMPAIGN = BadStorageCampaign()
