"""Nothing is lost or doubled over bad storage, errors say what happened, and what is broken on purpose is found."""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from benchmarks.s3_stand_in import CREDENTIALS, stand_in
from blizzard.environment import adopted
from tests.proof.bad_storage import CAMPAIGN, SparkBadStorage
from tests.proof.bad_storage_proxy import bad_storage
from tests.proof.bad_storage_spark import SparkJobs, spark_jobs
from tests.proof.bad_storage_world import LAKE, LANDING
from tests.proof.campaign import Budget, Failed, Run


def short(folder: Path, rounds: int, variant: str = "") -> Run:
    return Run(1, Budget(time.monotonic, rounds=rounds), folder, variant)


def test_everything_is_there_once_after_storage_was_bad(tmp_path: Path) -> None:
    run = short(tmp_path, 2)
    CAMPAIGN.run(run)
    assert run.counts["faults"] > 100
    assert run.counts["answers lost of a segment"] > 1
    assert run.counts["commits without an answer"] > 1
    assert run.counts["job ended well"] > run.counts["job gave up"]


@pytest.mark.parametrize("variant", CAMPAIGN.variants)
def test_what_is_broken_on_purpose_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed, match=r"two segments|written twice|doubled"):
        CAMPAIGN.run(short(tmp_path, 4, variant))


@pytest.mark.spark
def test_the_real_job_ends_well_or_with_a_clear_error_and_goes_on(tmp_path: Path) -> None:
    run = short(tmp_path, 1)
    buckets = {name: tmp_path / name for name in (LANDING, LAKE)}
    with ExitStack() as stack:
        stack.enter_context(adopted(CREDENTIALS))
        s3 = stack.enter_context(stand_in(buckets, latency_secs=0.0))
        proxy = stack.enter_context(bad_storage(s3.environment["AWS_ENDPOINT_URL"]))
        jobs: Callable[[], SparkJobs] = partial(stack.enter_context, spark_jobs(tmp_path, proxy, s3.environment))
        SparkBadStorage(run, jobs, runs=1).round(0, random.Random(1))
    # Of the requests of one run; three made three times as many.
    assert run.counts["faults"] > 2
    assert run.counts["records of the real job"] > 0
