"""What was committed since the last sweep, counted from receipts."""

from collections.abc import Callable

import pytest

from blizzard.sweep import commit_counts
from blizzard.sweep.commit_counts import CommitCounts
from blizzard.sweep.report import SweepKind
from blizzard.sweep.source_sweep import SourceSweep
from tests.unit.fakes import POISON, World


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
