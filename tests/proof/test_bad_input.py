"""Bad input of every kind does no harm, by name and by chance; and whatever is broken on purpose is found."""

import time
from pathlib import Path

import pytest

from tests.proof.bad_input import CAMPAIGN
from tests.proof.bad_input_compare import compare
from tests.proof.bad_input_corpus import FILES, GOOD, KEYS
from tests.proof.bad_input_memory import check_memory
from tests.proof.bad_input_mutants import smallest
from tests.proof.bad_input_reader import Parts, read_batch
from tests.proof.bad_input_variants import VARIANTS
from tests.proof.campaign import Budget, Failed, Run


def a_run(folder: Path, *, rounds: int, seed: int = 1, variant: str = "") -> Run:
    return Run(seed, Budget(time.monotonic, rounds=rounds), folder, variant)


def test_hostile_input_does_no_harm(tmp_path: Path) -> None:
    run = a_run(tmp_path, rounds=4)
    CAMPAIGN.run(run)
    assert run.counts["rounds"] == 4
    assert run.counts["hostile files"] == len(FILES) > 100
    assert run.counts["hostile keys"] == len(KEYS)
    assert run.counts["files by chance"] > 200
    assert min(run.counts[kind] for kind in ("rows", "dead letters", "records left to Spark")) > 50


def test_a_seed_repeats_a_round(tmp_path: Path) -> None:
    counts = []
    for _ in range(2):
        run = a_run(tmp_path, rounds=1, seed=3)
        CAMPAIGN.run(run, by_name=False)
        counts.append(run.counts)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_broken_on_purpose_is_found(variant: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="seed 1, round 0"):
        CAMPAIGN.run(a_run(tmp_path, rounds=1, variant=variant))


def test_a_decoder_without_a_bound_is_found_by_its_memory(tmp_path: Path) -> None:
    limits = VARIANTS["a decoder has no bound"][1].parts.limits
    with pytest.raises(Failed, match=r"takes [0-9]{3,} MiB|no limit"):
        check_memory(tmp_path, limits)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda found: found.rows.pop(), "is in 0 rows"),
        (lambda found: found.rows.append(found.rows[0]), "is in 2 rows"),
        (lambda found: found.rows[0].update(n=7), "became the row"),
        (lambda found: found.letters.clear(), "is in 0 rows, 0 letters"),
        (lambda found: found.letters[0].update(raw="other"), "its letter holds"),
        (lambda found: found.letters[0].update(error=""), "expected parse and a reason"),
    ],
    ids=["lost", "doubled", "changed", "silent", "other text", "no reason"],
)
def test_the_comparison_sees(harm: object, why: str, tmp_path: Path) -> None:
    files = {"a.ndjson": GOOD * 2 + b"broken\n"}
    found = read_batch(tmp_path, files, Parts())
    compare(files, found)
    harm(found)  # type: ignore[operator]
    with pytest.raises(Failed, match=why):
        compare(files, found)


def test_what_is_found_by_chance_is_cut_down_to_what_matters() -> None:
    body = bytes(range(256)) * 20
    assert smallest(body + b"bad" + body, lambda shorter: b"bad" in shorter) == b"bad"
