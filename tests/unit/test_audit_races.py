"""An audit while the world goes on: what arrives or is committed meanwhile is neither missing nor changed."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from blizzard.audit import audit as audits
from blizzard.audit.ranges import Ranges
from blizzard.audit.report import Verdict
from blizzard.manifest.segments import Entry
from tests.unit.operator_world import HOUR_SECS, OperatorWorld, paths

STEPS = ("listed", "manifest read", "table read")


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    made = OperatorWorld(tmp_path, {"on_overwrite": "dead_letter"})
    made.land("a/1.ndjson.gz", "a")
    made.land("a/empty.ndjson.gz")
    made.run()
    made.land("a/2.ndjson.gz", "waits")
    return made


def after(step: str, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen once, when the audit has done this step."""
    owner, name = {
        "listed": (audits.Audit, "_list"),
        "manifest read": (audits, "read_announced"),
        "table read": (audits, "read_snapshot"),
    }[step]
    whole = getattr(owner, name)

    def and_then(*arguments: Any) -> Any:
        found = whole(*arguments)
        act()
        return found

    monkeypatch.setattr(owner, name, and_then)


@pytest.mark.parametrize("step", STEPS)
def test_what_a_run_commits_meanwhile_is_not_missing(
    world: OperatorWorld, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(step, world.run, monkeypatch)
    report = world.audit(later_secs=HOUR_SECS)
    assert (report.verdict, report.missing, report.objects) == (Verdict.GOOD, 0, 3)
    expected = (2, 1) if step == "table read" else (3, 0)
    assert (report.committed, report.pending) == expected
    assert report.table_version == (0 if step == "table read" else 1)


@pytest.mark.parametrize("step", STEPS)
def test_new_content_that_a_run_commits_meanwhile_is_not_changed(
    world: OperatorWorld, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing has the etag before, and the table that is read after it has the new one."""

    def overwrite_and_run() -> None:
        world.land("a/empty.ndjson.gz", "no longer empty")
        world.run()

    after(step, overwrite_and_run, monkeypatch)
    report = world.audit(later_secs=HOUR_SECS)
    assert (report.verdict, report.changed, report.missing) == (Verdict.GOOD, 0, 0)


def test_a_file_that_arrives_meanwhile_is_pending(world: OperatorWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that no sweep looks at any more, before its event is there."""
    world.settings |= {"partition_filter": {"prefix_template": "date=%Y", "lookback": 1}}
    world.land("date=2200/1.ndjson.gz", "x")
    world.run()
    with world.auditing() as audit:
        before = audit._list

        def land_and_list() -> Any:
            world.land("date=2020/1.ndjson.gz", "just now")
            return before()

        monkeypatch.setattr(audits.Audit, "_list", lambda self: land_and_list())
        audit.run()
        report = audit.report()
    assert (report.verdict, report.pending, report.missing) == (Verdict.GOOD, 1, 0)
    monkeypatch.undo()
    assert world.audit(later_secs=HOUR_SECS).missing == 1


def test_a_file_that_arrives_meanwhile_and_is_committed_is_not_gone(
    world: OperatorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.folder / "incoming/a/1.ndjson.gz").unlink()

    def land_and_run() -> None:
        world.land("a/3.ndjson.gz", "just now")
        world.run()

    after("listed", land_and_run, monkeypatch)
    report = world.audit(later_secs=HOUR_SECS)
    assert (report.verdict, report.objects, report.gone, report.rows.found) == (Verdict.GOOD, 2, 1, 3)


@pytest.mark.parametrize("gone", [True, False])
def test_what_seems_to_be_missing_is_looked_at_again(
    world: OperatorWorld, gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settings |= {"partition_filter": {"prefix_template": "date=%Y", "lookback": 1}}
    world.land("date=2200/1.ndjson.gz", "x")
    world.run()
    late = world.land("date=2020/1.ndjson.gz", "its event was lost")
    assert world.audit(later_secs=HOUR_SECS).missing == 1
    change = late.unlink if gone else lambda: world.land("date=2020/1.ndjson.gz", "other", "content")
    after("listed", change, monkeypatch)
    report = world.audit(later_secs=HOUR_SECS)
    assert (report.verdict, report.missing, report.pending) == (Verdict.GOOD, 0, 0 if gone else 1)


def test_two_audits_of_the_same_world_have_the_same_digest(
    world: OperatorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it was divided: some files of these are in runs of the ledger, some in receipts only."""
    for number in range(33):
        world.land(f"b/{number:02}.ndjson.gz", f"{number}")
        world.run()
    world.land_bytes("b/05.txt", b"skipped")
    world.land("b/40.ndjson.gz", "waits")
    assert [*(world.state / "ledger").glob("*.run")]
    whole = world.audit()
    ranges = Ranges(("a", "a/2.ndjson.gz", "b/05", "b/31.ndjson.gz"))
    monkeypatch.setattr(audits, "ranges_of", lambda *_: ranges)
    in_parts = world.audit()
    assert (whole.verdict, whole.committed, whole.pending) == (Verdict.GOOD, 36, 1)
    assert (in_parts.digest, in_parts.partitions, in_parts.rows) == (whole.digest, whole.partitions, whole.rows)
    world.table().delete("id = '7'")
    assert world.audit().digest != whole.digest


def test_the_digest_tells_what_is_wrong_besides_the_objects(world: OperatorWorld) -> None:
    """Rows of a file that is gone, rows of others, and row numbers."""
    (world.folder / "incoming" / "a" / "1.ndjson.gz").unlink()
    world.land("a/3.ndjson.gz", "x", "y", "z")
    world.run()
    digests = [world.audit().digest]
    world.table().delete("id = 'a'")
    digests.append(world.audit().digest)
    for source in ({"source": "nobody:knows"}, {"row": 99}):
        rows = world.table().to_pyarrow_table()
        row = next(row for row in rows.to_pylist() if row["id"] == "y")
        row["_source"] |= source
        if "row" in source:
            world.table().delete("id = 'z'")
        write_deltalake(world.table(), pa.Table.from_pylist([row], rows.schema), mode="append")
        digests.append(world.audit().digest)
    assert len({*digests}) == len(digests) == 4
    assert world.audit().digest == digests[-1]


def test_the_digest_tells_deleted_rows_from_rows_that_are_gone(tmp_path: Path) -> None:
    digests = []
    for name in ("deleted", "overwritten"):
        world = OperatorWorld(tmp_path / name)
        file = world.land("a/1.ndjson.gz", "a", "b")
        os.utime(file, (1, 1))
        world.run()
        if name == "deleted":
            world.table().delete("id = 'b'")
        else:
            rows = world.table().to_pyarrow_table()
            write_deltalake(world.table(), rows.filter(pc.equal(rows["id"], "a")), mode="overwrite")
        report = world.audit()
        assert [report.verdict, report.rows.found] == [Verdict.NOTES if name == "deleted" else Verdict.BAD, 1]
        digests.append(report.digest)
    assert digests[0] != digests[1]


def test_a_file_that_is_announced_after_the_listing_is_not_absent(
    world: OperatorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    absent = ["../forged", "a//none", "a/none.ndjson.gz"]

    def land_and_announce() -> None:
        world.land("a/3.ndjson.gz", "just now")
        found = world.source.files.head("a/3.ndjson.gz")
        assert found is not None
        entries = [
            Entry(found.key, found.size, found.etag, found.modified_ts),
            *(Entry(path, 9, "e", found.modified_ts) for path in absent),
        ]
        world.manifest.append(entries, writer_id="w", now_ts=time.time(), floor=1)

    after("listed", land_and_announce, monkeypatch)
    report = world.audit()
    assert [(notice.kind, "a/none" in notice.text) for notice in report.notices] == [("announced_absent", True)]
    assert (report.objects, report.pending, paths(report, "announced_absent")) == (3, 0, absent)


def test_only_a_folder(world: OperatorWorld) -> None:
    world.land("b/1.ndjson.gz", "x")
    world.land("a/b/1.ndjson.gz", "x")
    world.run()
    assert (world.audit().objects, world.audit(prefix="a/").objects, world.audit(prefix="b/").objects) == (5, 4, 1)
    assert (world.audit(prefix="b/").verdict, world.audit(prefix="b/").rows.found) == (Verdict.GOOD, 1)
