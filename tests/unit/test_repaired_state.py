"""Jobs over a table whose checkpoints are unreadable or missing."""

import pytest

from blizzard.errors import RecoveryError
from tests.unit.fakes import World, settings
from tests.unit.scenarios import large, lines


def test_an_unreadable_newest_checkpoint_is_repaired_from_the_one_before() -> None:
    world = World()
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
        world.drain()
    world.delta.spoil(3)
    world.forget_copy()
    world.wipe()
    world.put("d.txt", "d.txt 0", "d.txt 1")
    world.settle()
    assert world.files() == lines("a.txt", "b.txt", "c.txt", "d.txt")
    assert world.doubled() == []
    assert [fields["files_added"] for fields in world.events_logged("state_repaired")] == [1]


def test_a_repaired_state_is_committed_even_without_new_files() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.delta.spoil(1)
    world.forget_copy()
    world.drain()
    world.drain()
    assert len(world.events_logged("state_repaired")) == 1
    assert world.state_now().sequence == 1


def test_without_any_readable_checkpoint_the_state_is_rebuilt_from_the_rows() -> None:
    world = World(settings(interval_bytes=100))
    content = large(world)
    for name in ("a.txt", "b.txt", "z.txt"):
        world.arrive(name)
    job = world.job()
    job.step(draining=True)
    job.step(draining=True)
    for version in (1, 2):
        world.delta.spoil(version)
    world.forget_copy()
    world.wipe()
    world.settle()
    assert world.files() == lines("a.txt", "b.txt", "z.txt") | {"large.txt": content}
    assert world.doubled() == []


def test_rows_without_a_txn_stop_the_job() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.delta.commits = world.delta.commits[:1]
    world.arrive("b.txt")
    with pytest.raises(RecoveryError, match="holds rows of source events:landing but no Txn"):
        world.drain()
    assert world.files() == lines("a.txt")


def test_a_deleted_copy_is_written_again_by_the_next_job() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.forget_copy()
    world.drain()
    assert world.sweep().missed == 0
