"""`blizzard rebuild`: the state of a source from its table; nothing lost, nothing doubled, wherever it is killed."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from blizzard.errors import LostRace, RecoveryError, TableMoved
from blizzard.state.checkpoint_codec import BaseSettings
from spark_job.rebuild.parts import state_plan
from spark_job.rebuild.staged_store import StagedStore
from tests.unit.fakes import DAY_SECS, POISON, Crash, Days, Row, World, crash, settings
from tests.unit.rebuilds import lose_files, lose_txns, rebuild_of, rebuilt
from tests.unit.scenarios import large, lines

NAMES = ("a.txt", "b.txt", "c.txt")


def ingested(*names: str) -> World:
    world = World()
    for name in names or NAMES:
        world.arrive(name)
        world.drain()
    return world


def objects(world: World) -> dict[str, str]:
    return {info.key: info.etag for info in world.state.list()}


def check_complete(world: World, *names: str) -> None:
    world.settle()
    assert world.files() == lines(*names)
    assert world.doubled() == []


# Nothing is wrong


def test_nothing_is_written_if_nothing_is_wrong() -> None:
    world = ingested()
    before, version = objects(world), len(world.delta.commits)
    found = rebuilt(world)
    assert (found.is_well, found.files, found.checkpoint.sequence) == (True, 3, 2)
    assert (objects(world), len(world.delta.commits)) == (before, version)


def test_a_source_that_has_ingested_nothing_is_well() -> None:
    assert rebuilt(World()).is_well


# A table without its Txn


def test_the_files_of_a_table_without_its_txn_are_known_again() -> None:
    world = ingested()
    lose_txns(world)
    world.put("d.txt", "d.txt 0", "d.txt 1")
    with pytest.raises(RecoveryError, match="`blizzard rebuild` makes the Txn and the state anew"):
        world.drain()
    found = rebuilt(world)
    assert (found.problems, found.files, world.state_now().sequence) == (["txn_lost"], 3, 3)
    check_complete(world, *NAMES, "d.txt")


def test_files_that_a_copied_table_lacks_are_read_again_though_the_state_beside_it_has_them() -> None:
    """Also if a sweep has settled them."""
    world = ingested()
    world.settle()
    lose_txns(world)
    lose_files(world, "b.txt", "c.txt")
    assert rebuilt(world).without_rows == 2
    check_complete(world, *NAMES)


def test_what_sweeps_said_by_the_former_state_does_not_count() -> None:
    """Segments that still wait vouch for files that only the former state had."""
    world = ingested()
    world.clock.advance(10_000)
    world.sweep()
    world.late_sweep()
    lose_txns(world)
    lose_files(world, "b.txt")
    assert world.segments()
    rebuilt(world)
    assert world.segments() == []
    check_complete(world, *NAMES)


def test_files_without_rows_stay_settled_while_their_letters_are_there() -> None:
    world = ingested("a.txt", "b.txt")
    world.deliver(world.put("bad.txt", raw=POISON))
    world.drain()
    letters = {key for key in objects(world) if "dead_letters" in key}
    lose_txns(world)
    assert rebuilt(world).files == 3
    check_complete(world, "a.txt", "b.txt")
    assert {key for key in objects(world) if "dead_letters" in key} == letters
    assert "bad.txt" in world.ledger(world.state_now())


def test_files_without_rows_get_their_letters_again_if_these_are_lost() -> None:
    world = ingested("a.txt")
    world.deliver(world.put("bad.txt", raw=POISON))
    world.drain()
    lose_txns(world)
    world.state.delete([key for key in objects(world) if "dead_letters" in key])
    assert rebuilt(world).files == 1
    assert world.state_now().sequence == 2, "the copy was of sequence 1"
    check_complete(world, "a.txt")
    assert "bad.txt" in world.dead_files()


def test_all_state_may_be_lost_as_well() -> None:
    world = ingested()
    lose_txns(world)
    world.state.delete([*objects(world)])
    rebuilt(world)
    check_complete(world, *NAMES)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_file_of_which_the_table_has_a_part_is_continued(steps: int) -> None:
    world = World(settings(interval_bytes=100))
    content = large(world)
    job = world.job()
    for _ in range(steps):
        job.step(draining=True)
    lose_txns(world)
    rebuilt(world)
    world.settle()
    assert world.files() == {"large.txt": content}
    assert world.doubled() == []


def test_files_in_folders_older_than_the_window_are_announced_again() -> None:
    """The next sweep would take their folders for closed."""
    world = World(settings(window=Days(), lookback=2))
    old, today = (f"day={int(world.clock.now_ts // DAY_SECS) - days:04d}" for days in (50, 0))
    world.arrive(f"{old}/a.txt")
    world.arrive(f"{today}/b.txt")
    world.drain()
    world.put(f"{old}/c.txt", f"{old}/c.txt 0", f"{old}/c.txt 1")
    lose_txns(world)
    lose_files(world, f"{old}/a.txt")
    rebuilt(world)
    check_complete(world, f"{old}/a.txt", f"{old}/c.txt", f"{today}/b.txt")


def test_rows_that_name_no_source_are_refused() -> None:
    world = ingested()
    lose_txns(world)
    world.delta.rows_of_nobody = True
    before = objects(world)
    with pytest.raises(RecoveryError, match="rows that name no source"):
        rebuilt(world)
    assert objects(world) == before


def test_rows_of_a_source_that_is_not_configured_are_refused() -> None:
    world = ingested()
    lose_txns(world)
    world.delta.rows.append(Row("events:former", "x.txt", 0, "e", "x", 0))
    with pytest.raises(RecoveryError, match="events:former"):
        rebuilt(world)
    assert rebuild_of(world, "events:former").find().problems == ["txn_lost"]


def test_two_rebuilds_at_once_make_one_commit() -> None:
    world = ingested()
    lose_txns(world)
    one, other = rebuild_of(world), rebuild_of(world)
    found = one.find(), other.find()
    one.apply(found[0])
    before = objects(world)
    with pytest.raises(LostRace, match="start `blizzard rebuild` again"):
        other.apply(found[1])
    assert (objects(world), len(world.delta.commits)) == (before, 2)
    world.put("d.txt", "d.txt 0", "d.txt 1")
    check_complete(world, *NAMES, "d.txt")


def test_another_rebuild_that_commits_at_any_moment_makes_one_of_them_start_again() -> None:
    for call in range(1, 200):
        world = ingested()
        lose_txns(world)
        world.put("d.txt", "d.txt 0", "d.txt 1")
        rebuild = rebuild_of(world)
        found = rebuild.find()
        world.calls.before(call, lambda world=world: rebuilt(world))  # type: ignore[misc]
        count = world.calls.count
        try:
            rebuild.apply(found)
        except LostRace:
            pass
        else:
            if world.calls.count - count < call:
                world.calls.forget()
                break
        world.calls.forget()
        check_complete(world, *NAMES, "d.txt")
    else:
        pytest.fail("no end in sight")
    assert call > 5


# Killed, and repeated


def no_txn(world: World) -> None:
    lose_txns(world)
    lose_files(world, "b.txt")


def no_state(world: World) -> None:
    for version in range(1, len(world.delta.commits)):
        world.delta.spoil(version)
    world.forget_copy()


def no_receipts(world: World) -> None:
    world.state.delete([key for key in objects(world) if "/receipts/" in key])


def no_copy(world: World) -> None:
    world.forget_copy()


@pytest.mark.parametrize("harm", [no_txn, no_state, no_receipts, no_copy])
def test_a_rebuild_that_is_killed_before_any_call_can_be_repeated(harm: Callable[[World], None]) -> None:
    for call in range(1, 400):
        world = ingested()
        world.settle()
        harm(world)
        world.put("d.txt", "d.txt 0", "d.txt 1")
        world.calls.before(call, crash)
        try:
            rebuilt(world)
        except Crash:
            assert not rebuilt(world).problems or rebuilt(world).is_well
            check_complete(world, *NAMES, "d.txt")
            continue
        world.calls.forget()
        assert rebuilt(world).is_well
        check_complete(world, *NAMES, "d.txt")
        break
    else:
        pytest.fail("no end in sight")
    assert call > 5


# What recovery repairs, too


@pytest.mark.parametrize(
    ("harm", "problems"),
    [(no_state, ["checkpoint_unreadable"]), (no_receipts, ["ledger_incomplete"]), (no_copy, ["copy_lost"])],
)
def test_what_is_lost_is_found_and_repaired_at_once(harm: Callable[[World], None], problems: list[str]) -> None:
    world = ingested()
    harm(world)
    assert rebuilt(world).problems == problems
    assert rebuilt(world).is_well
    check_complete(world, *NAMES)


def test_a_damaged_run_of_the_ledger_is_found_though_nothing_looks_it_up() -> None:
    world = ingested()
    no_receipts(world)
    rebuilt(world)
    (run,) = (key for key in objects(world) if "/ledger/" in key)
    data = bytearray(world.state.get(run))
    data[10] ^= 255
    world.state.put(run, bytes(data))
    assert rebuilt(world).problems == ["ledger_incomplete"]
    assert rebuilt(world).is_well
    assert world.ledger(world.state_now()) == {*NAMES}


def test_the_copy_of_a_table_that_was_restored_is_removed() -> None:
    world = ingested()
    world.delta.commits = world.delta.commits[:2]
    lose_files(world, "b.txt", "c.txt")
    assert "table_behind" in rebuilt(world).problems
    check_complete(world, *NAMES)


def test_a_moved_table_is_refused() -> None:
    world = ingested()
    move(world, "s3://lake/new")
    with pytest.raises(TableMoved, match="s3://lake/new"):
        rebuilt(world)
    world.arrive("d.txt")
    with pytest.raises(TableMoved, match="change `table_uri` to s3://lake/new"):
        world.drain()
    assert world.files() == lines(*NAMES)


@pytest.mark.parametrize("harm", ["bases", "log", "copy"])
def test_a_moved_table_is_refused_whatever_else_is_lost(harm: str) -> None:
    world = World(settings(bases=BaseSettings(0, 3)))
    for name in NAMES:
        world.arrive(name)
        world.drain()
    world.sweep()
    world.arrive("d.txt")
    world.drain()
    move(world, "s3://lake/new")
    assert world.bases()
    if harm == "bases":
        world.state.delete(world.bases())
    elif harm == "log":
        world.delta.cleaned_up = len(world.delta.commits)
    else:
        world.forget_copy()
    world.arrive("e.txt")
    with pytest.raises(TableMoved):
        world.drain()


def move(world: World, uri: str) -> None:
    state = replace(world.state_now(), moved_to=uri)
    assert world.job().commit_state(state_plan(state, world.settings.rules))


# The store that stages


def test_staged_changes_are_seen_at_once_and_made_when_they_are_released() -> None:
    world = World()
    for key in ("a/1", "a/2", "b/1"):
        world.state.put(key, key.encode())
    staged = StagedStore(world.state, world.clock)
    staged.delete(["a/1", "a/9"])
    staged.put("a/3", b"3")
    with staged.writer("a/2") as writer:
        writer.write(b"two")
    assert [info.key for info in staged.list()] == ["a/2", "a/3", "b/1"]
    assert [info.key for info in staged.list("a/", start_after="a/2")] == ["a/3"]
    assert (staged.get("a/2"), staged.head("a/1"), staged.get_range("b/1", 0, 1)) == (b"two", None, b"b")
    assert (staged.written, staged.deleted) == (["a/2", "a/3"], ["a/1"])
    assert [info.key for info in world.state.list()] == ["a/1", "a/2", "b/1"]
    staged.release()
    assert [info.key for info in world.state.list()] == ["a/2", "a/3", "b/1"]
    staged.put("c", b"")
    assert world.state.get("c") == b""
    world.state.put("a/3", b"newer")
    staged.release()
    assert world.state.get("a/3") == b"newer"
