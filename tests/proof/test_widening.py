"""A column that gets wider: what the campaigns say of a wrong type, a wrong step and a wrong history."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from blizzard.state.schema_changes import ChangeRecords, FieldChange, SchemaChange
from tests.proof import widening
from tests.proof.places import LocalPlace, log_of, prefix_of
from tests.proof.race.widenings import LOST_TO_OTHERS, LOST_TO_THE_SAME, Widenings

SOURCE = "events:landing"
RECORDS = {SOURCE: {("a", 0): {"id": "1", "w": 123}, ("b", 0): {"id": "2", "w": -12345}, ("c", 1): {"w": 10**6}}}


def table_of(folder: Path, *digits: int, others: Mapping[int, str] = {}) -> LocalPlace:
    """A log of one commit for each type. `others`: the operations of versions that somebody else made."""
    place = LocalPlace(folder)
    log = folder / "table" / "_delta_log"
    log.mkdir(parents=True)
    for version, wide in enumerate(digits):
        fields = [{"name": "w", "type": f"decimal({wide},0)", "nullable": True, "metadata": {}}]
        metadata = {"id": "t", "schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}}
        info: dict[str, Any] = {"operation": others.get(version, "WRITE"), "timestamp": version}
        txn = {"appId": f"blizzard:{SOURCE}", "version": version}
        if version not in others:
            info["userMetadata"] = json.dumps({"sequence": version})
        actions = [{"commitInfo": info}, {"metaData": metadata}, *([] if version in others else [{"txn": txn}])]
        (log / f"{version:020}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return place


def bring(place: LocalPlace, sequence: int, was: int, now: int, file: str, record: int) -> None:
    """The record of a widening that has landed."""
    change = FieldChange("w", f"decimal({now},0)", f"decimal({was},0)", 1, file, record)
    records = ChangeRecords(place.table(), prefix_of(SOURCE), SOURCE)
    given = {"sequence": sequence, "attempt": "x", "after_version": sequence - 1, "previous": None, "now_ts": 1.0}
    name = records.put(SchemaChange((change,)), **given).name
    records.confirm(name, lambda _: sequence)


def complaints(place: LocalPlace, **more: Any) -> list[str]:
    return [*widening.complaints(place, log_of(place.table()), RECORDS, **more)]


def widened_table(folder: Path) -> LocalPlace:
    """As it has to be."""
    place = table_of(folder, 3, 5, 7)
    bring(place, 1, 3, 5, "b", 0)
    bring(place, 2, 5, 7, "c", 1)
    return place


def test_a_table_whose_column_is_as_wide_as_its_records_need_has_no_complaints(tmp_path: Path) -> None:
    place = widened_table(tmp_path)
    assert complaints(place) == []
    assert [step.is_widening for step in widening.steps(log_of(place.table()))] == [False, True, True]


@pytest.mark.parametrize(
    ("digits", "others", "wrong"),
    [
        ((3, 5), {}, "expected a type of 7 digits, the widest that records need, found 5"),
        ((3, 5, 8), {}, "expected a type of 7 digits, the widest that records need, found 8"),
        ((3, 7, 5), {}, f"{widening.NARROWED}: version 2 changed column w from 7 to 5 digits"),
        ((3, 5, 7), {2: "CHANGE COLUMN"}, "version 2: CHANGE COLUMN of somebody else changed column w from 5 to 7"),
        ((3, 5, 7), {}, "version 1: the history says that record None of None brought it: {}"),
    ],
)
def test_a_wrong_step_is_named(tmp_path: Path, digits: Sequence[int], others: Mapping[int, str], wrong: str) -> None:
    assert any(wrong in found for found in complaints(table_of(tmp_path, *digits, others=others)))


def test_the_record_that_brought_a_type_has_to_need_it(tmp_path: Path) -> None:
    place = table_of(tmp_path, 3, 7)
    bring(place, 1, 3, 7, "a", 0)
    (wrong,) = complaints(place)
    assert wrong.startswith("version 1: the history says that record 0 of a brought it: {")
    assert complaints(place, overwritten={"a"}) == []


def test_a_longer_number_that_was_overwritten_explains_a_wider_type(tmp_path: Path) -> None:
    place = table_of(tmp_path, 3, 9)
    bring(place, 1, 3, 9, "c", 1)
    assert complaints(place, landed_digits=9) == []
    assert len(complaints(place, landed_digits=8)) == 1


def test_a_restored_table_may_be_narrower_and_is_widened_again(tmp_path: Path) -> None:
    place = table_of(tmp_path, 3, 7, 3, 7, others={2: "RESTORE"})
    bring(place, 1, 3, 7, "c", 1)
    bring(place, 3, 3, 7, "c", 1)
    assert complaints(place) == []


def test_a_number_beside_its_column_is_a_fault_and_a_text_is_not() -> None:
    text, number = {"_rescued": '{"w":"no number"}'}, {"_rescued": '{"w":12345,"f1":1}'}
    assert widening.kept_beside([text, {"w": 1, "_rescued": None}, {}]) is None
    assert widening.kept_beside([text, number]) == f"{widening.KEPT_BESIDE}: 1, such as [12345]"
    found = [widening.value_in(row) for row in (text, number, {"w": Decimal("12")}, {"w": None}, {"w": "no number"})]
    assert found == ["no number", 12345, 12, None, "no number"]


def test_records_have_numbers_of_all_lengths_up_to_the_longest_and_some_have_texts() -> None:
    rng = Random(1)
    records = [widening.record(6, rng, id="x") for _ in range(500)]
    assert {widening.digits_of(values) for values in records} == {0, 1, 2, 3, 4, 5, 6}
    assert 0 < widening.texts_in(records) < 100
    assert widening.most_digits(widening.record(99, rng) for _ in range(50)) == widening.MOST_DIGITS


def test_a_widening_that_lost_is_told_from_one_that_was_tried_again() -> None:
    lost, raced = {"source": SOURCE, "sequence": 4}, Widenings()
    widened = [{"event": "batch_committed", **lost}, {"event": "schema_changed", "widened": 1, **lost}]
    raced.note([{"event": "batch_read", "files": 0}, *widened])
    raced.note([{"event": "batch_read", "files": 0}, {"event": "race_lost", **lost}])
    raced.note([{"event": "batch_read", "files": 3}, {"event": "race_lost", **lost}])  # it was not to change the schema
    assert raced.counts() == {LOST_TO_THE_SAME: 1}
    alone = Widenings()
    alone.note([{"event": "batch_read", "files": 0}, {"event": "race_lost", **lost}, *widened])
    assert alone.counts() == {LOST_TO_OTHERS: 1}
