"""A table that has rows of a source and not its Txn, which runs refuse: every command that looks says so, and none does
of a table that only has no rows of the source."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from blizzard.audit.report import Verdict as AuditVerdict
from blizzard.cli import main
from blizzard.doctor.check import Finding, Verdict
from blizzard.doctor.examine import examine
from blizzard.doctor.table import CHECKS, ExaminedTable
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from blizzard.table import lost_txn
from blizzard.table.active_files import active_files
from blizzard.table.lost_txn import TXN_LOST, holds_rows
from tests.unit.added_rows import AddedRows, CountedStore, Row
from tests.unit.doctor_world import DoctorWorld, assert_says_what_to_do
from tests.unit.operator_world import IDENTITY, kinds
from tests.unit.rebuild_lake import become_table_of

FIRST, SECOND, NEXT = "a/1.ndjson.gz", "a/2.ndjson.gz", "b/next.ndjson.gz"
SECTION = "docs/runbook.md#a-table-without-its-txn"


@pytest.fixture
def world(tmp_path: Path) -> DoctorWorld:
    """Two commits, and a file that waits."""
    made = DoctorWorld(tmp_path)
    for path in (FIRST, SECOND):
        made.land(path, "x", "y")
        made.run()
    made.land(NEXT, "z")
    return made


def lose_txn(world: DoctorWorld) -> None:
    become_table_of(world.lake, world.table().to_pyarrow_table())


def lose_txn_and_state(world: DoctorWorld) -> None:
    lose_txn(world)
    (world.lake / IDENTITY.copy_key).unlink()


def asked(world: DoctorWorld, capsys: pytest.CaptureFixture[str], *words: str, code: int) -> Any:
    command, *more = words
    capsys.readouterr()
    assert main([command, str(world.config_file), *more, "--json"]) == code
    return json.loads(capsys.readouterr().out)


LOSSES = pytest.mark.parametrize("lose", [lose_txn, lose_txn_and_state])


@LOSSES
def test_doctor_finds_it_as_a_run_does(world: DoctorWorld, lose: Callable[[DoctorWorld], None]) -> None:
    assert world.finding("table.txns").verdict is Verdict.OK
    lose(world)
    found = world.finding("table.txns")
    assert (found.verdict, "rows of orders:shop, and no Txn" in found.found) == (Verdict.PROBLEM, True)
    assert_says_what_to_do(found)
    assert main(["doctor", str(world.config_file)]) == 1
    assert main(["run", "--once", str(world.config_file)]) == 1
    world.rebuild()
    assert world.finding("table.txns").verdict is Verdict.OK


@pytest.mark.parametrize(("lose", "committed"), [(lose_txn, 2), (lose_txn_and_state, 0)])
def test_an_audit_blames_no_other_program(
    world: DoctorWorld, lose: Callable[[DoctorWorld], None], committed: int
) -> None:
    lose(world)
    report = world.audit()
    assert (report.verdict, {*kinds(report)} - {"manifest_wiped"}) == (AuditVerdict.BAD, {"txn_lost"})
    assert report.names["rows_added"] == []
    assert (report.rows.added, report.committed, report.pending) == (0, committed, 3 - committed)
    (lost,) = (notice for notice in report.notices if notice.kind == "txn_lost")
    assert SECTION in lost.text
    world.rebuild()
    assert (world.audit().verdict, "txn_lost" in kinds(world.audit())) == (AuditVerdict.NOTES, False)


def test_rows_of_commits_after_the_copy_are_of_no_other_program(world: DoctorWorld) -> None:
    copy = (world.lake / IDENTITY.copy_key).read_bytes()
    world.run()
    lose_txn(world)
    (world.lake / IDENTITY.copy_key).write_bytes(copy)
    report = world.audit()
    assert (report.verdict, report.names["rows_added"]) == (AuditVerdict.BAD, [])
    assert (kinds(report), report.committed, report.pending) == (["txn_lost"], 2, 1)


@LOSSES
def test_plan_says_that_the_next_run_would_stop(
    world: DoctorWorld, capsys: pytest.CaptureFixture[str], lose: Callable[[DoctorWorld], None]
) -> None:
    assert [each["problem"] for each in asked(world, capsys, "plan", code=0)[0]["sources"]] == [None]
    lose(world)
    (plan,) = asked(world, capsys, "plan", code=1)
    assert [(each["is_new"], each["problem"]) for each in plan["sources"]] == [(False, TXN_LOST)]
    assert plan["runs"] == 0
    assert main(["plan", str(world.config_file)]) == 1
    text = capsys.readouterr().out
    assert (f"would stop  {TXN_LOST}" in text, "nothing to do" in text) == (True, False)


@pytest.mark.parametrize(("lose", "waiting"), [(lose_txn, {NEXT}), (lose_txn_and_state, {FIRST, SECOND, NEXT})])
def test_files_say_why_they_wait(
    world: DoctorWorld, capsys: pytest.CaptureFixture[str], lose: Callable[[DoctorWorld], None], waiting: set[str]
) -> None:
    lose(world)
    lives = {life["path"]: life for life in asked(world, capsys, "files", code=0)}
    assert {path for path, life in lives.items() if life["state"] == "pending"} == waiting
    assert {lives[path]["reason"] for path in waiting} == {TXN_LOST}


def test_the_txn_is_found_where_only_the_delta_checkpoint_has_it(world: DoctorWorld) -> None:
    table = world.table()
    table.create_checkpoint()
    for version in range(table.version() + 1):
        (world.lake / "_delta_log" / f"{version:020d}.json").unlink()
    assert world.finding("table.txns").found == "every source has its Txn"


def test_a_source_without_rows_is_new_in_a_table_of_others(
    world: DoctorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.beside = {"new": {**json.loads(world.config_file.read_text())["pipelines"]["orders"]["sources"]["shop"]}}
    world.beside["new"]["uri"] = str(world.folder / "elsewhere")
    (world.folder / "elsewhere").mkdir()
    (world.folder / "elsewhere" / "n.ndjson").write_text('{"id": "n"}\n')
    found = world.finding("table.txns")
    assert (found.verdict, found.found) == (Verdict.OK, "1 sources have no Txn, and no rows of them were found")
    (plan,) = asked(world, capsys, "plan", "--source", "new", code=0)
    assert [(each["is_new"], each["problem"]) for each in plan["sources"]] == [(True, None)]
    (report,) = asked(world, capsys, "audit", "--source", "new", code=0)
    assert (report["verdict"], report["notices"]) == ("good", [])


def test_a_source_of_topics_needs_its_txn_as_well(world: DoctorWorld) -> None:
    kafka = {"bootstrap_servers": "127.0.0.1:1", "topics": ["t"]}
    world.beside = {"clicks": {"kafka": kafka, "schema": "id STRING NOT NULL, amount BIGINT"}}

    def txns() -> Finding:
        pipelines = [*world.config().pipelines.values()]
        table = ExaminedTable(pipelines[0].table_uri, world.store, pipelines, time.time, S3Settings())
        (found,) = (each.finding for each in examine("t", table, CHECKS, lambda *_: None) if each.id == "table.txns")
        return found

    assert txns().verdict is Verdict.OK
    rows = world.table().to_pyarrow_table()
    theirs = [{**row, "_source": {**row["_source"], "source": "orders:clicks"}} for row in rows.to_pylist()]
    write_deltalake(world.table(), pa.Table.from_pylist(theirs, rows.schema), mode="append")
    assert (txns().verdict, "rows of orders:clicks, and no Txn" in txns().found) == (Verdict.PROBLEM, True)


def test_a_table_without_rows_of_the_source_has_lost_no_txn(world: DoctorWorld) -> None:
    become_table_of(world.lake, world.table().to_pyarrow_table().slice(0, 0))
    (world.lake / IDENTITY.copy_key).unlink()
    assert world.finding("table.txns").verdict is Verdict.OK
    assert "txn_lost" not in kinds(world.audit())


def holds(folder: Path, source_id: str) -> bool:
    files = active_files(str(folder), 0, S3Settings())
    assert files.problem is None
    return holds_rows(LocalStore(folder), files, source_id)


def test_rows_are_looked_at_where_statistics_do_not_tell(tmp_path: Path) -> None:
    """The bounds of the data file enclose the names of sources that it has no row of."""
    rows = [{"_source": {"source": name}} for name in ("p:a", "p:m", None, "p:z")]
    write_deltalake(str(tmp_path), pa.Table.from_pylist(rows))
    assert {name: holds(tmp_path, name) for name in ("p:a", "p:b", "p:m", "p:z", "q:a")} == {
        "p:a": True,
        "p:b": False,
        "p:m": True,
        "p:z": True,
        "q:a": False,
    }
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    assert not holds(tmp_path, "p:m")


def test_rows_that_a_deletion_vector_deletes_are_not_there(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.Table.from_pylist([{"_source": {"source": "p:a"}}] * 2))
    files = active_files(str(tmp_path), 0, S3Settings())
    (path,) = (file.path for file in files.files)
    for deleted, held in (([1], True), ([0, 1], False)):
        assert holds_rows(LocalStore(tmp_path), replace(files, deleted={path: deleted}), "p:a") is held


def test_the_only_source_of_a_data_file_needs_no_look_at_its_rows(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.Table.from_pylist([{"_source": {"source": "p:a"}}]))
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    assert holds(tmp_path, "p:a")


def without_source_column(folder: Path, files: int = 3) -> None:
    for _ in range(files):
        write_deltalake(str(folder), pa.table({"id": ["a", "b"], "amount": [1, 2]}), mode="append")


def test_data_files_of_a_table_without_the_column_are_not_read(tmp_path: Path) -> None:
    without_source_column(tmp_path)
    active = active_files(str(tmp_path), 2, S3Settings())
    store = CountedStore(tmp_path)
    assert (len(active.files), active.problem, holds_rows(store, active, "p:a"), store.read) == (3, None, False, [])


def test_rows_of_a_table_without_the_column_are_still_nobodys(tmp_path: Path) -> None:
    made = DoctorWorld(tmp_path)
    without_source_column(made.lake)
    assert [(each.source, each.rows) for each in made.audit().others] == [(None, 6)]
    made.table().delete("id = 'a'")
    assert [(each.source, each.rows) for each in made.audit().others] == [(None, 3)]


@pytest.mark.parametrize(("at", "held"), [(9, True), (7, True), (6, False), (0, False)])
def test_so_many_data_files_are_read_and_no_more_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, *, held: bool
) -> None:
    """Of files that have no statistics."""
    monkeypatch.setattr(lost_txn, "MAX_FILES_READ", 3)
    table = AddedRows(tmp_path)
    paths = [table.add(Row("p:a" if number == at else "p:b"), stats="rows") for number in range(10)]
    table.table()
    store = CountedStore(tmp_path)
    assert holds_rows(store, active_files(str(tmp_path), 0, S3Settings()), "p:a") is held
    assert (store.keys == {*paths[-3:]}) or (held and store.keys < {*paths[-3:]})


def test_data_files_are_read_at_the_same_time(tmp_path: Path) -> None:
    table, both = AddedRows(tmp_path), threading.Barrier(2)
    for _ in range(2):
        table.add(Row("p:b"), stats="rows")
    table.table()

    class Meeting(CountedStore):
        def get_range(self, key: str, start: int, size: int) -> bytes:
            if key not in self.keys:
                both.wait(timeout=60)
            return super().get_range(key, start, size)

    assert not holds_rows(Meeting(tmp_path), active_files(str(tmp_path), 0, S3Settings()), "p:a")
