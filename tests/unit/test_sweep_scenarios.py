"""Sweeps, late ones and stale ones too, against the rows that end up in the table."""

import pytest

from tests.unit.fakes import DAY_SECS, World, settings
from tests.unit.scenarios import close_all, dated, day, lines


def test_a_file_without_an_event_is_found_by_the_sweep() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.put("b.txt", "b.txt 0", "b.txt 1")
    assert world.sweep().missed == 1
    world.drain()
    assert world.files() == lines("a.txt", "b.txt")


def test_a_late_file_below_the_watermark_is_ingested_when_its_event_comes() -> None:
    world = World()
    world.arrive("b.txt")
    world.settle()
    event = world.put("a.txt", "a.txt 0", "a.txt 1")
    assert world.sweep().listed == 0
    world.deliver(event)
    world.drain()
    assert world.files() == lines("a.txt", "b.txt")


def test_a_late_file_below_the_watermark_whose_event_was_lost_is_found_by_the_late_sweep() -> None:
    world = World()
    world.arrive("b.txt")
    world.settle()
    world.put("a.txt", "a.txt 0", "a.txt 1")
    assert world.sweep().missed == 0
    assert world.late_sweep().missed == 1
    world.drain()
    assert world.files() == lines("a.txt", "b.txt")


def test_a_late_file_in_a_closed_partition_is_ingested_when_its_event_comes() -> None:
    world = dated()
    early = f"{day(world)}/b.txt"
    world.arrive(early)
    world.settle()
    close_all(world)
    late = early.replace("/b", "/a")
    world.deliver(world.arrive(late), world.source_event(early))
    world.drain()
    assert world.files() == lines(late, early)
    assert world.doubled() == []


@pytest.mark.parametrize("staleness", range(8))
def test_a_sweep_from_a_stale_state_gives_the_same_rows(staleness: int) -> None:
    world = World(settings(interval_files=1))
    for name in ("a.txt", "c.txt", "b.txt"):
        world.arrive(name)
        world.drain()
        world.clock.advance(100)
        world.sweep()
        world.drain()
    world.put("d.txt", "d.txt 0", "d.txt 1")
    stale = [world.unknown(), *world.states()]
    world.sweep(stale[staleness % len(stale)])
    world.late_sweep(stale[staleness % len(stale)])
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "c.txt", "d.txt")
    assert world.doubled() == []


def test_a_stale_late_sweep_does_not_hide_a_late_file_from_the_next() -> None:
    world = World(settings(late_overlap_secs=1.0))
    world.arrive("a.txt")
    world.settle()
    stale = world.state_now()
    world.arrive("m.txt")
    world.settle()
    world.put("b.txt", "b.txt 0", "b.txt 1")
    world.clock.advance(10)
    world.late_sweep(stale)
    world.drain()
    world.clock.advance(10)
    world.late_sweep()
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "m.txt")


def test_a_cold_start_ingests_the_last_days_and_skips_older_ones() -> None:
    world = dated(lookback=2)
    days = [day(world, ago) for ago in range(4)]
    for name in days:
        world.put(f"{name}/a.txt", f"{name}/a.txt 0", f"{name}/a.txt 1")
    world.sweep()
    world.drain()
    world.settle()
    assert world.files() == lines(f"{days[0]}/a.txt", f"{days[1]}/a.txt")
    assert world.state_now().closed_through == days[2]


def test_a_cold_start_that_runs_out_of_time_still_skips_older_days() -> None:
    world = dated(lookback=2)
    today = [f"{day(world)}/{n}.txt" for n in range(9)]
    for path in [*today, *(f"{day(world, ago)}/a.txt" for ago in range(3, 9))]:
        world.put(path, f"{path} 0", f"{path} 1")
    world.clock.advance(100)
    assert not world.sweep(deadline_ts=world.clock.now_ts + 0.008).complete
    world.drain()
    world.settle()
    assert world.files() == lines(*today)


def test_a_late_file_of_a_partition_that_leaves_the_window_is_found_before_it_closes() -> None:
    world = dated(late_overlap_secs=1.0)
    today = day(world)
    world.arrive(f"{today}/b.txt")
    world.settle()
    world.put(f"{today}/a.txt", f"{today}/a.txt 0", f"{today}/a.txt 1")
    world.clock.advance(3 * DAY_SECS)
    world.sweep()
    world.drain()
    world.late_sweep()
    world.drain()
    assert world.files() == lines(f"{today}/a.txt", f"{today}/b.txt")
    world.sweep()
    assert world.late_sweep().listed == 0


def test_a_stale_cold_sweep_does_not_hide_late_files_of_days_that_it_skipped() -> None:
    world = dated(late_overlap_secs=1.0)
    old = day(world)
    world.arrive(f"{old}/b.txt")
    world.drain()
    world.clock.advance(100)
    world.sweep()
    world.arrive(f"{old}/c.txt")
    world.drain()
    assert world.state_now().partition_watermarks == {old: "b.txt"}
    world.put(f"{old}/a.txt", f"{old}/a.txt 0", f"{old}/a.txt 1")
    world.clock.advance(5 * DAY_SECS)
    world.sweep(world.unknown())
    world.drain()
    world.clock.advance(10)
    world.late_sweep()
    world.drain()
    assert world.files() == lines(f"{old}/a.txt", f"{old}/b.txt", f"{old}/c.txt")


def test_a_sweep_does_not_settle_files_of_segments_deleted_before_it_appended() -> None:
    world = World(settings(late_overlap_secs=1.0))
    world.arrive("a.txt")
    world.drain()
    world.deliver(world.put("b.txt", "b.txt 0", "b.txt 1"))
    world.put("c.txt", "c.txt 0", "c.txt 1")
    world.clock.advance(100)
    sweeper = world.sweeper()
    world.wipe()
    sweeper.watermark_sweep(list)
    world.drain()
    assert world.files() == lines("a.txt", "c.txt")
    world.sweep()
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "c.txt")


def test_a_late_sweep_whose_first_segment_is_deleted_does_not_count() -> None:
    world = World(settings(late_overlap_secs=1.0))
    world.arrive("z.txt")
    world.settle()
    for name in ("a.txt", "b.txt"):
        world.put(name, f"{name} 0", f"{name} 1")
    world.clock.advance(10)
    world.drain()
    before = world.state_now().late_swept_ts
    world.calls.before_named("listed b.txt", world.wipe)
    world.late_sweep(segment_entries=1)
    world.drain()
    assert world.state_now().late_swept_ts == before
    world.late_sweep()
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "z.txt")


def test_a_file_whose_key_begins_with_a_slash_is_found_too() -> None:
    world = World()
    world.put("/a.txt", "/a.txt 0", "/a.txt 1")
    world.put("a.txt", "a.txt 0", "a.txt 1")
    world.settle()
    assert world.files() == lines("/a.txt", "a.txt")


def test_a_source_that_loses_its_partition_filter_is_not_ingested_again() -> None:
    world = dated()
    path = f"{day(world)}/a.txt"
    world.arrive(path)
    world.settle()
    close_all(world)
    world.settings = settings()
    world.settle()
    assert world.files() == lines(path)
    assert world.doubled() == []
