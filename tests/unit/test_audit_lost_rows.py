"""Tables that have lost rows or data files, or have rows of nobody: an audit says so, and whether that is bad."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from blizzard.audit import taken_out
from blizzard.audit.report import AuditReport, Verdict
from blizzard.audit.taken_out import TakenOut
from blizzard.cli import main
from blizzard.errors import StorageError
from blizzard.state.delta_log import commit_key, parse_commit
from spark_job.main import EXIT_STOPPED
from tests.unit.interruptions import StopsAfter
from tests.unit.operator_world import OperatorWorld, kinds, paths

FIRST, SECOND = "a/1.ndjson.gz", "b/2.ndjson.gz"


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    """Two commits of a file each, of three and two rows."""
    made = OperatorWorld(tmp_path)
    made.land(FIRST, "a0", "a1", "a2")
    made.run()
    made.land(SECOND, "b0", "b1")
    made.run()
    assert (made.audit().verdict, made.audit().notices) == (Verdict.GOOD, [])
    return made


# -- rows that are gone


def gone(report: AuditReport) -> tuple[Verdict, int, int]:
    return report.verdict, report.rows.gone, report.rows.unexplained


@pytest.mark.parametrize(("predicate", "rows"), [("id = 'a1'", 1), ("_source.file = 'a/1.ndjson.gz'", 3), (None, 5)])
def test_deleted_rows_are_no_fault(world: OperatorWorld, predicate: str | None, rows: int) -> None:
    world.table().delete(predicate)
    report = world.audit()
    assert gone(report) == (Verdict.NOTES, rows, 0)
    assert kinds(report) == ["rows_deleted"]


def test_rows_that_vanish_without_a_delete_are_a_fault(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = world.table().to_pyarrow_table()
    write_deltalake(world.table(), rows.filter(pa.compute.not_equal(rows["id"], "a1")), mode="overwrite")
    report = world.audit()
    assert gone(report) == (Verdict.BAD, 1, 1)
    assert (kinds(report), paths(report, "rows_deleted")) == (["rows_deleted", "rows_gone"], [FIRST])
    assert main(["audit", str(world.config_file)]) == 1
    assert ", 1 gone, 1 of them without a DELETE\n" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["nobody:knows", None])
@pytest.mark.parametrize("is_vacuumed", [False, True])
def test_a_delete_of_rows_of_others_explains_nothing(
    world: OperatorWorld, source: str | None, is_vacuumed: bool
) -> None:
    """As the runbook has somebody delete copies; once VACUUM has deleted the data files, nobody can tell."""
    rows = world.table().to_pyarrow_table()
    copies = [row | {"_source": source and row["_source"] | {"source": source}} for row in rows.to_pylist()]
    write_deltalake(world.table(), pa.Table.from_pylist(copies, rows.schema), mode="append")
    world.table().delete("_source.source IS NULL" if source is None else f"_source.source = '{source}'")
    if is_vacuumed:
        world.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    rows = world.table().to_pyarrow_table()
    write_deltalake(world.table(), rows.slice(0, 0), mode="overwrite")
    report = world.audit()
    assert gone(report) == ((Verdict.NOTES, 5, 0) if is_vacuumed else (Verdict.BAD, 5, 5))


def test_a_delete_in_a_file_with_rows_of_others_explains_its_own(world: OperatorWorld) -> None:
    rows = world.table().to_pyarrow_table()
    others = [row | {"_source": row["_source"] | {"source": "nobody:knows"}} for row in rows.to_pylist()]
    world.table().delete()
    write_deltalake(world.table(), pa.Table.from_pylist([*rows.to_pylist(), *others], rows.schema), mode="append")
    world.table().delete("id = 'a1'")
    world.table().delete("_source.source = 'nobody:knows'")
    rows = world.table().to_pyarrow_table()
    write_deltalake(world.table(), rows.filter(pa.compute.not_equal(rows["id"], "b1")), mode="overwrite")
    assert [deleted_rows(world, version) for version in range(2, 7)] == [5, 0, 1, 0, 1]


def deleted_rows(world: OperatorWorld, version: int) -> float:
    """By TakenOut."""
    commit = parse_commit(version, (world.lake / commit_key(version)).read_bytes())
    return TakenOut(world.source)(commit)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: {"deletionVector": {"storageType": "u"}, "path": path},
        lambda path: {"path": f"s3://bucket/{path}"},
        lambda path: {"path": f"no-{path}"},
        lambda path: {"path": 5},
    ],
)
def test_of_some_commits_nobody_knows_what_they_took_out(
    world: OperatorWorld, change: Callable[[str], dict[str, Any]]
) -> None:
    world.table().delete("id = 'a1'")
    log = world.lake / commit_key(2)
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    assert deleted_rows(world, 2) == 1
    for action in actions:
        if "remove" in action:
            action["remove"] |= change(action["remove"]["path"])
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert deleted_rows(world, 2) == math.inf


def test_a_data_file_that_storage_refuses_tells_nothing(world: OperatorWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.table().delete("id = 'a1'")

    def refuse(*_: object) -> NoReturn:
        raise StorageError("archived")

    monkeypatch.setattr(taken_out, "SourceColumn", refuse)
    assert deleted_rows(world, 2) == math.inf


def test_a_delete_explains_no_more_rows_than_it_has_deleted(world: OperatorWorld) -> None:
    world.table().delete("id = 'a1'")
    rows = world.table().to_pyarrow_table()
    write_deltalake(world.table(), rows.filter(pa.compute.not_equal(rows["id"], "b0")), mode="overwrite")
    assert gone(world.audit()) == (Verdict.BAD, 2, 1)


def write_anew_without(world: OperatorWorld, *ids: str) -> None:
    """As another program does, which deletes nothing by a commit."""
    rows = world.table().to_pyarrow_table()
    kept = pa.compute.invert(pa.compute.is_in(rows["id"], pa.array(ids)))
    write_deltalake(world.table(), rows.filter(kept), mode="overwrite")


@pytest.mark.parametrize("predicate", ["id = 'a1' OR id = 'b0'", None])
def test_a_delete_does_not_explain_rows_that_were_committed_after_it(
    world: OperatorWorld, predicate: str | None
) -> None:
    world.table().delete(predicate)
    world.land("c/3.ndjson.gz", "c0", "c1")
    world.run()
    deleted = 2 if predicate else 5
    assert gone(world.audit()) == (Verdict.NOTES, deleted, 0)
    write_anew_without(world, "c1")
    assert gone(world.audit()) == (Verdict.BAD, deleted + 1, 1)


def test_slices_of_a_file_may_have_been_deleted_before_the_last_one_came(tmp_path: Path) -> None:
    """What is left are rows of the newest commit alone."""
    world = OperatorWorld(tmp_path, {"pattern": "**", "checkpoint": {"interval_bytes": 1_000_000}})
    world.land_bytes("a.ndjson", 250 * (b'{"id": "%s"}\n' % (b"x" * 8_000)))
    stop = StopsAfter(1)
    assert world.run_until(stop.event, stop.log) == EXIT_STOPPED
    deleted = world.table().to_pyarrow_table().num_rows
    assert 0 < deleted < 250
    world.table().delete()
    world.run(sweep=False)
    left = world.table().to_pyarrow_table()["_source"].to_pylist()
    assert [(each["row"], each["sequence"]) for each in left] == [(number, 1) for number in range(deleted, 250)]
    assert gone(world.audit()) == (Verdict.NOTES, deleted, 0)


def test_rows_may_have_been_deleted_before_a_record_of_their_file_was_put_back(tmp_path: Path) -> None:
    """The ledger counts no refused record then, and has the commit that put it back."""
    world = OperatorWorld(tmp_path)
    world.land(FIRST, "a0", None, "a2")
    world.run()
    world.table().delete()
    file = world.folder / "repaired.ndjson"
    file.write_text(json.dumps({"path": FIRST, "row": 1, "record": {"id": "given"}}))
    assert main(["replay", str(world.config_file), "--records", str(file)]) == 0
    assert world.table().to_pyarrow_table()["id"].to_pylist() == ["given"]
    assert gone(world.audit()) == (Verdict.NOTES, 2, 0)


def test_a_table_that_was_written_anew_without_rows(world: OperatorWorld) -> None:
    write_deltalake(world.table(), world.table().to_pyarrow_table().slice(0, 0), mode="overwrite")
    assert gone(world.audit()) == (Verdict.BAD, 5, 5)


def test_a_restored_table_lacks_rows_that_nobody_deleted(world: OperatorWorld) -> None:
    world.table().restore(0)
    report = world.audit()
    assert gone(report) == (Verdict.BAD, 2, 2)
    assert kinds(report) == ["rows_deleted", "rows_gone", "table_restored"]


def test_deletions_of_before_the_log_may_explain_what_is_gone(world: OperatorWorld) -> None:
    world.table().delete("id = 'a1'")
    world.land("c/3.ndjson.gz", "c0")
    world.run()
    world.table().create_checkpoint()
    for version in range(3):
        (world.lake / "_delta_log" / f"{version:020d}.json").unlink()
    report = world.audit()
    assert gone(report) == (Verdict.NOTES, 1, 0)
    assert kinds(report) == ["rows_deleted", "rows_gone_before_the_log"]


def test_a_file_that_is_gone_is_shown_to_people(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    (world.folder / "incoming" / FIRST).unlink()
    assert main(["audit", str(world.config_file)]) == 0
    assert " gone           1, which the source no longer has\n" in capsys.readouterr().out


# -- rows of nobody that is known


def add_rows_of(world: OperatorWorld, source: str | None) -> None:
    rows = world.table().to_pyarrow_table()
    copied = [
        {**row, "id": "copy", "_source": source and {**row["_source"], "source": source}}
        for row in rows.to_pylist()[:2]
    ]
    write_deltalake(world.table(), pa.Table.from_pylist(copied, rows.schema), mode="append")


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize(
    ("source", "kind", "verdict"),
    [
        (None, "rows_of_nobody", Verdict.NOTES),
        ("orders:nobody", "rows_of_unknown_sources", Verdict.BAD),
        ("zzz", "rows_of_unknown_sources", Verdict.BAD),
        ("orders:" + 50 * "long", "rows_of_unknown_sources", Verdict.BAD),
    ],
)
def test_rows_of_nobody(
    world: OperatorWorld, source: str | None, kind: str, verdict: Verdict, *, compacted: bool
) -> None:
    """Statistics say whose rows a data file has; of a compacted one they do not."""
    add_rows_of(world, source)
    if compacted:
        world.table().optimize.compact()
    report = world.audit()
    assert (report.verdict, kinds(report)) == (verdict, [kind])
    (other,) = report.others
    assert (other.source, other.rows, other.committed, len(other.data_files)) == (source, 2, False, 1)
    assert (world.lake / other.data_files[0]).is_file()
    assert (report.rows.expected, report.rows.found) == (5, 5)


@pytest.mark.parametrize("source", [None, "orders:nobody"])
def test_rows_of_nobody_in_data_files_that_have_no_others(world: OperatorWorld, source: str | None) -> None:
    """Their statistics say so."""
    add_rows_of(world, source)
    newest = max((world.lake / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    bounds = {"_source": {"source": source}} if source else {}
    nulls = {"_source": {"source": 0 if source else 2}}
    for action in actions:
        if "add" in action:
            statistics = {"numRecords": 2, "minValues": bounds, "maxValues": bounds, "nullCount": nulls}
            action["add"]["stats"] = json.dumps(statistics)
    newest.unlink()
    newest.write_text("".join(json.dumps(action) + "\n" for action in actions))
    report = world.audit()
    (other,) = report.others
    assert (other.source, other.rows) == (source, 2)
    (world.lake / other.data_files[0]).unlink()
    report = world.audit()
    assert ([each["path"] for each in report.names["data_files_lost"]], report.others) == ([*other.data_files], [])


def test_rows_without_the_source_alone(world: OperatorWorld) -> None:
    rows = world.table().to_pyarrow_table()
    nameless = [{**row, "_source": {**row["_source"], "source": None}} for row in rows.to_pylist()[:2]]
    write_deltalake(world.table(), pa.Table.from_pylist(nameless, rows.schema), mode="append")
    assert [(other.source, other.rows) for other in world.audit().others] == [(None, 2)]


def test_deleted_rows_of_nobody_do_not_count(world: OperatorWorld) -> None:
    add_rows_of(world, None)
    world.table().delete("id = 'copy'")
    assert (world.audit().verdict, world.audit().others) == (Verdict.GOOD, [])


def test_a_source_that_was_removed_from_the_configuration_is_no_fault(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"uri": "other", "pattern": "**", "schema": "id STRING, amount BIGINT"}
    shop = {"uri": "incoming", "pattern": "**/*.ndjson.gz", "schema": "id STRING NOT NULL, amount BIGINT"}
    (world.folder / "other").mkdir()
    (world.folder / "other" / "x.ndjson").write_text('{"id": "x"}\n')
    world.pipeline["sources"] = {"shop": {**shop, "settle_delay_secs": 0}, "other": {**other, "settle_delay_secs": 0}}
    world.run()
    assert main(["audit", str(world.config_file), "--json"]) == 0
    assert [report["others"] for report in json.loads(capsys.readouterr().out)] == [[], []]
    del world.pipeline["sources"]
    report = world.audit()
    assert (report.verdict, kinds(report)) == (Verdict.NOTES, ["rows_of_other_sources"])
    assert [(each.source, each.rows, each.committed) for each in report.others] == [("orders:other", 1, True)]


def test_an_audit_of_one_folder_does_not_ask_for_others(world: OperatorWorld) -> None:
    add_rows_of(world, None)
    assert (world.audit(prefix="a/").verdict, world.audit(prefix="a/").others) == (Verdict.GOOD, [])


# -- data files that are lost


def data_file(world: OperatorWorld, version: int) -> Path:
    log = (world.lake / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    (path,) = (json.loads(line)["add"]["path"] for line in log if line.startswith('{"add"'))
    return world.lake / path


def assert_lost(report: AuditReport, files: Sequence[Path], why: str) -> None:
    lost = report.names["data_files_lost"]
    assert [(each["path"], each["rows"]) for each in lost] == [(file.name, 2) for file in files]
    assert all(why in each["why"] for each in lost)
    assert (report.verdict, report.rows.found, report.rows.unexplained) == (Verdict.BAD, 3, 2)
    assert kinds(report) == ["data_files_lost", "rows_deleted", "rows_gone"]
    assert paths(report, "rows_deleted") == [SECOND]


def test_a_data_file_that_is_gone(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    lost = data_file(world, 1)
    lost.unlink()
    assert_lost(world.audit(), [lost], "it is not there")
    assert main(["audit", str(world.config_file), "--sample", "5"]) == 1
    said = capsys.readouterr().out
    assert f" data files lost: {lost.name} (rows 2, why it is not there)\n" in said
    assert " sample         could not be made, so no value was compared: the table cannot be read: " in said


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"x" * 5_000])
def test_a_data_file_that_is_damaged(world: OperatorWorld, damage: bytes) -> None:
    damaged = data_file(world, 1)
    damaged.unlink()
    damaged.write_bytes(damage)
    assert_lost(world.audit(), [damaged], "cannot be read")


def test_what_storage_refuses_is_no_damage(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as an archived object: nobody may take a data file out of the log for it."""
    moved = data_file(world, 1).rename(world.folder / "moved")
    data_file(world, 1).symlink_to(moved)
    assert main(["audit", str(world.config_file), "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["verdict"], "symbolic link" in report["problem"]) == ("bad", True)


def test_with_a_lost_ledger_a_lost_data_file_is_still_an_answer(world: OperatorWorld) -> None:
    for receipt in (world.state / "receipts").iterdir():
        receipt.unlink()
    data_file(world, 1).unlink()
    report = world.audit()
    assert (report.verdict, kinds(report)) == (Verdict.BAD, ["data_files_lost", "ledger_incomplete"])


def test_out_of_the_log_the_files_have_lost_their_rows(world: OperatorWorld) -> None:
    """What docs/runbook.md says to do."""
    data_file(world, 1).unlink()
    world.table().repair()
    report = world.audit()
    assert (report.names["data_files_lost"], paths(report, "rows_deleted")) == ([], [SECOND])
    assert gone(report) == (Verdict.BAD, 2, 2)
