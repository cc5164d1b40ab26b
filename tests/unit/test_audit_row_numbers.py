"""Rows of which the number is right and some are others: an audit compares their numbers, not only their count."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from blizzard.audit.report import AuditReport, Verdict
from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld, assert_well, kinds, paths

CLEAN, DIRTY = "a/1.ndjson.gz", "b/2.ndjson.gz"


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    """A file of four rows, and in a later commit one of three rows and three refused records: 1, 2 and 4."""
    made = OperatorWorld(tmp_path)
    made.land(CLEAN, "a0", "a1", "a2", "a3")
    made.run()
    made.land(DIRTY, "b0", None, None, "b3", None, "b5")
    made.run()
    assert_well(made)
    return made


def forge(world: OperatorWorld, path: str, row: int | None, **source: object) -> None:
    """A row of a file that no commit of Blizzard brought."""
    rows = world.table().to_pyarrow_table()
    (copied, *_) = (each for each in rows.to_pylist() if each["_source"]["file"] == path)
    copied["_source"] |= {"row": row, **source}
    write_deltalake(world.table(), pa.Table.from_pylist([copied], rows.schema), mode="append")


def assert_exchanged(report: AuditReport, path: str) -> None:
    assert (report.verdict, report.rows.expected, report.rows.found) == (Verdict.BAD, 7, 7)
    assert (paths(report, "rows_added"), paths(report, "rows_deleted")) == ([path], [path])
    assert paths(report, "doubled") == []


@pytest.mark.parametrize("forged", [4, 77, -3, None])
def test_a_row_deleted_and_one_forged_do_not_make_up_for_each_other(world: OperatorWorld, forged: int | None) -> None:
    world.table().delete("id = 'a1'")
    forge(world, CLEAN, forged)
    assert_exchanged(world.audit(), CLEAN)


@pytest.mark.parametrize("forged", [1, 4, 6, 77])
def test_nor_if_the_file_has_dead_letters(world: OperatorWorld, forged: int) -> None:
    """1 and 4 are numbers of refused records."""
    world.table().delete("id = 'b5'")
    forge(world, DIRTY, forged)
    assert_exchanged(world.audit(), DIRTY)


def test_nor_if_they_are_in_one_data_file(world: OperatorWorld) -> None:
    world.table().delete("id = 'a3' or id = 'b0'")
    forge(world, CLEAN, 9)
    forge(world, DIRTY, 2)
    world.table().optimize.compact()
    report = world.audit()
    assert (paths(report, "rows_added"), paths(report, "rows_deleted")) == ([CLEAN, DIRTY], [CLEAN, DIRTY])


@pytest.mark.parametrize("numbers", [{0: 4}, {0: 9}, {1: 7}, {0: 1, 1: 2, 2: 3, 3: 4}])
def test_nor_if_they_are_neighbours_in_order(world: OperatorWorld, numbers: dict[int, int]) -> None:
    """As a program leaves them that reads all rows, changes their numbers, and writes them in order."""
    rows = world.table().to_pyarrow_table()
    changed = rows.to_pylist()
    for row in changed:
        if row["_source"]["file"] == CLEAN:
            row["_source"]["row"] = numbers.get(row["_source"]["row"], row["_source"]["row"])
    changed.sort(key=lambda row: (row["_source"]["file"], row["_source"]["row"]))
    write_deltalake(world.table(), pa.Table.from_pylist(changed, rows.schema), mode="overwrite")
    assert_exchanged(world.audit(), CLEAN)


def test_rows_deleted_before_the_log_and_before_others_were_put_back_are_explained(world: OperatorWorld) -> None:
    """Only rows of the newest commit are left, which is in the log."""
    world.table().delete("id = 'b0' or id = 'b3' or id = 'b5'")
    file = world.folder / "repaired.ndjson"
    file.write_text(json.dumps({"path": DIRTY, "row": 1, "record": {"id": "given"}}))
    assert main(["replay", str(world.config_file), "--records", str(file)]) == 0
    world.table().create_checkpoint()
    for version in range(3):
        (world.lake / "_delta_log" / f"{version:020d}.json").unlink()
    report = world.audit()
    assert (report.verdict, report.rows.gone, report.rows.unexplained) == (Verdict.NOTES, 3, 0)
    assert "rows_gone_before_the_log" in kinds(report)


def test_a_record_that_was_put_back_may_have_its_number_and_no_other(world: OperatorWorld) -> None:
    file = world.folder / "repaired.ndjson"
    file.write_text(json.dumps({"path": DIRTY, "row": 1, "record": {"id": "given"}}))
    assert main(["replay", str(world.config_file), "--records", str(file)]) == 0
    assert_well(world)
    world.table().delete("id = 'given'")
    forge(world, DIRTY, 2)
    report = world.audit()
    assert (report.rows.expected, report.rows.found) == (8, 8)
    assert (paths(report, "rows_added"), paths(report, "rows_deleted")) == ([DIRTY], [DIRTY])


def test_a_forged_row_that_says_it_is_of_an_earlier_commit(world: OperatorWorld) -> None:
    """As those of a file that was read in slices; but its receipt says that its first commit had all of it."""
    forge(world, DIRTY, 6, sequence=0)
    report = world.audit()
    assert (report.verdict, paths(report, "rows_added")) == (Verdict.BAD, [DIRTY])


def test_a_forged_row_among_fewer_that_were_deleted_is_found_too(world: OperatorWorld) -> None:
    world.table().delete("id = 'a1' or id = 'a2'")
    forge(world, CLEAN, 50)
    report = world.audit()
    assert (report.verdict, paths(report, "rows_added"), paths(report, "rows_deleted")) == (
        Verdict.BAD,
        [CLEAN],
        [CLEAN],
    )


def test_rows_in_any_order_are_the_same_rows(world: OperatorWorld) -> None:
    """As OPTIMIZE leaves them."""
    rows = world.table().to_pyarrow_table()
    backwards = rows.take(pa.array([*reversed(range(rows.num_rows))]))
    write_deltalake(world.table(), backwards, mode="overwrite")
    assert_well(world)
    by_id = backwards.take(pc.sort_indices(pc.struct_field(backwards["_source"], "row")))
    write_deltalake(world.table(), by_id, mode="overwrite")
    assert_well(world)


def test_a_file_in_slices_of_which_receipts_are_lost_is_no_fault(tmp_path: Path) -> None:
    """What a slice had refused is then known from its letters alone."""
    world = OperatorWorld(tmp_path, {"checkpoint": {"interval_files": 3, "interval_bytes": 50, "interval_secs": 0}})
    world.land(CLEAN, *(None if number % 7 == 3 else f"{number}" for number in range(3_000)))
    world.run()
    assert_well(world)
    receipts = sorted((world.state / "receipts").iterdir())
    assert len(receipts) > 1
    receipts[0].unlink()
    report = world.audit()
    assert (kinds(report), report.rows.added, report.rows.deleted) == (["ledger_incomplete"], 0, 0)
    shutil.rmtree(world.state / "receipts")
    report = world.audit()
    assert (kinds(report), report.rows.added, report.rows.deleted) == (["ledger_incomplete"], 0, 0)


CSV = b"id,amount\n\n# a comment\na,1\n\n \nb,two\nc,3\n"


@pytest.mark.parametrize(
    ("settings", "data"),
    [
        ({"format": "csv", "csv": {"header": True, "comment": "#"}}, CSV),
        ({"format": "ndjson"}, b'\n{"id": "a"}\n\n{"amount": 2}\n  \n{"id": "c"}\n'),
        ({"format": "json"}, b'[{"id": "a"}, {"amount": 2}, {"id": "c"}]'),
        ({"format": "text", "schema": None}, b"a\n\nb\n"),
    ],
)
def test_records_of_each_format_are_numbered_without_holes(
    tmp_path: Path, settings: dict[str, object], data: bytes
) -> None:
    world = OperatorWorld(tmp_path, {"pattern": "**", "compression": "none", **settings})
    world.land_bytes("x/1", data)
    world.run()
    assert_well(world)
    assert world.audit().rows.found >= 2
