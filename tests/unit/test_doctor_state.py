"""Faults of a source's state, each found under its id."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from blizzard.dispatch.run_records import Phase, RunLog, RunRecord
from blizzard.doctor.check import Verdict
from blizzard.doctor.leftovers import MAX_LOSING_RECEIPTS
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.delta_log import commit_key
from blizzard.state.receipts import Receipts
from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.reports import SweepReports, read_reports
from tests.unit.doctor_world import (
    DAY_SECS,
    DoctorWorld,
    Fault,
    assert_found_alone,
    change_copy,
    ingested,
    tear_copy,
    write,
)
from tests.unit.operator_world import HOUR_SECS, IDENTITY


def forged_checkpoint(world: DoctorWorld) -> None:
    world.commit({"commitInfo": {"userMetadata": "{}"}}, {"txn": {"appId": IDENTITY.app_id, "version": 9}})


def lost_copy(world: DoctorWorld) -> None:
    (world.lake / IDENTITY.copy_key).unlink()


def delete_log(world: DoctorWorld) -> None:
    shutil.rmtree(world.lake / "_delta_log")


def lost_receipt(world: DoctorWorld) -> None:
    sorted((world.state / "receipts").iterdir())[0].unlink()


def forged_receipt(world: DoctorWorld) -> None:
    receipts = sorted((world.state / "receipts").iterdir())
    write(receipts[0], receipts[1].read_bytes())


def forged_segment(world: DoctorWorld) -> None:
    wait(world)
    newest = max((world.state / "pending").iterdir())
    write(newest, newest.read_bytes()[:-40])


def wait(world: DoctorWorld) -> None:
    """A file that was announced, and that nobody ingests."""
    Manifest(world.store, IDENTITY.state_prefix, IDENTITY.source_id).append(
        [Entry("late.ndjson.gz", 1, "etag", time.time())], writer_id="w", now_ts=time.time()
    )


def dead_letter(world: DoctorWorld) -> None:
    world.land("bad.ndjson.gz", None)
    world.run()


def losing_receipts(world: DoctorWorld) -> None:
    receipts = Receipts(world.store, IDENTITY.state_prefix)
    for number in range(MAX_LOSING_RECEIPTS + 1):
        receipts.put(sequence=1, attempt=f"lost{number}", previous=None, now_ts=0.0, lines=())


def no_sweeps(world: DoctorWorld) -> None:
    (world.lake / IDENTITY.report_key).unlink()


def run_record(phase: Phase, *, failures: int = 0, age_secs: float = 0.0) -> Callable[[DoctorWorld], None]:
    def plant(world: DoctorWorld) -> None:
        record = RunRecord(1, "orders", "epoch", 1, phase, "print", failures=failures, reason="FAILED: no memory")
        RunLog(world.store, "orders", lambda: "id").append(record, now_ts=time.time() - age_secs)

    return plant


def forged_run_record(world: DoctorWorld) -> None:
    world.store.put(f"_blizzard/_runs/orders/{1:020d}.json", b"{}")


FAULTS: Mapping[str, Fault] = {
    "a forged checkpoint": (forged_checkpoint, "state.checkpoint", Verdict.PROBLEM, "cannot be read"),
    "the copy is lost": (lost_copy, "state.copy", Verdict.WARNING, "there is no copy"),
    "the copy is torn": (tear_copy, "state.copy", Verdict.WARNING, "cannot be read"),
    "the copy is old": (
        lambda world: change_copy(world, -1),
        "state.copy",
        Verdict.WARNING,
        "of sequence 0, the commit",
    ),
    "the table was deleted": (delete_log, "state.copy", Verdict.PROBLEM, "but there is no table"),
    "the table was restored": (
        lambda world: change_copy(world, 5),
        "state.copy",
        Verdict.PROBLEM,
        "of sequence 6, but",
    ),
    "a receipt is lost": (lost_receipt, "state.receipts", Verdict.WARNING, "the commits 0 to 0"),
    "a receipt is forged": (forged_receipt, "state.receipts", Verdict.WARNING, "the commits 0 to 0"),
    "a segment is torn": (forged_segment, "state.manifest", Verdict.PROBLEM, "1 segments cannot be read"),
    "a dead letter": (dead_letter, "state.dead-letters", Verdict.WARNING, "1 files have dead letters"),
    "many lost races": (losing_receipts, "state.losing-receipts", Verdict.WARNING, "101 receipts"),
    "nobody sweeps": (no_sweeps, "state.sweeps", Verdict.WARNING, "there is no report"),
    "the circuit is open": (run_record(Phase.OPEN, failures=5), "state.runs", Verdict.PROBLEM, "5 runs failed"),
    "a run failed": (run_record(Phase.FAILED, failures=1), "state.runs", Verdict.WARNING, "FAILED: no memory"),
    "a start without an answer": (
        run_record(Phase.STARTING, age_secs=3 * HOUR_SECS),
        "state.runs",
        Verdict.WARNING,
        "announced 3 hours ago",
    ),
    "a forged run record": (forged_run_record, "state.runs", Verdict.PROBLEM, "run record 1 of pipeline orders"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_under_its_id_alone(name: str, tmp_path: Path) -> None:
    assert_found_alone(FAULTS[name], tmp_path, ("state.",))


@pytest.mark.parametrize(
    ("later_secs", "verdict", "said"),
    [
        (60.0, Verdict.OK, "1 files wait"),
        (2.2 * HOUR_SECS, Verdict.WARNING, "the oldest for 2 hours"),
        (3 * DAY_SECS, Verdict.PROBLEM, "the oldest for 3 days"),
    ],
)
def test_a_file_that_waits_is_worse_the_longer_it_waits(
    tmp_path: Path, later_secs: float, verdict: Verdict, said: str
) -> None:
    world = ingested(tmp_path)
    wait(world)
    found = world.finding("state.backlog", later_secs=later_secs)
    assert (found.verdict, said in found.found) == (verdict, True), found


@pytest.mark.parametrize(
    ("check_id", "days", "said"),
    [
        ("state.last-commit", 8, "nothing was committed for 8 days"),
        ("state.sweeps", 2, "the last one began 2 days ago"),
        ("state.late-sweeps", 2, "the last one began 2 days ago"),
    ],
)
def test_what_does_not_happen_any_more_is_found(tmp_path: Path, check_id: str, days: int, said: str) -> None:
    world = ingested(tmp_path)
    assert world.finding(check_id, later_secs=DAY_SECS).verdict is Verdict.OK
    found = world.finding(check_id, later_secs=days * DAY_SECS + 60)
    assert (found.verdict, said in found.found) == (Verdict.WARNING, True), found


def test_a_part_of_the_ledger_that_is_gone_is_found(tmp_path: Path) -> None:
    world = DoctorWorld(tmp_path, settings={"checkpoint": {"interval_files": 1, "interval_secs": 0}})
    while not (found := [*world.state.glob("ledger/*.run")]):
        world.land(f"{time.time_ns()}.ndjson.gz", "a")
        world.run()
    assert world.finding("state.ledger").found == "1 parts with 32 files"
    found[0].unlink()
    lost = world.finding("state.ledger")
    assert (lost.verdict, found[0].name in lost.found) == (Verdict.WARNING, True), lost


def test_overwritten_files_that_are_refused_do_not_wait(tmp_path: Path) -> None:
    """They have their dead letters, and no commit takes them out of the manifest."""
    world = DoctorWorld(tmp_path, settings={"on_overwrite": "dead_letter"})
    world.land("a.ndjson.gz", "a")
    world.run()
    world.land("a.ndjson.gz", "other", "content")
    world.run()
    assert world.finding("state.backlog", later_secs=2 * DAY_SECS).verdict is Verdict.OK
    world.settings["on_overwrite"], world.pipeline["engine"] = "replace", "auto"  # as if it could not be read
    assert world.finding("state.backlog", later_secs=2 * DAY_SECS).verdict is Verdict.OK
    world.manifest.append([Entry("b.ndjson.gz", 1, "e", 1.0)], writer_id="w", now_ts=time.time())
    found = world.finding("state.backlog", later_secs=2 * DAY_SECS)
    assert (found.verdict, "2 files wait" in found.found) == (Verdict.PROBLEM, True), found


def test_content_that_newer_one_has_replaced_does_not_wait(tmp_path: Path) -> None:
    """An event told of it, and replacing rows takes nothing out of the manifest."""
    world = DoctorWorld(tmp_path, settings={"on_overwrite": "dead_letter"})
    modified_ts = world.land("a.ndjson.gz", "a").stat().st_mtime
    world.run()
    append = partial(world.manifest.append, writer_id="w", now_ts=time.time(), floor=1)
    info = world.source.files.head("a.ndjson.gz")
    assert info is not None
    append([Entry("b.ndjson.gz", 1, "e", 1.0)])
    append([Entry("a.ndjson.gz", 1, info.etag, modified_ts)])
    assert "1 files wait" in world.finding("state.backlog", later_secs=2 * DAY_SECS).found, "a duplicate is no answer"
    shutil.rmtree(world.state / "pending")
    append([Entry("a.ndjson.gz", 1, "of before", modified_ts - 1)])
    found = world.finding("state.backlog", later_secs=2 * DAY_SECS)
    assert (found.verdict, "newer content" in found.found) == (Verdict.OK, True), found
    append([Entry("a.ndjson.gz", 1, "of after", modified_ts + 1)])
    found = world.finding("state.backlog", later_secs=2 * DAY_SECS)
    assert (found.verdict, "1 files wait" in found.found) == (Verdict.PROBLEM, True), found


def test_the_first_late_sweep_is_due_an_interval_after_the_first_sweep(tmp_path: Path) -> None:
    world = DoctorWorld(tmp_path)
    world.lake.mkdir()
    wait(world)
    swept = SweepReport(SweepKind.WATERMARK, time.time(), 1, 1, 1, 1, (1,), complete=True)
    world.store.put(IDENTITY.report_key, SweepReports().with_report(swept).to_json().encode())
    assert world.finding("state.late-sweeps").verdict is Verdict.OK
    assert world.finding("state.late-sweeps", later_secs=2 * DAY_SECS).verdict is Verdict.WARNING


def test_staged_files_that_no_run_removes_are_found(tmp_path: Path) -> None:
    world = ingested(tmp_path)
    world.store.put(f"{IDENTITY.state_prefix}/staging/attempt/part.parquet", b"rows")
    assert world.finding("state.staged-files", later_secs=DAY_SECS).verdict is Verdict.OK
    found = world.finding("state.staged-files", later_secs=3 * DAY_SECS)
    assert (found.verdict, "1 staged files of 4 bytes" in found.found) == (Verdict.WARNING, True), found


def test_lost_events_count_only_with_a_stack(tmp_path: Path) -> None:
    world = ingested(tmp_path)
    reports = read_reports(world.store, IDENTITY)
    assert reports.watermark is not None
    missed = reports.with_report(replace(reports.watermark, unannounced=3))
    world.store.put(IDENTITY.report_key, missed.to_json().encode())
    assert world.finding("state.lost-events").verdict is Verdict.SKIPPED
    assert json.loads((world.lake / IDENTITY.report_key).read_text())["watermark"]["unannounced"] == 3


@pytest.mark.parametrize("torn", [False, True], ids=["lost", "torn"])
def test_a_damaged_log_of_the_table_is_repaired_by_no_run(tmp_path: Path, torn: bool) -> None:
    """Commits of others follow it, and the newest one of the source is before it."""
    world = ingested(tmp_path)
    for _ in range(2):
        world.commit({"commitInfo": {}})
    damaged = world.lake / commit_key(2)
    if torn:
        write(damaged, b"{")
    else:
        damaged.unlink()
    lost_copy(world)
    found, of_table = world.finding("state.checkpoint"), world.finding("table.log")
    assert (found.verdict, of_table.verdict) == (Verdict.PROBLEM, Verdict.PROBLEM)
    assert ("version 2" in found.found or "commit 2" in found.found, "run --once" in f"{found.advice}") == (True, False)
    assert "`table.log`" in f"{found.advice}"
