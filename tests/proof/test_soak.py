"""Under steady traffic nothing grows, and what does is noticed."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.growth import BOUNDS, judged
from tests.proof.kill_jvm import Jvm
from tests.proof.kill_place import LocalPlace
from tests.proof.soak import CAMPAIGN, LONG_ONLY, soak
from tests.proof.soak_place import Grounds, failing_s3, local
from tests.proof.soak_traffic import Traffic

ROUNDS = 30
TRIED = {CAMPAIGN.name: frozenset(CAMPAIGN.variants) - LONG_ONLY}
WHOLE = "segments are not trimmed"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The sound one."""
    return _run(tmp_path_factory.mktemp("soak"), rounds=17)


@pytest.fixture(scope="module")
def s3(run: Run) -> Iterator[Grounds]:
    with failing_s3(run.folder, run.seed, run.counts) as grounds:
        yield grounds


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory, s3: Grounds) -> Iterator[Jvm]:
    """One for all, which knows S3 as well."""
    with s3.jvm(tmp_path_factory.mktemp("jvm")) as jvm:
        yield jvm


def _run(folder: Path, variant: str = "", rounds: int = ROUNDS) -> Run:
    return Run(7, Budget(time.monotonic, rounds=rounds), folder, variant)


@pytest.mark.spark
def test_nothing_grows_while_storage_fails_and_jobs_die(run: Run, s3: Grounds, jvm: Jvm) -> None:
    soak(run, s3, jvm)
    assert run.counts["commits"] >= run.counts["rounds"] / 2
    assert run.counts["rows compared"] > run.counts["rounds"]
    assert run.counts["kills"] == 1
    assert run.counts["faults"]
    assert run.counts["times that it had not grown: number of partitions in the state"]


@pytest.mark.spark
def test_what_grows_is_noticed_by_the_campaign_as_it_is_run(tmp_path: Path) -> None:
    """With a JVM of its own, as the command has it."""
    with pytest.raises(Failed) as failed:
        CAMPAIGN.run(_run(tmp_path, WHOLE))
    assert CAMPAIGN.variants[WHOLE].finds(failed.value.why)


@pytest.mark.spark
@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name] - {WHOLE}))
def test_what_grows_is_noticed(tmp_path: Path, jvm: Jvm, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        soak(_run(tmp_path, variant), local(tmp_path), jvm)
    assert CAMPAIGN.variants[variant].finds(failed.value.why)


@pytest.mark.parametrize(
    ("day_secs", "begun", "withheld"), [(3600.0, True, True), (3600.0, False, False), (1e-5, True, False)]
)
def test_only_what_sweeps_promise_to_find_comes_without_an_event(
    tmp_path: Path, day_secs: float, begun: bool, withheld: bool
) -> None:
    run = _run(tmp_path)
    for number in range(20):
        traffic = Traffic(LocalPlace(tmp_path / str(number)), time.time(), day_secs)
        traffic.land(random.Random(number), run, begun=begun)
    assert bool(run.counts["events withheld"]) is withheld


@pytest.mark.parametrize("name", BOUNDS)
def test_growth_is_told_from_a_start_and_from_noise(name: str) -> None:
    bound = BOUNDS[name]
    level = 100 * bound.slack
    flat = [0.0] * (bound.fewest // 2) + [level + (n % 7 - 3) * bound.slack / 10 for n in range(3 * bound.fewest)]
    found = judged(name, flat)
    assert found is not None
    assert not found.grew
    rising = [level + n * (level * (bound.factor - 1) + bound.slack) / bound.fewest for n in range(3 * bound.fewest)]
    found = judged(name, rising)
    assert found is not None
    assert found.grew
    assert f"{name} grows" in str(found)
    assert judged(name, rising[: bound.fewest]) is None
