"""Files and records that are read once more: exactly once, whatever happens in between."""

from collections.abc import Callable, Sequence

import pytest

from blizzard.state.batch import OnOverwrite
from spark_job.repair.work import Fate, Item, Kind
from tests.unit import fakes
from tests.unit.fakes import POISON, REFUSED, Crash, World, crash
from tests.unit.repair_world import (
    accepting,
    entry_of,
    item_of,
    open_letters,
    readable_now,
    repaired,
    rows_of,
    with_refused_file,
    with_refused_records,
)


def test_a_file_that_was_refused_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    item = with_refused_file(world)
    assert repaired(world, item) == [(Fate.REFUSED, 0)]
    assert open_letters(world) == [("a.txt", None)]
    readable_now(monkeypatch)
    work, repair = world.repair(item)
    repair.run()
    [result] = work.results
    assert (result.fate, result.rows, result.sequence, result.version) == (
        Fate.DONE,
        1,
        1,
        len(world.delta.commits) - 1,
    )
    assert rows_of(world, "a.txt") == [(0, POISON.decode())]
    assert open_letters(world) == []
    assert entry_of(world, "a.txt") == (1, 0, True)
    assert repaired(world, item) == [(Fate.IN_ALREADY, 0)]
    assert rows_of(world, "a.txt") == [(0, POISON.decode())]


def test_records_that_were_refused_are_put_back_with_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with_refused_records(world)
    item = item_of(world, "a.txt", Kind.RECORDS, records=(1, 3))
    assert repaired(world, item) == [(Fate.REFUSED, 0)]
    accepting(monkeypatch, f"{REFUSED} four")
    work, repair = world.repair(item)
    repair.run()
    [result] = work.results
    assert (result.fate, result.rows, result.settled, [*result.refused]) == (Fate.REFUSED, 1, (1,), [3])
    assert rows_of(world, "a.txt") == [(0, "one"), (1, f"{REFUSED} two"), (2, "three")]
    assert open_letters(world) == [("a.txt", 3)]
    assert entry_of(world, "a.txt") == (3, 1, True)
    accepting(monkeypatch)
    assert repaired(world, item) == [(Fate.DONE, 1)]
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 1, 2, 3]
    assert open_letters(world) == []
    assert entry_of(world, "a.txt") == (4, 0, True)
    world.settle()
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 1, 2, 3]


def test_given_records_take_the_numbers_of_those_that_they_replace() -> None:
    world = World()
    with_refused_records(world)
    etag = item_of(world, "a.txt", Kind.FILE).etag
    world.source.delete(["a.txt"])
    item = Item(Kind.GIVEN, "a.txt", etag, (1, 3), {1: "two", 3: f"{REFUSED} still"})
    assert repaired(world, item) == [(Fate.REFUSED, 1)]
    assert rows_of(world, "a.txt") == [(0, "one"), (1, "two"), (2, "three")]
    assert {row.etag for row in world.delta.rows if row.path == "a.txt"} == {etag}
    assert open_letters(world) == [("a.txt", 3)]
    assert repaired(world, Item(Kind.GIVEN, "a.txt", etag, (1,), {1: "another"})) == [(Fate.IN_ALREADY, 0)]
    assert rows_of(world, "a.txt")[1] == (1, "two")


def test_replaced_files_are_all_in_one_commit_and_replace_all_their_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(fakes.settings(interval_files=1))
    with_refused_records(world)
    accepting(monkeypatch)
    commits = len(world.delta.commits)
    assert repaired(world, *(item_of(world, path, Kind.REPLACE) for path in ("a.txt", "b.txt"))) == [
        (Fate.DONE, 4),
        (Fate.DONE, 2),
    ]
    assert len(world.delta.commits) == commits + 1
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 1, 2, 3]
    assert len(rows_of(world, "b.txt")) == 2
    assert open_letters(world) == []
    assert [entry_of(world, path) for path in ("a.txt", "b.txt")] == [(4, 0, True), (2, 0, True)]


def test_if_one_file_cannot_be_read_none_is_replaced() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.put("b.txt", raw=POISON)
    before, commits = [*world.delta.rows], len(world.delta.commits)
    items = [item_of(world, path, Kind.REPLACE) for path in ("a.txt", "b.txt")]
    work, repair = world.repair(*items)
    repair.run()
    reasons = {result.item.path: (result.fate, result.reason or "") for result in work.results}
    assert reasons["b.txt"] == (Fate.REFUSED, "not a gzip file")
    assert reasons["a.txt"][0] is Fate.HELD
    assert "b.txt, which is of the same commit, cannot be read" in reasons["a.txt"][1]
    assert (world.delta.rows, len(world.delta.commits)) == (before, commits)
    assert open_letters(world) == []


