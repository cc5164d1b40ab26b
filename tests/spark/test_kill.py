"""Exactly once, though the job is killed: SIGKILL to Python and JVM at once, and whoever comes next goes on."""

from collections.abc import Callable

import pytest

from infra.local.demo.parts import Part
from tests.spark.lake import Lake, event_of, ids, until

pytestmark = pytest.mark.spark

LARGE = "m-large.ndjson.gz"


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """More than fits a batch, and in the midst a file that takes several."""
    lake.settings |= {"checkpoint": {"interval_files": 9, "interval_bytes": "50KB"}}
    for n in range(4):
        lake.put(f"{'az'[n % 2]}{n}.ndjson.gz", *ids(100 * n, 100 * n + 100), "broken")
    lake.put(LARGE, *({"id": f"{n:060d}-{n * 7919 % 10007}", "n": n} for n in range(15_000)))
    lake.write_config()
    return lake


def after_planning(lake: Lake, job: Part) -> None:
    event_of(job, "batch_planned")
    job.kill()
    assert lake.versions() == []


def after_reading(lake: Lake, job: Part) -> None:
    receipt = event_of(job, "batch_read")["receipt"]
    job.kill()
    assert lake.versions() == []
    assert (lake.table / "_blizzard/events_landing/receipts" / receipt).exists()


def after_the_commit_and_before_the_copy(lake: Lake, job: Part) -> None:
    until(lambda: (lake.log_folder / f"{0:020d}.json").exists())
    job.kill()
    assert lake.versions() == [0]
    assert not lake.copy.exists()


def in_the_midst_of_a_large_file(lake: Lake, job: Part) -> None:
    until(lambda: len(lake.versions()) > 1 and LARGE in lake.state().in_progress)
    job.kill()
    assert 0 < lake.files()[LARGE] < 15_000


@pytest.mark.parametrize(
    "killed", [after_planning, after_reading, after_the_commit_and_before_the_copy, in_the_midst_of_a_large_file]
)
def test_a_job_that_is_killed_leaves_nothing_missing_and_nothing_doubled(
    landed: Lake, killed: Callable[[Lake, Part], None]
) -> None:
    with landed.process() as job:
        killed(landed, job)
    assert landed.run().commits > 0
    verdict = landed.verdict()
    assert verdict.good, list(verdict.lines())
    assert (verdict.rows_out, len(verdict.dead_letters)) == (15_400, 4)
    assert landed.run().commits == 0
