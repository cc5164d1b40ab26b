"""Bad input of every kind does no harm, by name and by chance; and whatever is broken on purpose is found."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.proof.bad_input.campaign import CAMPAIGN
from tests.proof.bad_input.compare import compare
from tests.proof.bad_input.corpus import FILES, GOOD, KEYS, TEXTS
from tests.proof.bad_input.memory import check_documents, check_memory
from tests.proof.bad_input.mutants import smallest
from tests.proof.bad_input.reader import Found, Parts, read_batch
from tests.proof.bad_input.variants import VARIANTS
from tests.proof.campaign import Budget, Failed, Run

TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset(VARIANTS)}


def a_run(folder: Path, *, rounds: int, seed: int = 1, variant: str = "") -> Run:
    return Run(seed, Budget(time.monotonic, rounds=rounds), folder, variant)


def test_hostile_input_is_ingested_or_dead_lettered(tmp_path: Path) -> None:
    run = a_run(tmp_path, rounds=4)
    CAMPAIGN.run(run)
    assert run.counts["rounds"] == 4
    assert run.counts["hostile files"] == len(FILES) + len(TEXTS) > 90
    assert run.counts["hostile keys"] == len(KEYS)
    assert run.counts["files by chance"] > 200
    assert run.counts["texts by chance"] > 80
    assert min(run.counts[kind] for kind in ("rows", "dead letters", "records left to Spark")) > 50


def test_a_seed_repeats_a_round(tmp_path: Path) -> None:
    counts = []
    for _ in range(2):
        run = a_run(tmp_path, rounds=1, seed=3)
        CAMPAIGN.run(run, by_name=False)
        counts.append(run.counts)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name]))
def test_each_variant_broken_on_purpose_is_found(variant: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="seed 1, round 0") as failed:
        CAMPAIGN.run(a_run(tmp_path, rounds=1, variant=variant))
    assert CAMPAIGN.variants[variant].finds(failed.value.why), failed.value.why


def test_a_decoder_without_a_bound_is_found_by_its_memory(tmp_path: Path) -> None:
    limits = VARIANTS["a decoder has no bound"].around.parts.limits
    with pytest.raises(Failed, match=r"takes [0-9]{3,} MiB; expected"):
        check_memory(tmp_path, limits)


def test_documents_that_take_too_much_memory_are_found() -> None:
    with pytest.raises(Failed, match=r"takes [0-9]{3,} MiB; expected"):
        check_documents(12)


def changed(found: Found, number: int, **values: object) -> None:
    """The row of this record, with other values."""
    next(row for row in found.rows if row["_source"]["row"] == number).update(values)


HARMS: list[tuple[str, Callable[[Found], object], str]] = [
    ("lost", lambda found: found.rows.pop(), "is in 0 rows"),
    ("doubled", lambda found: found.rows.append(found.rows[0]), "is in 2 rows"),
    ("changed", lambda found: changed(found, 0, n=7), "n became 7"),
    ("invented", lambda found: changed(found, 0, ratio=0.5), "ratio became 0.5"),
    ("a silent null", lambda found: changed(found, 1, at=None), "at is null in its row"),
    ("a silent null in an array", lambda found: changed(found, 1, tags=["x", None]), "tags became"),
    ("a silent null in a map", lambda found: changed(found, 1, attributes=[("a", None)]), "attributes became"),
    ("a silent null in a struct", lambda found: changed(found, 1, place={"name": "x", "x": None}), "place became"),
    ("rounded otherwise", lambda found: changed(found, 1, amount=Decimal("0.1")), "amount became"),
    ("silent", lambda found: found.letters.clear(), "is in 0 rows, 0 letters"),
    ("other text", lambda found: found.letters[0].update(raw="other"), "its letter holds"),
    ("no reason", lambda found: found.letters[0].update(error=""), "expected parse and a reason"),
    (
        "not counted",
        lambda found: setattr(found, "outcomes", [replace(found.outcomes[0], dead_records=0)]),
        "0 dead records",
    ),
]


@pytest.mark.parametrize(("harm", "why"), [harm[1:] for harm in HARMS], ids=[harm[0] for harm in HARMS])
def test_the_comparison_reports(harm: Callable[[Found], object], why: str, tmp_path: Path) -> None:
    full = {
        "id": "full",
        "amount": 0.125,
        "at": "2024-01-28T14:00:00Z",
        "tags": ["x", "y"],
        "attributes": {"a": "b"},
        "place": {"name": "x", "x": 7},
    }
    files = {"a.ndjson": GOOD + json.dumps(full).encode() + b"\nbroken\n"}
    found = read_batch(tmp_path, files, Parts())
    assert len(found.rows) == 2
    compare(files, found)
    harm(found)
    with pytest.raises(Failed, match=why):
        compare(files, found)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda found: found.rows.pop(0), "is in 0 rows"),
        (lambda found: found.rows[0].update(value="b"), "value became 'b'"),
        (lambda found: found.rows[0].update(value=None), "value became None"),
        (lambda found: found.letters[0].update(raw_base64=""), "its letter holds"),
    ],
    ids=["lost", "changed", "null", "other bytes"],
)
def test_the_comparison_of_texts_reports(harm: Callable[[Found], object], why: str, tmp_path: Path) -> None:
    files = {"a.txt": b"a\n\n\xff\n"}
    found = read_batch(tmp_path, files, Parts(), is_text=True)
    compare(files, found, is_text=True)
    harm(found)
    with pytest.raises(Failed, match=why):
        compare(files, found, is_text=True)


def test_a_failure_of_random_input_is_reduced_to_the_bytes_that_matter() -> None:
    body = bytes(range(256)) * 20
    assert smallest(body + b"bad" + body, lambda shorter: b"bad" in shorter) == b"bad"
