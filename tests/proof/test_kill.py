"""Nothing is lost and nothing doubled, though jobs, collectors, sweepers and dispatchers are killed; and what is broken
on purpose is found."""

import time
from pathlib import Path

import pytest

from tests.proof import kill, kill_calls, kill_names
from tests.proof.campaign import Budget, Failed, Run

SEED = 1


def run_of(folder: Path, rounds: int, variant: str = "") -> Run:
    return Run(SEED, Budget(time.monotonic, rounds), folder, variant)


@pytest.mark.spark
def test_the_real_job_is_killed_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1)
    kill.CAMPAIGN.run(run)
    assert run.counts["kills"] >= len(kill.SHORT) - 2  # one step kills nobody, and a random moment may come too late
    assert run.counts["kills with the JVM"] + run.counts["answers of commits lost"] > 0
    assert run.counts["rows compared"] > 0


def test_whoever_is_killed_between_two_calls_is_made_good_by_the_next(tmp_path: Path) -> None:
    run = run_of(tmp_path, 2)
    kill_calls.CAMPAIGN.run(run)
    killed = {name for name in run.counts if name.startswith("kills of the ")}
    assert killed == {f"kills of the {who}" for who in kill_calls.ACTORS}
    assert run.counts["places killed at"] > 20


@pytest.mark.parametrize("variant", kill_calls.VARIANTS)
def test_what_is_broken_on_purpose_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        kill_calls.CAMPAIGN.run(run_of(tmp_path, 12, variant))
    assert failed.value.steps


@pytest.mark.spark
def test_a_real_job_that_takes_an_older_state_for_the_current_one_is_found(tmp_path: Path) -> None:
    variant = "an older state is taken for the current one"
    assert variant in kill_names.VARIANTS
    with pytest.raises(Failed, match="doubled"):
        kill.CAMPAIGN.run(run_of(tmp_path, 1, variant))
