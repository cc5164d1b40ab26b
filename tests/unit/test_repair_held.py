"""What an operator asks for and does not get, and why; nothing is lost or doubled by it."""

from dataclasses import replace

import pytest

from blizzard.state.batch import OnOverwrite
from spark_job.repair.judge import Judge
from spark_job.repair.work import Fate, Item, Kind
from tests.unit import fakes
from tests.unit.fakes import POISON, Row, World
from tests.unit.repair_world import (
    accepting,
    held,
    item_of,
    open_letters,
    readable_now,
    repaired,
    rows_of,
    with_refused_file,
    with_refused_records,
)


def test_what_cannot_be_read_once_more_is_held_with_its_reason() -> None:
    world = World()
    with_refused_records(world)
    records = item_of(world, "a.txt", Kind.RECORDS, records=(1,))
    assert "no commit of this table has the file" in held(world, Item(Kind.RECORDS, "c.txt", "e", (1,)))
    world.put("a.txt", "other")
    assert "the source has other content now" in held(world, records)
    world.source.delete(["a.txt"])
    assert "the source no longer has it: give the repaired records with --records" in held(world, records)
    assert "the source no longer has it" in held(world, Item(Kind.REPLACE, "a.txt"))
    assert "the source no longer has it" in held(world, Item(Kind.FILE, "a.txt", "other"))


def test_a_file_whose_records_are_numbered_otherwise_today_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with_refused_records(world)
    item = item_of(world, "a.txt", Kind.RECORDS, records=(1,))
    accepting(monkeypatch)
    monkeypatch.setattr("tests.unit.memory_reader._end_of_slice", lambda records, file: len(records) - 1)
    assert "it has 3 records as it is read today, and had 4" in held(world, item)


def test_rows_of_the_first_blizzard_are_not_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not name their file, so nothing could take them out."""
    world = World()
    world.arrive("new.txt")
    world.drain()
    world.put("old.txt", "a row of the table already")
    world.delta.rows_of_nobody = True
    whole = Judge.choose
    monkeypatch.setattr(
        Judge, "choose", lambda self, state, *more: whole(self, replace(state, before_ledger_ts=1.0), *more)
    )
    assert "rows from the first Blizzard" in held(world, item_of(world, "old.txt", Kind.REPLACE))
    assert "rows from the first Blizzard" in held(world, item_of(world, "old.txt", Kind.FILE))
    assert repaired(world, item_of(world, "new.txt", Kind.REPLACE)) == [(Fate.DONE, 2)]


def test_a_letter_without_etag_is_about_the_file_as_it_is_now() -> None:
    """It could not be opened, so nobody knew its content."""
    world = World()
    world.reader.denied = {"a.txt"}
    world.arrive("a.txt", "one")
    world.arrive("b.txt")
    world.arrive("c.txt")
    world.drain()
    assert open_letters(world) == [("a.txt", None)]
    world.reader.denied = set()
    assert repaired(world, Item(Kind.FILE, "a.txt")) == [(Fate.DONE, 1)]
    assert open_letters(world) == []
    assert rows_of(world, "a.txt") == [(0, "one")]
    assert repaired(world, Item(Kind.FILE, "a.txt")) == [(Fate.IN_ALREADY, 0)]


def test_the_letter_of_a_file_that_was_uploaded_again_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    item = with_refused_file(world)
    world.arrive("a.txt", "good")
    world.drain()
    assert repaired(world, item) == [(Fate.SUPERSEDED, 0)]
    assert open_letters(world) == []
    assert rows_of(world, "a.txt") == [(0, "good")]


def test_a_file_of_which_only_its_rows_are_known_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of it may be all that is in the table."""
    world = World()
    item = with_refused_file(world)
    etag = item.etag
    world.delta.commit([Row(world.identity.source_id, "a.txt", 0, etag, POISON.decode(), 1)], "other", 0, None)
    for folder in ("receipts", "ledger"):
        world.state.delete([info.key for info in world.state.list(f"{world.identity.state_prefix}/{folder}/")])
    readable_now(monkeypatch)
    assert repaired(world, item) == [(Fate.DONE, 1)]
    assert rows_of(world, "a.txt") == [(0, POISON.decode())]


def test_records_of_a_file_whose_receipts_are_lost_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with_refused_records(world)
    for folder in ("receipts", "ledger"):
        world.state.delete([info.key for info in world.state.list(f"{world.identity.state_prefix}/{folder}/")])
    accepting(monkeypatch)
    world.drain()
    work, repair = world.repair(item_of(world, "a.txt", Kind.RECORDS, records=(1,)))
    repair.run()
    [result] = work.results
    assert (result.fate, "nobody knows how many" in (result.reason or "")) == (Fate.HELD, True)
    assert open_letters(world) == [("a.txt", 1), ("a.txt", 3)]


def test_repaired_records_of_a_content_that_is_gone_are_held() -> None:
    world = World(fakes.settings(on_overwrite=OnOverwrite.REPLACE))
    with_refused_records(world)
    old = item_of(world, "a.txt", Kind.GIVEN, records=(1,), given={1: "two"})
    world.arrive("a.txt", "other")
    world.drain()
    assert "the table has other content of this file now" in held(world, old)
    assert repaired(world, replace(old, kind=Kind.RECORDS, given={})) == [(Fate.SUPERSEDED, 0)]


def test_a_file_in_progress_is_held() -> None:
    world = World(fakes.settings(interval_bytes=10))
    world.arrive("a.txt", *(f"record {number}" for number in range(5)))
    world.job().step(draining=True)
    for kind in Kind:
        item = item_of(world, "a.txt", kind, records=(0,), given={0: "x"})
        assert "it is larger than a batch and is being read" in held(world, item)
    world.drain()
    assert len(rows_of(world, "a.txt")) == 5


def test_an_overwritten_file_is_put_back_only_if_its_first_rows_may_go() -> None:
    wishes = {OnOverwrite.DEAD_LETTER: (Fate.HELD, 0), OnOverwrite.REPLACE: (Fate.DONE, 1)}
    for today, expected in wishes.items():
        world = World(fakes.settings(on_overwrite=OnOverwrite.DEAD_LETTER))
        world.arrive("a.txt", "old", "old")
        world.drain()
        world.arrive("a.txt", "new")
        world.drain()
        assert open_letters(world) == [("a.txt", None)]
        world.settings = fakes.settings(on_overwrite=today)
        assert repaired(world, item_of(world, "a.txt", Kind.FILE)) == [expected]
        new = [(0, "new")] if today is OnOverwrite.REPLACE else [(0, "old"), (1, "old")]
        assert rows_of(world, "a.txt") == new
