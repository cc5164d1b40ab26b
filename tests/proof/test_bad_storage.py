"""Nothing is lost or doubled over bad storage, errors say what happened, and what is broken on purpose is found."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from benchmarks.s3_stand_in import CREDENTIALS, stand_in
from blizzard.environment import adopted
from tests.proof.bad_storage import CAMPAIGN, LOST_ANSWER, OWN_COMMIT
from tests.proof.bad_storage_proxy import BadStorage, Outage, Plan, bad_storage
from tests.proof.bad_storage_rounds import UNCONDITIONAL, WITHOUT_A_LOOK, SparkBadStorage
from tests.proof.bad_storage_spark import SparkJobs, spark_jobs
from tests.proof.bad_storage_world import LAKE, LANDING
from tests.proof.campaign import Budget, Failed, Run

SPARK = frozenset({OWN_COMMIT})
TRIED = {CAMPAIGN.name: frozenset({LOST_ANSWER, UNCONDITIONAL, WITHOUT_A_LOOK}) | SPARK}


def short(folder: Path, rounds: int, variant: str = "") -> Run:
    return Run(1, Budget(time.monotonic, rounds=rounds), folder, variant)


Rounds = Callable[[Run], SparkBadStorage]


@pytest.fixture(scope="module")
def over_a_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BadStorage, Rounds]]:
    """The real job, in one process for all tests: rounds with it over a proxy."""
    folder = tmp_path_factory.mktemp("bad-storage")
    with ExitStack() as stack:
        stack.enter_context(adopted(CREDENTIALS))
        s3 = stack.enter_context(stand_in({name: folder / name for name in (LANDING, LAKE)}, latency_secs=0.0))
        proxy = stack.enter_context(bad_storage(s3.environment["AWS_ENDPOINT_URL"]))
        jobs: list[SparkJobs] = []

        def one() -> SparkJobs:
            if not jobs:
                jobs.append(stack.enter_context(spark_jobs(folder, proxy, s3.environment)))
            return jobs[0]

        yield proxy, partial(SparkBadStorage, jobs=one, proxy=proxy)


def test_everything_is_there_once_after_storage_was_bad(tmp_path: Path) -> None:
    run = short(tmp_path, 2)
    CAMPAIGN.run(run)
    assert run.counts["faults"] > 50
    assert run.counts["answers lost of a segment"] > 1
    assert run.counts["commits without an answer"] > 1
    assert run.counts["job ended well"] > run.counts["job gave up"]
    assert run.counts["seconds of outage"] >= 2


@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name] - SPARK))
def test_what_is_broken_on_purpose_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        CAMPAIGN.run(short(tmp_path, 4, variant))
    assert CAMPAIGN.variants[variant].finds(failed.value.why)


@pytest.mark.spark
@pytest.mark.parametrize("variant", sorted(SPARK & TRIED[CAMPAIGN.name]))
def test_the_real_job_is_found_to_be_broken(
    tmp_path: Path, over_a_proxy: tuple[BadStorage, Rounds], monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    proxy, rounds = over_a_proxy
    monkeypatch.setattr(proxy, "keeps_write_ids", False)
    with pytest.raises(Failed) as failed:
        rounds(short(tmp_path, 1, variant)).lose_a_commit(0, random.Random(2))
    assert CAMPAIGN.variants[variant].finds(failed.value.why)


@pytest.mark.spark
def test_the_real_job_ends_well_or_with_a_clear_error_and_goes_on(
    tmp_path: Path, over_a_proxy: tuple[BadStorage, Rounds]
) -> None:
    run = short(tmp_path, 1)
    over_a_proxy[1](run).round(0, random.Random(1), runs=1)
    # Of the requests of one run; three made three times as many.
    assert run.counts["faults"] > 2
    assert run.counts["records of the real job"] > 0
    assert run.counts["answers lost of a Delta commit that was known again"] == 1


def test_an_outage_begins_and_ends_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now_secs = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_secs)
    plan = Plan(1, outage=Outage(after_requests=1, secs=60.0, fault="500 before"))

    def due() -> str:
        return plan.due("GET", "/landing/a", "read")[0]

    assert [due(), due(), plan.outage_is_over] == ["", "500 before", False]
    now_secs = 159.0
    assert [due(), plan.outage_left_secs(), plan.outage_is_over] == ["500 before", 1.0, False]
    now_secs = 161.0
    assert [plan.outage_is_over, due()] == [True, ""]
    plan.end()
    assert plan.counts["seconds of outage"] == 60
    assert plan.counts["fault in an outage: 500 before"] == 2


def test_stretches_differ_in_what_happens_and_how_long() -> None:
    plan = Plan(3, stretches=1.0, stretch_secs=(0.0, 0.0))
    found = {plan.due("GET", f"/landing/{n}", "read")[0] for n in range(50)}
    plan.end()
    assert found == {""}
    assert len([what for what in plan.counts if what.startswith("outages: ")]) > 1
