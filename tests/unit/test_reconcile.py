"""Reconciliation finds each kind of fault."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from infra.local.demo.audited import Beside
from infra.local.demo.reconcile import Reconciliation, read_source, reconcile

GOOD = ("a.gz", gzip.compress(b'{"id": "1"}\n\n{"id": "2"}\n'))
BROKEN = ("b.gz", gzip.compress(b'{"id": "3"}\nnonsense\n'))
CUT = ("c.gz", gzip.compress(b'{"id": "4"}\n')[:-3])
ROWS = [("1", "a.gz", 0), ("2", "a.gz", 1), ("3", "b.gz", 0)]
LETTERS: list[Mapping[str, Any]] = [
    {"path": "b.gz", "row": 1, "stage": "parse", "error": "not JSON"},
    {"path": "c.gz", "stage": "decompress", "error": "truncated"},
]


def reconciled(
    tmp_path: Path, rows: list[tuple[str, str, int]], letters: list[Mapping[str, Any]] = LETTERS
) -> Reconciliation:
    sources = [{"file": file, "row": row} for _, file, row in rows]
    write_deltalake(str(tmp_path / "table"), pa.table({"id": [name for name, _, _ in rows], "_source": sources}))
    return reconcile(read_source([GOOD, BROKEN, CUT], "id"), str(tmp_path / "table"), {}, letters)


def test_complete_rows_are_good(tmp_path: Path) -> None:
    found = reconciled(tmp_path, ROWS)
    assert found.good
    assert (found.files, found.rows_in, found.rows_out) == (3, 3, 3)


def test_a_record_without_a_row_is_missing(tmp_path: Path) -> None:
    found = reconciled(tmp_path, ROWS[:-1])
    assert not found.good
    assert found.missing == [("b.gz", 0)]


def test_a_record_with_two_rows_is_doubled(tmp_path: Path) -> None:
    found = reconciled(tmp_path, [*ROWS, ROWS[0]])
    assert not found.good
    assert found.doubled == [("a.gz", 0)]


def test_a_record_with_other_values_is_changed(tmp_path: Path) -> None:
    found = reconciled(tmp_path, [("9", "a.gz", 0), *ROWS[1:]])
    assert not found.good
    assert found.changed == [("a.gz", 0)]


def test_a_value_that_no_column_could_hold_is_looked_for_among_the_rescued(tmp_path: Path) -> None:
    body = gzip.compress(b'{"id": "1", "value": "n/a", "unit": null}\n')
    columns = {"id": ["1"], "value": pa.array([None], pa.float64()), "_source": [{"file": "a.gz", "row": 0}]}
    for rescued, changed in (('{"value": "n/a"}', []), ('{"value": "0"}', [("a.gz", 0)]), (None, [("a.gz", 0)])):
        table = pa.table({**columns, "_rescued": pa.array([rescued], pa.string())})
        write_deltalake(str(tmp_path / "table"), table, mode="overwrite")
        assert reconcile(read_source([("a.gz", body)], "id"), str(tmp_path / "table"), {}, []).changed == changed


def test_a_row_without_a_record_is_unexpected(tmp_path: Path) -> None:
    found = reconciled(tmp_path, [*ROWS, ("4", "c.gz", 0)])
    assert not found.good
    assert found.unexpected == [("c.gz", 0)]


def test_bad_input_without_a_dead_letter_is_silent(tmp_path: Path) -> None:
    found = reconciled(tmp_path, ROWS, LETTERS[:1])
    assert not found.good
    assert found.silent == ["c.gz"]
    assert reconciled_without_letters(tmp_path).silent == ["b.gz#1", "c.gz"]


def reconciled_without_letters(tmp_path: Path) -> Reconciliation:
    return reconcile(read_source([GOOD, BROKEN, CUT], "id"), str(tmp_path / "table"), {}, [])


def audited(**wrong: object) -> dict[str, object]:
    """What `blizzard audit` says of ROWS and LETTERS."""
    sums = {"objects": 3, "dead_lettered": 1, "missing": 0, "doubled": 0, "rows": {"found": 3}}
    return {**sums, "verdict": "good", "notices": [], **wrong}


def test_an_audit_with_the_same_numbers_agrees(tmp_path: Path) -> None:
    beside = Beside(reconciled(tmp_path, ROWS), audited())
    assert beside.agree
    assert f"{'rows in the table':<20} {3:>10} {3:>15}" in [*beside.lines()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"objects": 4},
        {"dead_lettered": 0},
        {"missing": 1},
        {"doubled": 1},
        {"rows": {"found": 4}},
        {"verdict": "bad"},
    ],
    ids=str,
)
def test_an_audit_with_another_number_does_not_agree(tmp_path: Path, wrong: dict[str, object]) -> None:
    assert not Beside(reconciled(tmp_path, ROWS), audited(**wrong)).agree


def test_an_audit_that_finds_nothing_wrong_with_a_file_that_is_missing_does_not_agree(tmp_path: Path) -> None:
    own = reconciled(tmp_path, ROWS[2:])
    assert own.missing_files == ["a.gz"]
    assert not Beside(own, audited(rows={"found": 1})).agree
    assert not Beside(own, audited(rows={"found": 1}, verdict="bad")).agree
    assert Beside(own, audited(rows={"found": 1}, verdict="bad", missing=1)).agree


def test_the_text_names_each_fault_and_each_dead_letter(tmp_path: Path) -> None:
    text = "\n".join(reconciled(tmp_path, ROWS[:-1]).lines())
    assert "missing      1  [('b.gz', 0)]" in text
    assert "b.gz record 1: parse: not JSON" in text
