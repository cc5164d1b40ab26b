"""Collectors, sweepers, dispatchers and jobs without a JVM, killed and racing: nothing is lost or doubled; and what is
broken on purpose is found."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.proof.breaks import NO_TXN
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.kill.fork_server import ForkServer
from tests.proof.kill_calls import campaign as kill_calls
from tests.proof.kill_calls.world import ACTORS
from tests.proof.race import calls as race_calls

TURNS_ON_S3 = 8
ROUNDS_TO_FIND, TRIES = 150, 6
KILL, RACE = frozenset(kill_calls.VARIANTS), frozenset(race_calls.VARIANTS)
TRIED = {"kill-calls": KILL, "race-calls": RACE}
pytestmark = pytest.mark.timeout(900)


def run_of(folder: Path, rounds: int, variant: str = "", seed: int = 1) -> Run:
    return Run(seed, Budget(time.monotonic, rounds), folder, variant)


def tries(folder: Path, rounds: int) -> Iterator[Run]:
    """One run after the other, of which each has to pass, until one has shown what it is for."""
    for seed in range(1, TRIES + 1):
        own = folder / f"{seed}"
        own.mkdir()
        yield run_of(own, rounds, seed=seed)


def test_a_process_killed_between_two_calls_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Who dies in a few rounds is partly luck, so there may be more of them."""
    killed = {f"kills of the {who}" for who in ACTORS}
    for run in tries(tmp_path, rounds=2):
        kill_calls.CAMPAIGN.run(run)
        assert run.counts["tables"] == 1
        assert run.counts["most kills over one table"] == run.counts["kills"]
        deleted = run.counts["times that the manifest was deleted"]
        if killed <= run.counts.keys() and run.counts["places killed at"] > 20 and deleted:
            return
    pytest.fail("not all of them died, so this has shown nothing")


def test_a_process_killed_on_s3_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """As it is in each sixth round of a long run, but shorter."""
    with ExitStack() as stack:
        fork_server = stack.enter_context(ForkServer(tmp_path / "processes", ["tests.proof.kill_calls.processes"]))
        aws = kill_calls.s3_of(stack)
        for run in tries(tmp_path, rounds=1):
            kill_calls.Tables(run, fork_server, aws).round(run.seed, run.rng(0), TURNS_ON_S3)
            assert run.counts["records"] > 0
            assert run.counts["rounds on S3"] == 1
            if run.counts["kills on S3"]:
                return
    pytest.fail("nobody died, so this has shown nothing")


def test_each_sixth_round_is_on_s3_unless_a_variant_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[bool] = []
    monkeypatch.setattr(kill_calls, "s3_of", lambda stack: "S3")
    monkeypatch.setattr(kill_calls.Tables, "round", lambda self, *_: came.append(self._aws == "S3"))
    kill_calls.CAMPAIGN.run(run_of(tmp_path, 12))
    assert [number for number, on_s3 in enumerate(came) if on_s3] == [5, 11]
    came.clear()
    kill_calls.CAMPAIGN.run(run_of(tmp_path, 12, NO_TXN))
    assert not any(came)


@pytest.mark.parametrize("variant", sorted(KILL))
def test_killed_processes_broken_on_purpose_are_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        kill_calls.CAMPAIGN.run(run_of(tmp_path, ROUNDS_TO_FIND, variant))
    assert kill_calls.VARIANTS[variant].finds(failed.value.why), failed.value.why
    assert failed.value.steps


def test_concurrent_processes_on_one_manifest_lose_nothing(tmp_path: Path) -> None:
    """That two of them meet is for the machine to decide, so there may be further rounds."""
    for run in tries(tmp_path, rounds=1):
        race_calls.CAMPAIGN.run(run)
        if run.counts["races lost"]:
            return
    pytest.fail("they never met, so this has shown nothing")


@pytest.mark.parametrize("variant", sorted(RACE))
def test_racing_processes_broken_on_purpose_are_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        race_calls.CAMPAIGN.run(run_of(tmp_path, ROUNDS_TO_FIND, variant))
    assert race_calls.VARIANTS[variant].finds(failed.value.why), failed.value.why
    assert failed.value.steps
