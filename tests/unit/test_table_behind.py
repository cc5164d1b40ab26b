"""A table that was restored from a backup or made again, while the files beside it stayed as they were."""

import random

import pytest

from blizzard.errors import RecoveryError
from tests.unit.fakes import World, settings


def world() -> World:
    return World(settings(settle_delay_secs=0.0, interval_files=3, late_overlap_secs=5.0), tick_secs=0.01)


def run(world: World) -> None:
    """As the job with `--sweep`: sweeps start from the copy, and only then the job recovers."""
    world.sweep()
    world.late_sweep()
    world.drain()
    world.clock.advance(100)


def missing(world: World) -> set[str]:
    return {path for path, _ in world.contents} - world.files().keys()


def test_a_late_file_that_only_the_newer_table_held_is_ingested_again() -> None:
    lake = world()
    lake.put("b.txt", "b0")
    run(lake)
    backup = ([*lake.delta.commits], [*lake.delta.rows])
    lake.put("a.txt", "a0")
    run(lake)
    run(lake)
    lake.delta.commits[:], lake.delta.rows[:] = backup
    for _ in range(2):
        run(lake)
    assert lake.files() == {"a.txt": ["a0"], "b.txt": ["b0"]}
    assert len(lake.events_logged("table_behind")) == 1


def test_a_table_made_again_gets_all_files_even_if_no_new_ones_come() -> None:
    lake = world()
    lake.put("a.txt", "a0")
    lake.put("b.txt", "b0")
    for _ in range(2):
        run(lake)
    lake.delta.commits.clear()
    lake.delta.rows.clear()
    for _ in range(2):
        run(lake)
    assert lake.files() == {"a.txt": ["a0"], "b.txt": ["b0"]}


@pytest.mark.parametrize("seed", range(60))
def test_files_from_before_and_after_the_backup_are_in_the_table_once_after_two_runs(seed: int) -> None:
    rng = random.Random(seed)
    lake, files = world(), 0

    def arrive() -> None:
        nonlocal files
        for _ in range(rng.randint(1, 3)):
            files += 1
            path = f"p{rng.randint(1, 3)}/{rng.randrange(16**4):04x}-{files}.txt"
            event = lake.put(path, path)
            if rng.random() < 0.5:
                lake.deliver(event)

    def live() -> None:
        for _ in range(rng.randint(1, 4)):
            arrive()
            if rng.random() < 0.5:
                lake.sweep()
                lake.job().step(draining=True)
            else:
                run(lake)
            lake.clock.advance(rng.choice([1, 10, 1000]))

    live()
    backup = ([*lake.delta.commits], [*lake.delta.rows])
    live()
    lake.delta.commits[:], lake.delta.rows[:] = backup
    for _ in range(3):
        run(lake)
    assert (missing(lake), lake.doubled()) == (set(), [])


def test_a_job_that_is_refused_leaves_the_files_beside_the_table_as_they_were() -> None:
    """Delta has forgotten the Txn. The copy says to which version it must be set again."""
    lake = world()
    lake.put("a.txt", "a0")
    run(lake)
    lake.put("b.txt", "b0")
    lake.sweep()
    beside = {info.key: lake.state.get(info.key) for info in lake.state.list()}
    lake.delta.commits.clear()
    with pytest.raises(RecoveryError, match="no Txn of"):
        lake.drain()
    assert {info.key: lake.state.get(info.key) for info in lake.state.list()} == beside
