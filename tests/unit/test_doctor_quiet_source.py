"""A source whose last commit is older than a hundred of others: doctor, status, audit, files and plan find it by its
Txn, with the copy of its checkpoint, an old one, one of the future, or none."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blizzard.audit.report import Verdict as AuditVerdict
from blizzard.cli import main
from blizzard.doctor.check import Verdict
from blizzard.state.delta_log import commit_key
from tests.unit.doctor_world import DoctorWorld, change_copy, tear_copy, wrong
from tests.unit.operator_world import IDENTITY, assert_well, kinds
from tests.unit.rebuild_lake import become_table_of

FOREIGN = 105


@pytest.fixture
def world(tmp_path: Path) -> DoctorWorld:
    """Two commits with two files each, and then many of others."""
    made = DoctorWorld(tmp_path)
    for batch in range(2):
        for number in range(2):
            made.land(f"{batch}/{number}.ndjson.gz", "a", "b")
        made.run()
    first = made.table().version() + 1
    info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "OPTIMIZE", "engineInfo": "theirs"}}
    for version in range(first, first + FOREIGN):
        (made.lake / commit_key(version)).write_text(json.dumps(info) + "\n")
    return made


def clean_up_log(world: DoctorWorld) -> None:
    """The Txn is only in the Delta checkpoint."""
    table = world.table()
    table.create_checkpoint()
    for version in range(table.version()):
        (world.lake / commit_key(version)).unlink()


def lose_copy(world: DoctorWorld) -> None:
    (world.lake / IDENTITY.copy_key).unlink()


def asked(world: DoctorWorld, capsys: pytest.CaptureFixture[str], command: str, *, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([command, str(world.config_file), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def states(world: DoctorWorld) -> dict[str, Verdict]:
    """What is wrong with the state."""
    return {each.id: each.verdict for each in world.examine() if each.id.startswith("state.") and wrong([each])}


def sequence(world: DoctorWorld) -> str:
    return world.finding("state.checkpoint").found


def test_with_its_copy_nothing_is_wrong(world: DoctorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    for clean in (lambda _: None, clean_up_log):
        clean(world)
        assert (states(world), sequence(world)) == ({}, "sequence 1")
        (status,) = asked(world, capsys, "status")
        assert (status["sequence"], status["problem"]) == (1, None)
        assert_well(world)


@pytest.mark.parametrize(
    ("damage", "verdict"),
    [
        (lose_copy, Verdict.WARNING),
        (tear_copy, Verdict.WARNING),
        (lambda world: change_copy(world, -1), Verdict.WARNING),
        (lambda world: change_copy(world, 6), Verdict.PROBLEM),
    ],
)
def test_the_state_is_that_of_the_commit_whatever_became_of_the_copy(
    world: DoctorWorld,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[DoctorWorld], None],
    verdict: Verdict,
) -> None:
    damage(world)
    assert (states(world), sequence(world)) == ({"state.copy": verdict}, "sequence 1")
    (status,) = asked(world, capsys, "status")
    assert (status["sequence"], status["problem"]) == (1, None)
    report = world.audit()
    assert (report.sequence, report.committed, report.pending) == (1, 4, 0)
    assert kinds(report) == (["table_behind"] if verdict is Verdict.PROBLEM else [])


@pytest.mark.parametrize("damage", [lose_copy, tear_copy, lambda world: change_copy(world, 6)])
def test_a_state_that_is_nowhere_is_no_source_without_commits(
    world: DoctorWorld, capsys: pytest.CaptureFixture[str], damage: Callable[[DoctorWorld], None]
) -> None:
    clean_up_log(world)
    damage(world)
    found = world.finding("state.checkpoint")
    assert (found.verdict, "checkpoint of commit 1 of the source" in found.found) == (Verdict.PROBLEM, True)
    assert main(["doctor", str(world.config_file)]) == 1
    (status,) = asked(world, capsys, "status", code=1)
    assert (status["sequence"], status["problem"]) == (None, found.found)
    report = world.audit()
    assert (report.verdict, report.sequence, report.committed, report.pending) == (AuditVerdict.NOTES, 1, 4, 0)
    assert (
        {"state_unreadable", "ledger_incomplete"}
        <= {*kinds(report)}
        <= {
            "state_unreadable",
            "ledger_incomplete",
            "table_behind",
            "manifest_wiped",
        }
    )
    assert {life["state"] for life in asked(world, capsys, "files")} == {"committed"}
    (plan,) = asked(world, capsys, "plan")
    assert [(each["is_new"], each["files"]) for each in plan["sources"]] == [(False, 0)]
    for _ in range(2):
        world.run()
    assert (states(world), kinds(world.audit())) == ({}, ["rows_uncounted"])
    assert world.table().to_pyarrow_table().num_rows == 8


def test_an_older_copy_is_what_a_repair_begins_with(world: DoctorWorld) -> None:
    """The audit counts the files of the commit after it by their rows."""
    clean_up_log(world)
    change_copy(world, -1)
    assert states(world) == {"state.checkpoint": Verdict.PROBLEM}
    report = world.audit()
    assert (report.verdict, report.sequence, report.committed, report.pending) == (AuditVerdict.NOTES, 1, 4, 0)
    assert "state_unreadable" in kinds(report)


def test_a_table_that_was_made_anew_has_nothing_of_what_the_copy_says(
    world: DoctorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    become_table_of(world.lake, world.table().to_pyarrow_table().slice(0, 0))
    found = world.finding("state.copy")
    assert (found.verdict, found.found) == (
        Verdict.PROBLEM,
        "the copy is of sequence 1, but the table has no commit of this source",
    )
    (status,) = asked(world, capsys, "status", code=1)
    assert (status["sequence"], "the table has no commit of this source" in status["problem"]) == (None, True)
    report = world.audit()
    assert (kinds(report), report.committed, report.pending) == (["table_behind"], 0, 4)
    assert "the table no commit of the source" in report.notices[0].text
