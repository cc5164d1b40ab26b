"""What log-life demands of its rounds, tried on tables that live without an engine: what has to have shown something,
and the shortest way to a failure."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.local.demo.reconcile import Reconciliation
from spark_job.loop.ingest import Totals
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.log_life import campaign as log_life
from tests.proof.log_life.campaign import CAMPAIGN, LogLife
from tests.proof.log_life.events import EVENTS, FROM_COPY, FROM_ROWS, REFUSED, Event
from tests.proof.log_life.table import Life


class Quiet(Life):
    """A life in which only the events happen: they write down what its job says, and what is lost."""

    lost = 0
    repairs = False
    repairs_from: int | None = None

    def arrive(self, rng: random.Random) -> None:
        """Nothing."""

    def begin(self, steps: int) -> None:
        """Nothing."""

    def run(self, *, late: bool = False) -> Totals:
        if self.repairs:
            self.events.append({"event": "state_repaired", "from_sequence": self.repairs_from})
        return Totals()

    def judged(self) -> Reconciliation:
        return Reconciliation(0, 1, 1 - self.lost, missing=[("a", number) for number in range(self.lost)])


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_life, "Life", Quiet)


def go(folder: Path, *events: Event, rounds: int | None = None) -> Run:
    folder.mkdir(exist_ok=True)
    run = Run(5, Budget(time.monotonic, rounds=len(events) if rounds is None else rounds), folder)
    LogLife(events).run(run)
    return run


def nothing(life: Life, rng: random.Random) -> None:
    """Happens."""


def repairs(life: Quiet, rng: random.Random) -> None:
    life.repairs, life.repairs_from = True, None


def repairs_from_the_copy(life: Quiet, rng: random.Random) -> None:
    life.repairs, life.repairs_from = True, 3


def loses_late(life: Quiet, rng: random.Random) -> None:
    life.lost = len(life.history) - 1


def loses_late_and_alone(life: Quiet, rng: random.Random) -> None:
    if life.history[1:] or life.folder.name == "alone":
        life.lost = 1 + rng.randrange(1_000)


def loses_late_and_breaks_alone(life: Quiet, rng: random.Random) -> None:
    if life.folder.name == "alone":
        raise ValueError("it needs a past")
    loses_late(life, rng)


def test_repairs_are_counted_by_their_basis(tmp_path: Path) -> None:
    run = go(tmp_path, Event(repairs, repaired=FROM_ROWS), Event(repairs_from_the_copy, repaired=FROM_COPY))
    assert (run.counts[FROM_ROWS], run.counts[FROM_COPY]) == (1, 1)


@pytest.mark.parametrize("do", [nothing, repairs_from_the_copy], ids=lambda do: do.__name__)
def test_an_event_without_its_required_repair_fails(
    do: Callable[[Quiet, random.Random], object], tmp_path: Path
) -> None:
    with pytest.raises(Failed, match=f"expected {FROM_ROWS}, found"):
        go(tmp_path, Event(do, repaired=FROM_ROWS))


def test_a_repair_made_by_the_event_itself_does_not_count(tmp_path: Path) -> None:
    def itself(life: Quiet, rng: random.Random) -> None:
        life.events.append({"event": "state_repaired", "from_sequence": None})

    with pytest.raises(Failed, match=f"expected {FROM_ROWS}, found none"):
        go(tmp_path, Event(itself, repaired=FROM_ROWS))


def test_a_failure_on_a_new_table_is_reported_without_earlier_events(tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        go(tmp_path, Event(loses_late_and_alone), rounds=2)
    assert failed.value.steps == [
        "a new table, with the randomness of round 1",
        "the table lives through: loses late and alone",
    ]
    known = failed.value.__cause__
    assert isinstance(known, Failed)
    assert (len(known.steps), failed.value.why) == (2, known.why)


def test_a_failure_that_needs_earlier_events_keeps_them(tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        go(tmp_path, Event(loses_late), rounds=2)
    lived = ["the table lives through: loses late"] * 2
    assert failed.value.steps == [*lived, "(on a new table the last of these alone does no harm)"]


def test_another_error_on_a_new_table_does_not_hide_the_failure(tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        go(tmp_path, Event(loses_late_and_breaks_alone), rounds=2)
    assert failed.value.steps[-1] == "(on a new table the last of these breaks: it needs a past)"
    assert len(failed.value.steps) == 3


def test_all_events_come_in_as_many_rounds_and_each_is_required(tmp_path: Path) -> None:
    happened: list[int] = []

    def event(number: int) -> Event:
        def one(life: Life, rng: random.Random) -> None:
            happened.append(number)

        return Event(one)

    go(tmp_path, *(event(number) for number in range(26)))
    assert sorted(happened) == [*range(26)]
    names = [event.name for event in EVENTS]
    assert len({*names}) == len(names)
    assert CAMPAIGN.wanted == [*names, REFUSED, FROM_ROWS, FROM_COPY]


def test_a_clean_up_after_each_form_of_checkpoint_is_required() -> None:
    forms = ("checkpoint in one file", "checkpoint in parts", "v2 checkpoint with json on top")
    wanted = [f"the log is cleaned up behind a {form}" for form in (*forms, "v2 checkpoint with parquet on top")]
    assert {*wanted} < {*CAMPAIGN.wanted}


def test_no_further_files_land_after_a_calm_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[int] = []
    monkeypatch.setattr(Quiet, "arrive", lambda life, rng: came.append(1))
    go(tmp_path / "calm", *[Event(nothing, calm=True)] * 20)
    calm = len(came)
    came.clear()
    go(tmp_path / "other", *[Event(nothing)] * 20)
    assert calm == 20 < len(came)


def test_a_run_that_did_not_cover_its_events_fails(tmp_path: Path) -> None:
    campaign = LogLife([Event(nothing)])
    campaign.wanted = [*campaign.wanted, "never"]
    run = Run(5, Budget(time.monotonic, rounds=1), tmp_path)
    with pytest.raises(Failed, match="have shown nothing: never"):
        campaign.run(run)
