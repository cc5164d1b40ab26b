"""After a rebuild of a table that was copied without its log nobody knows how many rows each file had.

An audit says so, and still finds rows that are gone between others.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.audit import tally
from blizzard.cli import main
from tests.unit.rebuild_lake import RebuildLake

CLEAN, DIRTY, OTHER = "a.ndjson", "b.ndjson", "c.ndjson"
REFUSED = (1, 4)
"""Records of the second file."""


@pytest.fixture
def lake(tmp_path: Path) -> RebuildLake:
    """A file of four rows, one of six records, two of them refused, and one of two rows."""
    made = RebuildLake(tmp_path)
    made.land(CLEAN, 4)
    made.land(DIRTY, 6)
    file = tmp_path / "incoming" / DIRTY
    lines = file.read_text().splitlines()
    file.write_text("".join(("{" if number in REFUSED else line) + "\n" for number, line in enumerate(lines)))
    made.land(OTHER, 2)
    assert made.run() == 0
    return made


def rebuilt(lake: RebuildLake, *lost: tuple[str, int]) -> RebuildLake:
    """The table was copied without these rows, which are given by file and number, and without its log."""
    write_without(lake, *lost)
    lake.copy_rows()
    assert lake.process().rebuild_states([*lake.config().sources()]) == 0
    return lake


def write_without(lake: RebuildLake, *lost: tuple[str, int]) -> None:
    table = DeltaTable(str(lake.folder / "lake"))
    rows = table.to_pyarrow_table()
    kept = [(source["file"], source["row"]) not in lost for source in rows["_source"].to_pylist()]
    write_deltalake(table, rows.filter(pa.array(kept)), mode="overwrite")


@pytest.fixture
def audit(lake: RebuildLake, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """The JSON answer; `code` has its exit code."""

    def ask(*options: str) -> dict[str, Any]:
        capsys.readouterr()
        code = main(["audit", "--json", str(lake.file), *options])
        (report,) = json.loads(capsys.readouterr().out)
        return {**report, "code": code, "kinds": [notice["kind"] for notice in report["notices"]]}

    return ask


def deleted(report: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(each["path"], each["rows_expected"], each["rows_found"]) for each in report["names"]["rows_deleted"]]


def test_that_rows_are_not_counted_is_worth_a_look(lake: RebuildLake, audit: Callable[..., dict[str, Any]]) -> None:
    rebuilt(lake)
    report = audit()
    assert (report["code"], report["verdict"], report["kinds"]) == (0, "notes", ["rows_uncounted"])
    assert f"of 3 files nobody but the table's rows knows how many records they have: {CLEAN}, {DIRTY}" in str(report)
    assert (report["rows"]["expected"], report["rows"]["found"]) == (10, 10)
    sampled = audit("--sample", "9")
    assert (sampled["code"], sampled["kinds"], sampled["sample"]["differ"]) == (0, ["rows_uncounted"], [])


def test_only_files_of_before_the_rebuild_are_uncounted(
    lake: RebuildLake, audit: Callable[..., dict[str, Any]]
) -> None:
    rebuilt(lake)
    lake.land("d.ndjson")
    assert lake.run() == 0
    assert "of 3 files" in str(audit()["notices"])


@pytest.mark.parametrize(
    ("lost", "found"),
    [
        ([(CLEAN, 0)], [(CLEAN, 4, 3)]),
        ([(CLEAN, 1), (CLEAN, 2)], [(CLEAN, 4, 2)]),
        ([(DIRTY, 2)], [(DIRTY, 4, 3)]),
        ([(DIRTY, 0), (OTHER, 0)], [(DIRTY, 4, 3), (OTHER, 2, 1)]),
    ],
)
def test_rows_that_are_gone_between_others_are_found(
    lake: RebuildLake,
    lost: list[tuple[str, int]],
    found: list[tuple[str, int, int]],
    audit: Callable[..., dict[str, Any]],
) -> None:
    """The numbers of refused records have their letters. Nobody knows whether these rows were deleted on purpose, since
    the log begins later."""
    rebuilt(lake, *lost)
    report = audit()
    assert (report["code"], deleted(report)) == (0, found)
    assert (report["rows"]["gone"], report["rows"]["unexplained"]) == (len(lost), 0)
    assert report["kinds"] == ["rows_deleted", "rows_uncounted", "rows_gone_before_the_log"]
    assert f"{len(lost)} of {len(lost)} rows that are gone were so when the state was made anew" in str(report)
    assert report["names"]["rows_added"] == []


def test_without_the_letters_refused_records_are_holes_and_no_fault(
    lake: RebuildLake, audit: Callable[..., dict[str, Any]]
) -> None:
    shutil.rmtree(lake.folder / "lake" / "_blizzard")
    rebuilt(lake, (CLEAN, 1))
    report = audit()
    assert (report["code"], report["verdict"]) == (0, "notes")
    assert deleted(report) == [(CLEAN, 4, 3), (DIRTY, 6, 4)]
    write_without(lake, (CLEAN, 1), (CLEAN, 2))
    report = audit()
    assert (report["code"], report["rows"]["gone"], report["rows"]["unexplained"]) == (1, 4, 1)


@pytest.mark.parametrize(("lost", "found"), [([], []), ([(DIRTY, 2)], [(DIRTY, 5, 4)])])
def test_an_open_letter_of_a_record_that_is_a_row_hides_no_hole(
    lake: RebuildLake,
    lost: list[tuple[str, int]],
    found: list[tuple[str, int, int]],
    audit: Callable[..., dict[str, Any]],
) -> None:
    """As of a replay that was killed before it marked the letter."""
    give(lake, DIRTY, 1)
    for mark in (lake.folder / "lake" / "_blizzard" / "orders_shop" / "settled_letters").iterdir():
        mark.unlink()
    rebuilt(lake, *lost)
    report = audit()
    assert (deleted(report), report["rows"]["gone"]) == (found, len(lost))
    assert report["names"]["rows_added"] == []


def test_rows_that_have_gone_since_the_rebuild_are_found_wherever_they_were(
    lake: RebuildLake, audit: Callable[..., dict[str, Any]]
) -> None:
    rebuilt(lake)
    write_without(lake, (CLEAN, 3), (DIRTY, 5), (OTHER, 0), (OTHER, 1))
    report = audit()
    assert (report["code"], deleted(report)) == (1, [(CLEAN, 4, 3), (DIRTY, 4, 3), (OTHER, 2, 0)])
    assert (report["rows"]["gone"], report["rows"]["unexplained"]) == (4, 4)


def test_rows_that_somebody_has_deleted_since_are_no_fault(
    lake: RebuildLake, audit: Callable[..., dict[str, Any]]
) -> None:
    rebuilt(lake)
    DeltaTable(str(lake.folder / "lake")).delete(f"_source.file = '{CLEAN}' AND _source.row = 1")
    report = audit("--sample", "9")
    assert (report["code"], report["verdict"], deleted(report)) == (0, "notes", [(CLEAN, 4, 3)])
    assert [each["rows_missing"] for each in report["sample"]["differ"]] == [1]


@pytest.mark.parametrize("row", [1, 3])
def test_rows_that_somebody_has_deleted_are_no_fault_either_if_too_many_files_lack_some_to_name_this_one(
    row: int, lake: RebuildLake, audit: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilt(lake)
    DeltaTable(str(lake.folder / "lake")).delete(f"_source.file = '{CLEAN}' AND _source.row = {row}")
    monkeypatch.setattr(tally, "MAX_NAMES", 0)
    report = audit("--sample", "9")
    assert (report["code"], report["rows"]["gone"], deleted(report)) == (0, 1, [])
    assert [each["rows_missing"] for each in report["sample"]["differ"]] == [1]


@pytest.mark.parametrize("lost", [[(CLEAN, 3)], [(CLEAN, 2), (CLEAN, 3)], [(CLEAN, 3), (OTHER, 1)]])
def test_rows_that_were_gone_behind_the_last_one_are_found_by_the_sample(
    lake: RebuildLake, lost: list[tuple[str, int]], audit: Callable[..., dict[str, Any]]
) -> None:
    rebuilt(lake, *lost)
    assert (audit()["code"], audit()["verdict"]) == (0, "notes")
    report = audit("--sample", "9")
    assert (report["code"], report["verdict"]) == (1, "bad")
    assert sum(each["rows_missing"] for each in report["sample"]["differ"]) == len(lost)


def test_rows_that_are_missing_from_a_counted_file_may_have_been_deleted(
    lake: RebuildLake, audit: Callable[..., dict[str, Any]]
) -> None:
    DeltaTable(str(lake.folder / "lake")).delete(f"_source.file = '{CLEAN}' AND _source.row = 3")
    assert (audit("--sample", "9")["code"], audit()["kinds"]) == (0, ["rows_deleted"])


def test_doubled_rows_are_not_taken_for_ones_that_are_gone(
    lake: RebuildLake, audit: Callable[..., dict[str, Any]]
) -> None:
    rows = DeltaTable(str(lake.folder / "lake")).to_pyarrow_table()
    own = [source["file"] == DIRTY for source in rows["_source"].to_pylist()]
    write_deltalake(DeltaTable(str(lake.folder / "lake")), rows.filter(pa.array(own)), mode="append")
    rebuilt(lake)
    report = audit()
    assert (report["code"], [each["path"] for each in report["names"]["doubled"]]) == (1, [DIRTY])
    assert (deleted(report), report["names"]["rows_added"]) == ([], [])


def give(lake: RebuildLake, path: str, row: int) -> None:
    file = lake.folder / "repaired.ndjson"
    file.write_text(json.dumps({"path": path, "row": row, "record": {"id": "given"}}))
    assert main(["replay", str(lake.file), "--records", str(file)]) == 0
