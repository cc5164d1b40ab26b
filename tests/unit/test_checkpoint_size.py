"""The checkpoint stays small, in whatever order files come: it names only files in progress."""

from tests.unit.fakes import World, settings
from tests.unit.scenarios import lines


def largest(world: World) -> int:
    return max(len(state.files) for state in world.states())


def test_five_thousand_young_files_leave_no_trace_in_the_checkpoint() -> None:
    world = World(settings(interval_files=1000))
    for _ in range(5):
        batch = len(world.contents)
        world.deliver(*(world.put(f"{batch + n:06d}.txt", "x") for n in range(1000)))
    assert world.sweep().missed == 0
    world.drain()
    assert (len(world.files()), largest(world)) == (5000, 0)


def test_the_worst_order_of_events_leaves_no_trace_either() -> None:
    world = World(settings(interval_files=10))
    events = [world.put(f"{n:03d}.txt", "x") for n in range(200)]
    for event in reversed(events):
        world.deliver(event, event)
    world.drain()
    assert (len(world.files()), world.doubled(), largest(world)) == (200, [], 0)


def test_only_a_file_larger_than_a_batch_is_in_the_checkpoint_until_it_is_finished() -> None:
    world = World(settings(interval_bytes=100, interval_files=2))
    content = [f"record {n:02d}" for n in range(30)]
    world.arrive("0.txt", *content)
    for n in range(1, 9):
        world.arrive(f"{n}.txt")
    world.drain()
    assert world.files() == lines(*(f"{n}.txt" for n in range(1, 9))) | {"0.txt": content}
    assert largest(world) == 1
    assert world.state_now().files == {}
