"""Worlds with a planted fault, which the audit finds under its right name. Each is healthy without it."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from blizzard.audit.repair import announce
from blizzard.audit.report import AuditReport, Verdict
from blizzard.errors import PermanentError
from blizzard.log import silent
from blizzard.manifest.segments import Entry, Sweep
from blizzard.sweep.source_sweep import SourceSweep
from spark_job.start import EXIT_FAILED
from tests.unit.deletion_vectors import delete_by_vector
from tests.unit.operator_world import HOUR_SECS, OperatorWorld, kinds, paths

FIRST, SECOND = "a/1.ndjson.gz", "b/2.ndjson.gz"


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    """Two commits: a file of three rows, and one of two rows and a refused record."""
    made = OperatorWorld(tmp_path)
    made.land(FIRST, "a0", "a1", "a2")
    made.run()
    made.land(SECOND, "b0", None, "b2")
    made.run()
    return made


def sums(report: AuditReport) -> tuple[int, ...]:
    assert report.objects == (
        report.committed + report.dead_lettered + report.skipped + report.pending + report.missing
    )
    return report.committed, report.pending, report.missing, report.doubled, report.changed


def test_without_a_fault_every_object_and_row_is_accounted_for(world: OperatorWorld) -> None:
    world.land_bytes("b/torn.ndjson.gz", b"\x1f\x8b")
    world.land_bytes("b/readme.txt", b"hello")
    world.run()
    world.land("b/3.ndjson.gz", "c")
    report = world.audit()
    assert (report.verdict, report.notices) == (Verdict.GOOD, [])
    assert sums(report) == (2, 1, 0, 0, 0)
    assert (report.objects, report.dead_lettered, report.skipped_by) == (5, 1, {"pattern": 1})
    assert (report.rows.expected, report.rows.found) == (5, 5)
    assert report.partitions["b"] == {
        "objects": 4,
        "committed": 1,
        "dead_lettered": 1,
        "skipped": 1,
        "pending": 1,
        "missing": 0,
    }


def test_a_row_deleted_by_hand(world: OperatorWorld) -> None:
    world.table().delete("id = 'a1'")
    report = world.audit()
    assert kinds(report) == ["rows_deleted"]
    assert [(each["path"], each["rows_expected"], each["rows_found"]) for each in report.names["rows_deleted"]] == [
        (FIRST, 3, 2)
    ]
    assert (report.verdict, sums(report)) == (Verdict.NOTES, (2, 0, 0, 0, 0))


def test_all_rows_of_a_file_deleted_are_not_a_missing_file(world: OperatorWorld) -> None:
    world.table().delete("_source.file = 'a/1.ndjson.gz'")
    report = world.audit()
    assert paths(report, "rows_deleted") == [FIRST]
    assert sums(report) == (2, 0, 0, 0, 0)


def add_rows_again(world: OperatorWorld, path: str) -> None:
    table = world.table().to_pyarrow_table()
    write_deltalake(
        world.table(), table.filter(pc.equal(pc.struct_field(table["_source"], "file"), path)), mode="append"
    )


def test_a_file_doubled_by_a_foreign_writer(world: OperatorWorld) -> None:
    add_rows_again(world, SECOND)
    report = world.audit()
    assert (report.verdict, sums(report)) == (Verdict.BAD, (2, 0, 0, 1, 0))
    (doubled,) = report.names["doubled"]
    assert (doubled["path"], doubled["rows_expected"], doubled["rows_found"], doubled["rows_distinct"]) == (
        SECOND,
        2,
        4,
        2,
    )


def test_a_row_doubled_and_another_deleted_do_not_make_up_for_each_other(world: OperatorWorld) -> None:
    add_rows_again(world, FIRST)
    world.table().delete("id = 'a1' or id = 'a2'")
    world.table().optimize.compact()
    report = world.audit()
    assert (paths(report, "doubled"), paths(report, "rows_deleted")) == ([FIRST], [FIRST])


def test_rows_that_no_commit_brought(world: OperatorWorld) -> None:
    rows = world.table().to_pyarrow_table().to_pylist()
    forged = {**rows[0], "_source": {**rows[0]["_source"], "file": "a/forged.ndjson.gz"}}
    more = {**rows[0], "_source": {**rows[0]["_source"], "file": FIRST, "etag": etag_of(world, FIRST), "row": 77}}
    schema = world.table().to_pyarrow_table().schema
    write_deltalake(world.table(), pa.Table.from_pylist([forged, more], schema), mode="append")
    report = world.audit()
    assert (report.verdict, paths(report, "rows_added")) == (Verdict.BAD, [FIRST, "a/forged.ndjson.gz"])


def etag_of(world: OperatorWorld, path: str) -> str:
    found = world.source.files.head(path)
    assert found is not None
    return found.etag


def test_a_changed_etag(world: OperatorWorld) -> None:
    before = etag_of(world, FIRST)
    world.land(FIRST, "other", "content", "now")
    report = world.audit()
    assert (report.verdict, sums(report)) == (Verdict.BAD, (2, 0, 0, 0, 1))
    (changed,) = report.names["changed"]
    assert (changed["path"], changed["etag_committed"], changed["etag"]) == (FIRST, before, etag_of(world, FIRST))


def test_an_overwritten_file_with_a_rule_is_pending_and_then_settled(world: OperatorWorld) -> None:
    world.settings = {"on_overwrite": "dead_letter"}
    world.land(FIRST, "other")
    assert sums(world.audit()) == (1, 1, 0, 0, 0)
    world.run()
    report = world.audit()
    assert (report.verdict, report.dead_lettered, sums(report)) == (Verdict.GOOD, 1, (1, 0, 0, 0, 0))


def test_a_lost_receipt(world: OperatorWorld) -> None:
    receipts = sorted((world.state / "receipts").iterdir())
    receipts[0].unlink()
    report = world.audit()
    assert kinds(report) == ["ledger_incomplete"]
    assert "1 commits are in none" in report.notices[0].text
    assert sums(report) == (2, 0, 0, 0, 0)


def test_the_receipt_of_a_commit_that_the_ledger_has(world: OperatorWorld) -> None:
    for number in range(40):
        world.land(f"c/{number:02}.ndjson.gz", f"{number}")
        world.run()
    assert [*(world.state / "ledger").glob("*.run")]
    sorted((world.state / "receipts").iterdir())[1].unlink()
    report = world.audit()
    assert (kinds(report), report.verdict, report.committed) == (["receipts_lost"], Verdict.NOTES, 42)
    assert "1 commits are not there: 1." in report.notices[0].text


def test_a_lost_ledger_without_any_receipt_is_read_from_the_table(world: OperatorWorld) -> None:
    shutil.rmtree(world.state / "receipts")
    report = world.audit()
    assert kinds(report) == ["ledger_incomplete"]
    assert sums(report) == (2, 0, 0, 0, 0)


def test_a_wiped_manifest(world: OperatorWorld) -> None:
    shutil.rmtree(world.state / "pending")
    report = world.audit()
    assert (kinds(report), sums(report)) == (["manifest_wiped"], (2, 0, 0, 0, 0))
    world.land("z/new.ndjson.gz", "z")
    world.run()
    assert world.audit().verdict is Verdict.GOOD


def test_a_wiped_manifest_that_has_begun_again(world: OperatorWorld) -> None:
    shutil.rmtree(world.state / "pending")
    world.land("z/new.ndjson.gz", "z")
    world.manifest.append([entry_of(world, "z/new.ndjson.gz")], writer_id="w", now_ts=1.0)
    report = world.audit()
    assert (kinds(report), sums(report)) == (["manifest_wiped"], (2, 1, 0, 0, 0))


def entry_of(world: OperatorWorld, path: str) -> Entry:
    found = world.source.files.head(path)
    assert found is not None
    return Entry(path, found.size, found.etag, found.modified_ts)


def forge_absent(world: OperatorWorld) -> None:
    world.manifest.append([Entry("a/0.ndjson.gz", 1, "e", 1.0)], writer_id="w", now_ts=1.0)


def forge_garbage(world: OperatorWorld) -> None:
    (world.state / "pending" / f"{77:020d}.json").write_text("{}")


def forge_unlinked(world: OperatorWorld) -> None:
    """A segment that does not name the one before, since its writer does not know it."""
    number = world.manifest.append([], writer_id="w", now_ts=1.0, sweep=Sweep())
    stored = world.state / "pending" / f"{number:020d}.json"
    text = stored.read_text().replace(f'"segment":{number}', f'"segment":{number + 1}')
    (world.state / "pending" / f"{number + 1:020d}.json").write_text(text)


@pytest.mark.parametrize(
    ("forge", "kind"),
    [(forge_absent, "announced_absent"), (forge_garbage, "segment_unreadable"), (forge_unlinked, "manifest_broken")],
)
def test_a_forged_segment(world: OperatorWorld, forge: Callable[[OperatorWorld], None], kind: str) -> None:
    forge(world)
    report = world.audit()
    assert (kinds(report), sums(report)) == ([kind], (2, 0, 0, 0, 0))


def test_a_table_restored_to_an_older_version(world: OperatorWorld) -> None:
    world.table().restore(0)
    report = world.audit()
    assert (report.verdict, kinds(report)) == (Verdict.BAD, ["rows_deleted", "rows_gone", "table_restored"])
    assert (paths(report, "rows_deleted"), sums(report)) == ([SECOND], (2, 0, 0, 0, 0))
    assert "`rows_deleted` names" in restored_text(report)


def test_a_restored_table_that_lacks_nothing_names_nothing(world: OperatorWorld) -> None:
    for version in (0, 1):
        world.table().restore(version)
    report = world.audit()
    assert (kinds(report), report.names["rows_deleted"]) == (["table_restored"], [])
    assert restored_text(report) == "version 3 of the table restored an older one."


def restored_text(report: AuditReport) -> str:
    return next(notice.text for notice in report.notices if notice.kind == "table_restored")


def test_a_table_restored_with_its_log(world: OperatorWorld) -> None:
    """From a backup of its data and log, while the state beside them is newer."""
    (world.folder / "lake" / "_delta_log" / f"{1:020d}.json").unlink()
    report = world.audit()
    assert "table_behind" in kinds(report)
    assert sums(report) == (1, 1, 0, 0, 0)
    world.run()
    world.run()
    assert sums(world.audit()) == (2, 0, 0, 0, 0)


def test_a_file_in_a_closed_folder_whose_event_was_lost_is_missing_until_it_is_repaired(tmp_path: Path) -> None:
    world = OperatorWorld(tmp_path, {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1}})
    old, today = "date=2020-01-01/a.ndjson.gz", "date=2200-01-01/a.ndjson.gz"
    world.land(old, "before the first run")
    world.land(today, "x")
    world.run()
    late = "date=2020-01-01/b.ndjson.gz"
    world.land(late, "after the first run")
    world.run()
    report = world.audit(later_secs=HOUR_SECS)
    assert (report.verdict, paths(report, "missing"), report.skipped_by) == (
        Verdict.BAD,
        [late],
        {"partition_filter": 1},
    )
    with world.auditing(later_secs=HOUR_SECS) as audit:
        audit.run()
        missing = audit.tally.found["missing"]
        assert announce(world.source, audit.snapshot.checkpoint, missing, writer_id="w", now_ts=1.0) == 1
    assert sums(world.audit(later_secs=HOUR_SECS)) == (1, 1, 0, 0, 0)
    world.run(sweep=False)
    report = world.audit(later_secs=HOUR_SECS)
    assert (report.verdict, sums(report)) == (Verdict.GOOD, (2, 0, 0, 0, 0))


def test_a_first_sweep_that_ended_before_its_report_says_what_it_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OperatorWorld(tmp_path, {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1}})
    world.land("date=2020-01-01/a.ndjson.gz", "before the first sweep")

    def fails(*_: object) -> None:
        raise PermanentError("no report can be written")

    with monkeypatch.context() as patch:
        patch.setattr(SourceSweep, "write", fails)
        assert world.run_until(threading.Event(), silent) == EXIT_FAILED
    assert (world.state / "pending").is_dir()
    report = world.audit(later_secs=HOUR_SECS)
    assert (report.verdict, report.skipped_by, report.sequence) == (Verdict.GOOD, {"partition_filter": 1}, None)
    world.land("date=2020-01-01/b.ndjson.gz", "after the first sweep")
    assert paths(world.audit(later_secs=HOUR_SECS), "missing") == ["date=2020-01-01/b.ndjson.gz"]


def test_rows_deleted_by_a_deletion_vector(world: OperatorWorld) -> None:
    delete_by_vector(world, row=1)
    report = world.audit()
    assert report.rows.problem is None
    (deleted,) = report.names["rows_deleted"]
    assert (deleted["path"], deleted["rows_expected"], deleted["rows_found"]) == (FIRST, 3, 2)
    assert (report.rows.expected, report.rows.found) == (5, 4)
