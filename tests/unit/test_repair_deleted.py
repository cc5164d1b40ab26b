"""Records that were put back, and whose rows somebody has deleted since: the same command again does not bring them
back, also if whoever put them back died before it could settle their letters."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from blizzard.cli import main
from blizzard.state.dead_letters import DeadLetter, Stage
from blizzard.state.stored_letters import LetterFilter
from spark_job.repair.wishes import GivenRecord, from_given, from_letters
from spark_job.repair.work import Fate, Item, Kind
from tests.unit.fakes import World
from tests.unit.operator_world import OperatorWorld
from tests.unit.repair_world import accepting, entry_of, held, open_letters, repaired, rows_of, with_refused_records

EVERY = LetterFilter(lambda path: True, frozenset(), None, 0.0, 1e12)


def given(world: World, *rows: int, path: str = "a.txt") -> Sequence[Item]:
    records = [GivenRecord(row, "", path, "", row, f"given {row}") for row in rows]
    return from_given(world.state, world.identity.state_prefix, world.identity.source_id, records, {}).items


def read_again(world: World) -> Sequence[Item]:
    return from_letters(world.state, world.identity.state_prefix, world.identity.source_id, EVERY).items


def delete_row(world: World, path: str, row: int) -> None:
    assert any((each.path, each.row) == (path, row) for each in world.delta.rows)
    world.delta.rows = [each for each in world.delta.rows if (each.path, each.row) != (path, row)]


def lose_marks(world: World) -> None:
    folder = f"{world.identity.state_prefix}/settled_letters/"
    keys = [info.key for info in world.state.list(folder)]
    assert keys
    world.state.delete(keys)


def test_a_given_record_that_was_deleted_does_not_come_back() -> None:
    world = World()
    with_refused_records(world)
    assert repaired(world, *given(world, 1)) == [(Fate.DONE, 1)]
    delete_row(world, "a.txt", 1)
    assert repaired(world, *given(world, 1)) == [(Fate.IN_ALREADY, 0)]
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 2]
    assert entry_of(world, "a.txt") == (3, 1, True)
    assert repaired(world, *given(world, 1, 3)) == [(Fate.DONE, 1)]
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 2, 3]
    assert entry_of(world, "a.txt") == (4, 0, True)


def test_nor_does_it_if_the_letter_looks_open_since_its_mark_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with_refused_records(world)
    assert repaired(world, *given(world, 1, 3)) == [(Fate.DONE, 2)]
    delete_row(world, "a.txt", 1)
    delete_row(world, "a.txt", 3)
    for items in (given, read_again):
        lose_marks(world)
        accepting(monkeypatch)
        assert len(open_letters(world)) == 2
        again = items(world, 1, 3) if items is given else read_again(world)
        assert repaired(world, *again) == [(Fate.IN_ALREADY, 0)]
        assert [row for row, _ in rows_of(world, "a.txt")] == [0, 2]
        assert open_letters(world) == []


def test_which_of_two_was_put_back_and_deleted_nobody_knows_without_a_mark() -> None:
    world = World()
    with_refused_records(world)
    assert repaired(world, *given(world, 1)) == [(Fate.DONE, 1)]
    delete_row(world, "a.txt", 1)
    lose_marks(world)
    [item] = given(world, 3)
    reason = held(world, item)
    assert "1 of the 2 records with open letters were put back by an earlier commit" in reason
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 2]


def test_a_row_that_is_there_explains_a_letter_without_its_mark() -> None:
    world = World()
    with_refused_records(world)
    assert repaired(world, *given(world, 1)) == [(Fate.DONE, 1)]
    lose_marks(world)
    assert repaired(world, *given(world, 3)) == [(Fate.DONE, 1)]
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 1, 2, 3]


def test_a_letter_that_no_count_has_and_no_repair_has_put_back_is_put_back() -> None:
    """The ledger may lack refused records of a file whose receipts are lost."""
    world = World()
    with_refused_records(world)
    [etag] = {row.etag for row in world.delta.rows if row.path == "b.txt"}
    letter = DeadLetter("b.txt", etag, Stage.PARSE, "odd", 7, "odd")
    world.dead_letters.write_records([letter], world.clock())
    assert repaired(world, *given(world, 7, path="b.txt")) == [(Fate.DONE, 1)]


def test_what_a_commit_has_settled_that_the_table_does_not_have_is_not_settled() -> None:
    """Of a table that was restored with its log."""
    item = Item(Kind.GIVEN, "a.txt", records=(1, 3, 5), settled={1: 7, 3: 8, 4: 1})
    assert item.settled_at(7) == {1}
    assert item.settled_at(8) == {1, 3}


def test_a_deleted_record_stays_deleted_and_the_audit_knows_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = OperatorWorld(tmp_path)
    world.land("a/1.ndjson.gz", "a", None, "c")
    world.run()
    file = tmp_path / "repaired.ndjson"
    file.write_text(json.dumps({"path": "a/1.ndjson.gz", "row": 1, "record": {"id": "given"}}))
    command = ["replay", str(world.config_file), "--records", str(file)]
    assert main(command) == 0
    world.table().delete("id = 'given'")
    assert main(command) == 0
    assert "1 files were in the table already" in capsys.readouterr().out
    assert world.table().to_pyarrow_table()["id"].to_pylist() == ["a", "c"]
    assert main(["audit", str(world.config_file), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["rows"]["expected"], report["rows"]["found"], report["rows"]["unexplained"]) == (3, 2, 0)
