"""The checkpoint stays small, in whatever order files come."""

from tests.unit.fakes import World, settings
from tests.unit.scenarios import lines


def test_five_thousand_young_files_leave_a_small_checkpoint() -> None:
    world = World(settings(interval_files=1000, max_tracked_files=1000))
    for _ in range(5):
        batch = len(world.contents)
        world.deliver(*(world.put(f"{batch + n:06d}.txt", "x") for n in range(1000)))
    assert world.sweep().missed == 0
    world.drain()
    assert len(world.files()) == 5000
    assert max(len(state.files) for state in world.states()) <= 1000
    assert world.state_now().partition_watermarks[""] >= "003999.txt"


def test_the_worst_order_of_events_leaves_a_small_checkpoint_too() -> None:
    world = World(settings(interval_files=10, max_tracked_files=20))
    events = [world.put(f"{n:03d}.txt", "x") for n in range(200)]
    for event in reversed(events):
        world.deliver(event)
    world.drain()
    assert len(world.files()) == 200
    assert world.doubled() == []
    assert max(len(state.files) for state in world.states()) <= 20 + 10


def test_files_deleted_after_ingestion_are_not_tracked_forever() -> None:
    world = World(settings(interval_files=10, max_tracked_files=20))
    for n in range(10):
        for event in [world.arrive(f"{n}{m}.txt") for m in range(10)]:
            world.drain()
            world.source.delete([event.path])
    assert len(world.files()) == 100
    assert max(len(state.files) for state in world.states()) <= 20 + 10


def test_the_job_settles_files_without_events() -> None:
    world = World(settings(interval_files=5, max_tracked_files=5))
    for n in range(40):
        event = world.put(f"{n:02d}.txt", f"{n:02d}.txt 0", f"{n:02d}.txt 1")
        if n % 2:
            world.deliver(event)
    world.drain()
    assert max(len(state.files) for state in world.states()) <= 10
    assert set(world.files()) >= set(lines(*(f"{n:02d}.txt" for n in range(30))))
    world.settle()
    assert world.files() == lines(*(f"{n:02d}.txt" for n in range(40)))


def test_the_job_settles_a_file_larger_than_a_batch() -> None:
    world = World(settings(interval_bytes=100, interval_files=2, max_tracked_files=2))
    content = [f"record {n:02d}" for n in range(30)]
    world.put("0.txt", *content)
    for n in range(1, 9):
        world.arrive(f"{n}.txt")
    world.drain()
    assert world.files() == lines(*(f"{n}.txt" for n in range(1, 9))) | {"0.txt": content}
    assert max(len(state.files) for state in world.states()) <= 2 + 2 + 1