def test_a_repair_that_never_commits_leaves_every_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other records are refused today than when the file was ingested."""
    place = 0
    while True:
        world = World()
        with monkeypatch.context() as patches:
            with_refused_records(world)
            accepting(patches, f"{REFUSED} two")
            place += 1
            world.calls.before(place, crash)
            try:
                world.repair(item_of(world, "a.txt", Kind.REPLACE))[1].run()
            except Crash:
                world.calls.forget()
                in_table = {row for row, _ in rows_of(world, "a.txt")}
                letters = {row for path, row in open_letters(world) if path == "a.txt"}
                assert {1, 3} <= in_table | letters, f"died at call {place}"
            else:
                assert place > 10
                assert [row for row, _ in rows_of(world, "a.txt")] == [0, 2, 3]
                assert open_letters(world) == [("a.txt", 1)]
                return


def test_what_was_overwritten_by_a_file_that_cannot_be_read_is_replaced_by_the_next_content() -> None:
    """Even if both were overwritten in the same batch."""
    world = World(fakes.settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt", "old a")
    world.arrive("b.txt", "old b")
    world.drain()
    world.deliver(world.put("a.txt", raw=POISON), world.put("b.txt", "new b"))
    world.drain()
    assert (rows_of(world, "a.txt"), rows_of(world, "b.txt")) == ([(0, "old a")], [(0, "new b")])
    world.arrive("a.txt", "good a")
    world.drain()
    assert rows_of(world, "a.txt") == [(0, "good a")]


def test_a_race_is_won_once_and_the_loser_finds_that_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with_refused_records(world)
    accepting(monkeypatch)
    item = item_of(world, "a.txt", Kind.RECORDS, records=(1, 3))
    world.delta.before_commit = lambda: world.repair(item)[1].run()
    assert repaired(world, item) == [(Fate.IN_ALREADY, 0)]
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 1, 2, 3]


def test_a_job_that_commits_meanwhile_delays_a_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with_refused_records(world)
    accepting(monkeypatch)
    world.arrive("c.txt")
    world.delta.before_commit = world.drain
    assert repaired(world, item_of(world, "a.txt", Kind.RECORDS, records=(1, 3))) == [(Fate.DONE, 2)]
    assert len(rows_of(world, "c.txt")) == 2


def test_rows_with_new_fields_change_the_schema_first(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.arrive("a.txt", "one", f"{REFUSED} +new")
    world.drain()
    accepting(monkeypatch)
    assert repaired(world, item_of(world, "a.txt", Kind.RECORDS, records=(1,))) == [(Fate.DONE, 1)]
    assert open_letters(world) == []


Items = Callable[[World], Sequence[Item]]
WAYS: dict[str, Items] = {
    "records": lambda world: [item_of(world, "a.txt", Kind.RECORDS, records=(1, 3))],
    "given": lambda world: [item_of(world, "a.txt", Kind.GIVEN, records=(1, 3), given={1: "two", 3: "four"})],
    "replace": lambda world: [item_of(world, path, Kind.REPLACE) for path in ("a.txt", "b.txt")],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_repair_that_dies_between_any_two_calls_can_be_repeated(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever dies is followed by an ordinary job, and by the same repair."""
    place = 0
    while True:
        world = World()
        with monkeypatch.context() as patches:
            with_refused_records(world)
            accepting(patches)
            items = WAYS[way](world)
            place += 1
            world.calls.before(place, crash)
            try:
                world.repair(*items)[1].run()
            except Crash:
                pass
            else:
                assert place > 10
                return
            world.calls.forget()
            world.drain()
            repaired(world, *items)
            assert [row for row, _ in rows_of(world, "a.txt")] == [0, 1, 2, 3], f"died at call {place}"
            assert len(rows_of(world, "b.txt")) == 2
            assert open_letters(world) == [], f"died at call {place}"
            assert entry_of(world, "a.txt") == (4, 0, True)
            world.settle()
            assert len(world.delta.rows) == 6


def test_lost_receipts_do_not_double_what_was_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with_refused_records(world)
    accepting(monkeypatch)
    item = item_of(world, "a.txt", Kind.RECORDS, records=(1,))
    assert repaired(world, item) == [(Fate.DONE, 1)]
    for folder in ("receipts", "ledger", "settled_letters"):
        world.state.delete([info.key for info in world.state.list(f"{world.identity.state_prefix}/{folder}/")])
    assert repaired(world, item) == [(Fate.IN_ALREADY, 0)]
    assert [row for row, _ in rows_of(world, "a.txt")] == [0, 1, 2]
