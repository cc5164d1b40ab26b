"""What was committed since the last sweep, counted from receipts."""

from collections.abc import Callable

import pytest

from blizzard.log import silent
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipts
from blizzard.state.schema_changes import ChangeRecords, FieldChange, SchemaChange
from blizzard.state.unknown_fields import UnknownField, UnknownFields
from blizzard.sweep import commit_counts
from blizzard.sweep.commit_counts import CommitCounts, count_commits
from blizzard.sweep.report import SweepKind
from blizzard.sweep.source_sweep import SourceSweep
from tests.unit.fakes import POISON, World

IDENTITY = SourceIdentity("p", "s", "_blizzard/p_s")


@pytest.fixture
def world() -> World:
    """A first file is committed, and a first sweep has found nothing to count."""
    world = World()
    world.arrive("first.txt", "a", "!b")
    world.drain()
    assert swept(world) == CommitCounts()
    return world


def swept(world: World, sweep: SourceSweep | None = None) -> CommitCounts:
    """What a sweep of a new process counts."""
    sweep = sweep or world.source_sweep()
    counts, reports = sweep.count_commits(sweep.reports())
    world.clock.advance(60)
    sweep.sweep(SweepKind.WATERMARK, reports=reports)
    return counts


def commit(world: World, *names: str) -> None:
    for name in names:
        world.arrive(f"{name}.txt", "a", "b", "!c")
        world.drain()


def test_each_commit_is_counted_once(world: World) -> None:
    commit(world, "x", "y")
    world.put("z.txt", raw=POISON)
    world.deliver(world.source_event("z.txt"))
    world.drain()
    assert swept(world) == CommitCounts(files=3, rows=4, dead_files=1, dead_records=2)
    assert swept(world) == CommitCounts()
    commit(world, "w")
    assert swept(world) == CommitCounts(files=1, rows=2, dead_records=1)


def test_late_sweeps_keep_the_count(world: World) -> None:
    commit(world, "x")
    sweep = world.source_sweep()
    counts, reports = sweep.count_commits(sweep.reports())
    sweep.sweep(SweepKind.LATE, reports=reports)
    assert counts.rows == 2
    assert swept(world) == CommitCounts()


def test_a_sweep_that_fails_after_the_count_counts_again(world: World) -> None:
    commit(world, "x")
    sweep = world.source_sweep()
    assert sweep.count_commits(sweep.reports())[0].rows == 2
    assert swept(world).rows == 2


def test_of_a_table_that_was_restored_the_commits_since_then_count(world: World) -> None:
    commit(world, "x", "y")
    assert swept(world).files == 2
    world.delta.commits.pop()
    world.delta.rows[:] = [row for row in world.delta.rows if row.path != "y.txt"]
    world.drain()
    assert swept(world) == CommitCounts()  # and it appends y.txt, which the table lacks again
    commit(world, "v")
    assert swept(world).files == 2


def lose_one(world: World) -> None:
    keys = sorted(info.key for info in world.state.list() if "/receipts/" in info.key)
    world.state.delete(keys[-2:-1])


def tear_one(world: World) -> None:
    keys = sorted(info.key for info in world.state.list() if "/receipts/" in info.key)
    world.state.put(keys[-2], b"torn")


@pytest.mark.parametrize("harm", [lose_one, tear_one])
def test_commits_without_a_readable_receipt_are_logged(world: World, harm: Callable[[World], None]) -> None:
    commit(world, "x", "y", "z")
    harm(world)
    assert swept(world).files == 1
    (logged,) = world.events_logged("commits_not_counted")
    assert (logged["first"], logged["last"]) == (1, 2)
    assert swept(world) == CommitCounts()


def test_only_so_many_commits_are_read_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_counts, "MAX_COMMITS", 2)
    commit(world, "x", "y", "z")
    assert swept(world).files == 2
    (logged,) = world.events_logged("commits_not_counted")
    assert (logged["first"], logged["last"]) == (1, 1)


# -- the schema


def record(world: World, sequence: int, previous: str | None, *paths: str) -> str:
    changes = SchemaChange(tuple(FieldChange(path, "string", None, 1, "f") for path in paths))
    records = ChangeRecords(world.state, IDENTITY.state_prefix, IDENTITY.source_id)
    made = records.put(changes, sequence=sequence, attempt="x", after_version=0, previous=previous, now_ts=1.0)
    return made.name


def counted(world: World, checkpoint: Checkpoint, since: int) -> CommitCounts:
    return count_commits(world.state, IDENTITY, checkpoint, since, silent)


def test_unknown_fields_and_misfits_are_counted_by_their_records() -> None:
    world = World()
    previous = None
    for sequence in range(3):
        receipt = Receipts(world.state, IDENTITY.state_prefix).put(
            sequence=sequence,
            attempt="x",
            previous=previous,
            now_ts=1.0,
            lines=(),
            unknown_fields=UnknownFields((UnknownField("a", 5, "f"), UnknownField("b", 2, "f")), more=3),
            misfits=UnknownFields((UnknownField("n", 1, "f"),)),
        )
        previous = receipt.name
    checkpoint = Checkpoint("p", "s", 2, receipt=previous)
    assert counted(world, checkpoint, 0) == CommitCounts(unknown_values=14, misfit_values=2)
    assert counted(world, checkpoint, 2) == CommitCounts()


def test_changes_of_the_schema_are_counted_once() -> None:
    world = World()
    old = record(world, 3, None, "a", "b")
    newer = record(world, 5, old, "c")
    newest = record(world, 7, newer, "d", "e.f")
    checkpoint = Checkpoint("p", "s", 9, schema_change=newest)
    assert [counted(world, checkpoint, since).schema_changes for since in (2, 3, 4, 5, 6, 7, 8)] == [
        5,
        3,
        3,
        2,
        2,
        0,
        0,
    ]


def test_a_record_of_a_change_that_is_gone_or_damaged_does_not_stop_the_count() -> None:
    world = World()
    newest = record(world, 7, record(world, 5, None, "c"), "d")
    folder = f"{IDENTITY.state_prefix}/schema_changes/"
    checkpoint = Checkpoint("p", "s", 9, schema_change=newest)
    world.state.put(f"{folder}{5:020d}-x.json", b"no JSON")
    assert counted(world, checkpoint, 1).schema_changes == 1
    world.state.delete([f"{folder}{newest}"])
    assert counted(world, checkpoint, 1).schema_changes == 0
    assert counted(world, Checkpoint("p", "s", 9, schema_change="odd"), -1).schema_changes == 0
