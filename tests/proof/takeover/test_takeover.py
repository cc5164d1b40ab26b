"""Tables of the first Blizzard are taken over exactly, and a takeover that is broken on purpose is found out."""

import random
import time
from pathlib import Path

import pytest

from blizzard.state.checkpoint import decode_app_id
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.takeover import campaign as takeover
from tests.proof.takeover.campaign import CAMPAIGN, CASES, Takeover, case_of
from tests.proof.takeover.older_table import Age, Form, OlderTable
from tests.spark.lake import Lake

FINDING = {
    "the first Blizzard's state is ignored": (Age.JUST_NOW, Form.ONE_PROGRAM),
    "a state that was an older commit's is taken over": (Age.JUST_NOW, Form.ONE_PROGRAM),
    "of two commits of one second the older counts": (Age.IN_A_CHECKPOINT, Form.ONE_PROGRAM),
    "files below its watermarks are asked of the table": (Age.JUST_NOW, Form.ONE_PROGRAM),
    "a part of a file is taken over as all of it": (Age.JUST_NOW, Form.ONE_PROGRAM),
    "whatever sorts below its watermarks counts as seen": (Age.JUST_NOW, Form.PENGUIN),
    "a refused table is a fresh start": (Age.JUST_NOW, Form.PENGUIN),
}
"""What each variant shows at."""
TABLES = 4
"""At most: not each has what it shows at."""
TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset(FINDING)}


def go(folder: Path, *cases: tuple[Age, Form], variant: str = "") -> Run:
    run = Run(7, Budget(time.monotonic, rounds=len(cases)), folder, variant)
    Takeover(cases).run(run)
    return run


@pytest.mark.spark
def test_a_takeover_of_each_form_loses_and_doubles_nothing(tmp_path: Path) -> None:
    cases = ((Age.IN_A_CHECKPOINT, Form.ONE_PROGRAM), (Age.BEHIND_OTHERS, Form.PENGUIN))
    run = go(tmp_path, *cases, (Age.JUST_NOW, Form.AS_DOCUMENTED))
    assert run.counts["rounds"] == 3
    assert run.counts[case_of(Age.IN_A_CHECKPOINT, Form.ONE_PROGRAM)] == 1
    assert run.counts[case_of(Age.BEHIND_OTHERS, Form.PENGUIN)] == 1
    assert run.counts[case_of(Age.JUST_NOW, Form.AS_DOCUMENTED)] == 1
    assert run.counts["refused with the reason"] == 6
    assert run.counts["records"] > 50


@pytest.mark.spark
@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name]))
def test_a_takeover_that_is_broken_on_purpose_is_found(variant: str, tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        go(tmp_path, *[FINDING[variant]] * TABLES, variant=variant)
    assert CAMPAIGN.variants[variant].finds(failed.value.why)
    assert len(failed.value.steps) > 2


def test_each_form_is_tried_at_each_age() -> None:
    assert set(CASES) == {(age, form) for age in Age for form in Form}
    assert CAMPAIGN.wanted == [case_of(age, form) for age, form in CASES]


@pytest.mark.parametrize("seed", [1, 2])
def test_each_case_is_tried_before_any_is_repeated(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[tuple[Age, Form]] = []

    class Round:
        def __init__(self, run: Run, title: str, age: Age, form: Form, *_: object) -> None:
            came.append((age, form))

        def go(self) -> None:
            """No table."""

    monkeypatch.setattr(takeover, "_Round", Round)
    CAMPAIGN.run(Run(seed, Budget(time.monotonic, rounds=len(CASES) - 1), tmp_path))
    assert len(set(came)) == len(CASES) - 1
    came.clear()
    with pytest.raises(Failed, match="these never came about, so they have shown nothing: ") as failed:
        CAMPAIGN.run(Run(seed, Budget(time.monotonic, rounds=len(CASES)), tmp_path))
    assert set(came) == set(CASES)
    assert failed.value.why.count("; ") == len(CASES) - 1


@pytest.mark.parametrize("form", Form)
def test_an_older_table_is_as_the_first_blizzard_wrote_it(form: Form, tmp_path: Path) -> None:
    older_table = OlderTable(Lake(tmp_path, lambda: pytest.fail("no engine is needed")), form, random.Random(1))
    older_table.create()
    first, second = older_table.land("1", day=1), older_table.land("2", day=2, records=9)
    older_table.ingest(first)
    older_table.ingest(second, partly=second if form is Form.ONE_PROGRAM else None)
    state = decode_app_id(older_table.states[-1][0], pipeline="events", source="landing")
    assert state is not None
    assert dict(state.files) == ({first: -1, second: older_table.ingested[second]} if form is Form.ONE_PROGRAM else {})
    assert (older_table.lake.copy.exists(), state.partition_watermarks) == (form is not Form.ONE_PROGRAM, {})
    assert len(older_table.lake.rows_unsorted()) == sum(older_table.ingested.values())
