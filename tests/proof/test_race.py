"""Whoever works on one table or manifest at once, each record enters once; and what is broken on purpose is found."""

import time
from pathlib import Path

import pytest

from tests.proof import race, race_calls
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.race_names import VARIANTS

SEED = 1


def run_of(folder: Path, rounds: int, variant: str = "") -> Run:
    return Run(SEED, Budget(time.monotonic, rounds), folder, variant)


@pytest.mark.spark
def test_jobs_race_with_each_other_and_with_somebody_else(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1)
    race.CAMPAIGN.run(run)
    assert run.counts["races lost"] > 0, "they never met, so this has shown nothing"
    assert run.counts["operations of others"] > 0


def test_whoever_works_on_one_manifest_at_once_loses_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1)
    race_calls.CAMPAIGN.run(run)
    assert run.counts["races lost"] > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_broken_on_purpose_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        race_calls.CAMPAIGN.run(run_of(tmp_path, 12, variant))
    assert failed.value.steps
