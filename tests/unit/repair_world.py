"""Worlds with files and records that were refused, and what a repair of them leaves."""

import pytest

from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.settled_letters import SettledLetters
from spark_job.repair.work import Fate, Item, Kind
from tests.unit.fakes import POISON, REFUSED, World


def rows_of(world: World, path: str) -> list[tuple[int, str]]:
    return sorted((row.row, row.value) for row in world.delta.rows if row.path == path)


def open_letters(world: World) -> list[tuple[str, int | None]]:
    settled = SettledLetters(world.state, world.identity.state_prefix).read()
    assert settled.unreadable == []
    letters = [letter for letter in world.dead_letters.letters() if settled.of(letter) is None]
    return sorted((letter["path"], letter.get("row")) for letter in letters)


def entry_of(world: World, path: str) -> tuple[int, int, bool]:
    copy = read_copy(world.state, world.identity)
    assert copy is not None
    found = world.ledger_keeper().find(copy, [path])[path]
    return found.rows, found.rejected, found.is_done


def repaired(world: World, *items: Item) -> list[tuple[Fate, int]]:
    work, repair = world.repair(*items)
    repair.run()
    assert work.left == []
    return [(result.fate, result.rows) for result in work.results]


def item_of(world: World, path: str, kind: Kind, **more: object) -> Item:
    info = world.source.head(path)
    return Item(kind, path, info.etag if info else "", **more)  # type: ignore[arg-type]


def with_refused_file(world: World) -> Item:
    world.deliver(world.put("a.txt", raw=POISON))
    world.arrive("b.txt")
    world.drain()
    assert open_letters(world) == [("a.txt", None)]
    return item_of(world, "a.txt", Kind.FILE)


def readable_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.memory_reader.POISON", b"nothing begins like this")


def with_refused_records(world: World) -> None:
    world.arrive("a.txt", "one", f"{REFUSED} two", "three", f"{REFUSED} four")
    world.arrive("b.txt")
    world.drain()
    assert rows_of(world, "a.txt") == [(0, "one"), (2, "three")]
    assert open_letters(world) == [("a.txt", 1), ("a.txt", 3)]


def accepting(monkeypatch: pytest.MonkeyPatch, value: str = "nothing is refused") -> None:
    monkeypatch.setattr("tests.unit.memory_reader.REFUSED", value)


def held(world: World, item: Item) -> str:
    commits = len(world.delta.commits)
    work, repair = world.repair(item)
    repair.run()
    [result] = work.results
    assert (result.fate, len(world.delta.commits)) == (Fate.HELD, commits)
    return result.reason or ""
