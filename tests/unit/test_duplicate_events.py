"""Events that come twice, late or out of order, and when a batch is large enough to be committed."""

from spark_job.loop.ingest import MAX_LAG_SEGMENTS, Step
from tests.unit.fakes import World, settings
from tests.unit.scenarios import lines


def test_a_duplicate_notification_is_ingested_once() -> None:
    world = World()
    event = world.arrive("a.txt")
    world.deliver(event, event)
    assert world.drain().files == 1
    world.deliver(event)
    world.drain()
    assert world.files() == lines("a.txt")


def test_notifications_out_of_order_are_all_ingested() -> None:
    world = World()
    events = [world.put(name, f"{name} 0", f"{name} 1") for name in ("a.txt", "b.txt", "c.txt")]
    world.deliver(events[2])
    world.drain()
    world.deliver(events[1], events[0])
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "c.txt")


def test_an_old_segment_that_is_replayed_changes_nothing() -> None:
    world = World()
    old = [world.arrive(name) for name in ("a.txt", "b.txt")]
    world.settle()
    world.deliver(*old)
    world.drain()
    assert world.files() == lines("a.txt", "b.txt")


def test_duplicate_events_need_no_commit_until_the_position_lags() -> None:
    world = World()
    event = world.arrive("a.txt")
    world.drain()
    commits = len(world.delta.commits)
    for _ in range(MAX_LAG_SEGMENTS):
        world.deliver(event)
    world.drain()
    assert len(world.delta.commits) == commits
    world.deliver(event)
    world.drain()
    assert len(world.delta.commits) == commits + 1
    assert world.segments() == [MAX_LAG_SEGMENTS + 1]


def test_a_batch_waits_for_its_interval_unless_it_is_full_or_the_run_drains() -> None:
    world = World(settings(interval_secs=60, interval_files=3))
    job = world.job()
    world.arrive("a.txt")
    assert job.step(draining=False) is Step.WAITING
    world.clock.advance(60)
    assert job.step(draining=False) is Step.COMMITTED
    world.arrive("b.txt")
    assert job.step(draining=False) is Step.WAITING
    world.arrive("c.txt")
    world.arrive("d.txt")
    assert job.step(draining=False) is Step.COMMITTED
    world.arrive("e.txt")
    assert job.step(draining=True) is Step.COMMITTED
    assert job.step(draining=True) is Step.IDLE
    assert len(world.delta.commits) == 1 + 3


def test_a_batch_that_is_full_by_bytes_does_not_wait() -> None:
    world = World(settings(interval_bytes=40))
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        world.arrive(name)
    job = world.job()
    assert job.step(draining=False) is Step.COMMITTED
    assert sorted(world.files()) == ["a.txt", "b.txt"]
