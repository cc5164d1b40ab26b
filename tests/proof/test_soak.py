"""Under steady traffic nothing grows, and what does is noticed."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.growth import BOUNDS, growth
from tests.proof.kill_jvm import Jvm
from tests.proof.soak import CAMPAIGN, soak

ROUNDS = 30


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    with Jvm(tmp_path_factory.mktemp("jvm")) as jvm:
        yield jvm


def _run(folder: Path, variant: str = "") -> Run:
    return Run(7, Budget(time.monotonic, rounds=ROUNDS), folder, variant)


@pytest.mark.spark
def test_nothing_grows(tmp_path: Path, jvm: Jvm) -> None:
    run = _run(tmp_path)
    soak(run, jvm)
    assert run.counts["commits"] >= ROUNDS / 2
    assert run.counts["rows compared"] > ROUNDS
    assert run.counts["times that nothing had grown"]


@pytest.mark.spark
@pytest.mark.parametrize(("variant", "said"), CAMPAIGN.variants.items())
def test_what_grows_is_noticed(tmp_path: Path, jvm: Jvm, variant: str, said: str) -> None:
    with pytest.raises(Failed, match=said):
        soak(_run(tmp_path, variant), jvm)


@pytest.mark.parametrize("name", BOUNDS)
def test_growth_is_told_from_a_start_and_from_noise(name: str) -> None:
    bound = BOUNDS[name]
    level = 100 * bound.slack
    flat = [0.0] * (bound.fewest // 2) + [level + (n % 7 - 3) * bound.slack / 10 for n in range(3 * bound.fewest)]
    assert growth(name, flat) is None
    rising = [level + n * (level * (bound.factor - 1) + bound.slack) / bound.fewest for n in range(3 * bound.fewest)]
    assert growth(name, rising) is not None
    assert growth(name, rising[: bound.fewest]) is None
