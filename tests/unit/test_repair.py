"""Files and records that are read once more: exactly once, whatever happens in between."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from blizzard.state.batch import OnOverwrite
from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.settled_letters import SettledLetters
from spark_job.repair.judge import Judge
from spark_job.repair.work import Fate, Item, Kind
from tests.unit import fakes
from tests.unit.fakes import POISON, REFUSED, Crash, Row, World, crash


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


def held(world: World, item: Item) -> str:
    commits = len(world.delta.commits)
    work, repair = world.repair(item)
    repair.run()
    [result] = work.results
    assert (result.fate, len(world.delta.commits)) == (Fate.HELD, commits)
    return result.reason or ""


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
