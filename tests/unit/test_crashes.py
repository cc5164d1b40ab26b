"""A crash, a deleted manifest or an unreadable state between any two calls loses and doubles nothing."""

from collections.abc import Callable

import pytest

from tests.unit.fakes import POISON, Crash, World, crash
from tests.unit.scenarios import dated, day, lines


def one_of_everything(world: World) -> None:
    """Files announced, withheld, large, empty, poisoned, late and deleted, with sweeps and batches in between."""
    today = day(world)
    world.arrive(f"{today}/b.txt")
    world.put(f"{today}/c.txt", f"{today}/c.txt 0", f"{today}/c.txt 1")
    world.deliver(world.put("large.txt", *(f"record {n}" for n in range(20))))
    world.deliver(world.put("empty.txt"), world.put("poison.txt", raw=POISON), world.put("bad.txt", "!", "good"))
    world.clock.advance(100)
    world.sweep()
    world.drain()
    world.put(f"{today}/a.txt", f"{today}/a.txt 0", f"{today}/a.txt 1")
    world.late_sweep()
    world.drain()


def calls_of_one_of_everything() -> int:
    world = dated(interval_bytes=60, interval_files=2)
    one_of_everything(world)
    return world.calls.count


def after_one_of_everything(world: World) -> None:
    today = day(world)
    expected = lines(f"{today}/a.txt", f"{today}/b.txt", f"{today}/c.txt")
    expected |= {"large.txt": [f"record {n}" for n in range(20)], "bad.txt": ["good"]}
    assert world.doubled() == []
    assert world.files() == expected
    assert world.dead_files() == {"poison.txt": "not a gzip file"}
    assert world.dead_records() == {"bad.txt": [0]}


def crash_between(n: int, harm: Callable[[World], object] = lambda _: None) -> World:
    """Do everything, crash before the n-th call, suffer `harm`, and do everything again from the start."""
    world = dated(interval_bytes=60, interval_files=2)
    world.calls.before(n, crash)
    try:
        one_of_everything(world)
    except Crash:
        harm(world)
        one_of_everything(world)
    world.settle()
    return world


def test_a_crash_between_any_two_calls_loses_and_doubles_nothing() -> None:
    count = calls_of_one_of_everything()
    assert count > 150
    for n in range(1, count + 1):
        after_one_of_everything(crash_between(n))


def test_deleting_the_manifest_between_any_two_calls_loses_and_doubles_nothing() -> None:
    for n in range(1, calls_of_one_of_everything() + 1):
        world = dated(interval_bytes=60, interval_files=2)
        world.calls.before(n, world.wipe)
        one_of_everything(world)
        world.settle()
        after_one_of_everything(world)


@pytest.mark.parametrize("copy_too", [False, True], ids=["with the copy", "without the copy"])
def test_a_state_that_is_unreadable_after_any_crash_is_repaired(copy_too: bool) -> None:
    def harm(world: World) -> None:
        if world.delta.commits:
            world.delta.spoil(world.delta.commits[-1].version)
        if copy_too:
            world.forget_copy()

    for n in range(1, calls_of_one_of_everything() + 1, 3):
        after_one_of_everything(crash_between(n, harm))
