"""Collectors, sweepers, dispatchers and jobs without a JVM, killed and racing: nothing is lost or doubled; and what is
broken on purpose is found."""

import time
from pathlib import Path

import pytest

from tests.proof import kill_calls, race_calls
from tests.proof.campaign import Budget, Failed, Run

SEED = 1
KILL, RACE = frozenset(kill_calls.VARIANTS), frozenset(race_calls.VARIANTS)
TRIED = {"kill-calls": KILL, "race-calls": RACE}


def run_of(folder: Path, rounds: int, variant: str = "") -> Run:
    return Run(SEED, Budget(time.monotonic, rounds), folder, variant)


def test_whoever_is_killed_between_two_calls_is_made_good_by_the_next(tmp_path: Path) -> None:
    run = run_of(tmp_path, 2)
    kill_calls.CAMPAIGN.run(run)
    killed = {name for name in run.counts if name.startswith("kills of the ")}
    assert killed >= {f"kills of the {who}" for who in kill_calls.ACTORS}
    assert run.counts["places killed at"] > 20
    assert run.counts["times that the manifest was deleted"] > 0


@pytest.mark.parametrize("variant", sorted(KILL))
def test_lives_that_are_broken_on_purpose_are_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        kill_calls.CAMPAIGN.run(run_of(tmp_path, 60, variant))
    assert kill_calls.VARIANTS[variant].finds(failed.value.why), failed.value.why
    assert failed.value.steps


def test_whoever_works_on_one_manifest_at_once_loses_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1)
    race_calls.CAMPAIGN.run(run)
    assert run.counts["races lost"] > 0


@pytest.mark.parametrize("variant", sorted(RACE))
def test_racers_that_are_broken_on_purpose_are_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        race_calls.CAMPAIGN.run(run_of(tmp_path, 12, variant))
    assert race_calls.VARIANTS[variant].finds(failed.value.why), failed.value.why
    assert failed.value.steps
