"""Damaged files of each format do no harm, and each format that is broken on purpose is found."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.formats.campaign import CAMPAIGN, Workers, damaged_files
from tests.proof.formats.check import DEAD, FILES, REFUSED, ROWS, Bounds, check_file
from tests.proof.formats.corpus import KINDS
from tests.proof.formats.mutators import UNDAMAGED, Damaged, damaged
from tests.proof.formats.variants import VARIANTS

TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset(VARIANTS)}
FILES_EACH = 200


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


def test_damaged_files_become_right_rows_or_dead_letters(tmp_path: Path, workers: Workers) -> None:
    run = Run(1, Budget(time.monotonic, rounds=1), tmp_path)
    CAMPAIGN.run(run, workers=workers, files_a_round=FILES_EACH)
    assert {kind: run.counts[damaged_files(kind)] for kind in KINDS} == dict.fromkeys(KINDS, FILES_EACH)
    assert run.counts[FILES] == FILES_EACH * len(KINDS)
    assert min(run.counts[what] for what in (ROWS, REFUSED, DEAD)) > 100


def test_a_run_ends_at_its_number_of_files(tmp_path: Path, workers: Workers) -> None:
    run = Run(2, Budget(time.monotonic, rounds=9), tmp_path, files=30)
    CAMPAIGN.run(run, workers=workers, files_a_round=20)
    assert {run.counts[damaged_files(kind)] for kind in KINDS} == {30}


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_each_variant_broken_on_purpose_is_found(variant: str, tmp_path: Path, workers: Workers) -> None:
    run = Run(1, Budget(time.monotonic, rounds=1), tmp_path, variant)
    with pytest.raises(Failed) as failed:
        CAMPAIGN.run(run, workers=workers)
    assert CAMPAIGN.variants[variant].finds(failed.value.why), failed.value.why
    (kept,) = tmp_path.iterdir()
    assert kept.name in failed.value.steps[0]


@pytest.mark.parametrize("kind", KINDS)
def test_good_files_give_each_of_their_records(kind: str) -> None:
    for base in KINDS[kind].bases():
        file = Damaged(KINDS[kind], base, f"file.{kind}{base.extension}", base.stored, [UNDAMAGED])
        for seed in range(3):
            counts = check_file(file, random.Random(seed), Bounds())
            assert counts[DEAD] == (base.records < 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_makes_the_same_file_again(kind: str) -> None:
    files = [damaged(KINDS[kind], f"a/{number}") for number in range(20)]
    assert [damaged(KINDS[kind], f"a/{number}").body for number in range(20)] == [file.body for file in files]
    assert len({file.body for file in files}) > 15
