"""Whoever works on one table at once, each record enters once; and what is broken on purpose is found."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof import race
from tests.proof.breaks import OVERWRITING_LOG
from tests.proof.campaign import Budget, Failed, Run, check_shown
from tests.proof.kill_jvm import Jvm
from tests.proof.kill_lives import Lives
from tests.proof.kill_place import LocalPlace
from tests.proof.race_names import OPERATIONS, VARIANTS

TRIED: dict[str, frozenset[str]] = {race.CAMPAIGN.name: frozenset(VARIANTS)}
ROUNDS_TO_FIND, ROUNDS_TO_MEET = 20, 6
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    with Lives(tmp_path_factory.mktemp("lives"), ["tests.proof.race_life"]) as made:
        yield made


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    with Jvm(tmp_path_factory.mktemp("jvm")) as made:
        yield made


def run_of(folder: Path, rounds: int, variant: str = "", seed: int = 1) -> Run:
    return Run(seed, Budget(time.monotonic, rounds), folder, variant)


@pytest.mark.spark
def test_jobs_race_with_each_other_and_with_somebody_else(tmp_path: Path, lives: Lives, jvm: Jvm) -> None:
    """That two of them meet is for the machine to decide, so there may be further rounds."""
    counts: Counter[str] = Counter()
    for seed in range(1, ROUNDS_TO_MEET + 1):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        run = run_of(folder, 1, seed=seed)
        race.race(run, lives, [jvm])
        assert run.counts["comparisons on local files"] == 1
        counts += run.counts
        if counts["races lost"] and counts["files that VACUUM removed"]:
            break
    assert counts["races lost"] > 0, "they never met, so this has shown nothing"
    assert counts["operations of others"] > 0
    assert counts["files that VACUUM removed"] > 0


@pytest.mark.spark
@pytest.mark.parametrize("variant", sorted(TRIED[race.CAMPAIGN.name]))
def test_what_is_broken_on_purpose_is_found(tmp_path: Path, lives: Lives, jvm: Jvm, variant: str) -> None:
    """A log that is broken is so for all of a JVM, which the campaign starts for it."""
    run = run_of(tmp_path, ROUNDS_TO_FIND, variant)
    with pytest.raises(Failed) as failed:
        race.CAMPAIGN.run(run) if variant == OVERWRITING_LOG else race.race(run, lives, [jvm])
    assert VARIANTS[variant].finds(failed.value.why)
    assert failed.value.steps


def test_a_log_that_two_writers_tore_is_no_log(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path / "place")
    log = tmp_path / "place/table/_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text('{"commitInfo":{}}\n{"add":{"pa{"txn":{}}\n')
    one = race._Race(run_of(tmp_path, 1), place, tmp_path, None, [], random.Random(1), [])
    with pytest.raises(Failed) as failed:
        one._compare()
    assert VARIANTS[OVERWRITING_LOG].finds(failed.value.why)
    assert "JSONDecodeError" in failed.value.why


def test_what_never_came_about_on_a_place_is_no_proof(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1)
    run.counts.update({f"operations of others on local files: {name}": 1 for name in OPERATIONS} | {"races lost": 1})
    with pytest.raises(Failed) as failed:
        check_shown(run, race.CAMPAIGN.wanted)
    assert failed.value.why.split(": ", 1)[1].split("; ") == [
        "files that VACUUM removed",
        *(f"operations of others on S3: {name}" for name in OPERATIONS),
    ]
    run.counts["files that VACUUM removed"] = 1
    run.counts.update({f"operations of others on S3: {name}": 1 for name in OPERATIONS})
    check_shown(run, race.CAMPAIGN.wanted)


def test_in_six_rounds_somebody_tries_each_operation_on_each_place(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic), tmp_path)
    tried = {(name, number % 2) for number in range(6) for name in race._operations(run, number, run.rng(number))}
    assert tried == {(name, place) for name in OPERATIONS for place in range(2)}
