"""What one sweep lists, appends and says, and how the job settles by listing."""

import weakref
from collections.abc import Iterator
from dataclasses import replace

from blizzard.manifest.segments import Closing, FoundBy, Segment, SettleMark
from blizzard.state.watermark import SourceProgress
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.report import SweepKind
from blizzard.sweep.rules import cold_closing
from tests.unit.fakes import DAY_SECS, Days, World, settings

OLD = 100.0
"""Seconds after which files count as settled here."""


def said(world: World, number: int) -> Segment:
    """A segment as it stands in the manifest."""
    return world.manifest().read(next(ref for ref in world.manifest().refs() if ref.number == number))


def world_of(*paths: str, window: bool = False, **more: object) -> World:
    """A source with these files, all of them old enough."""
    world = World(settings(window=Days() if window else None, **more))  # type: ignore[arg-type]
    for path in paths:
        world.put(path, "x")
    world.clock.advance(OLD)
    return world


def folder(world: World, ago: int = 0) -> str:
    return Days().oldest_folder(world.clock.now_ts, ago + 1)


# -- The watermark sweep


def test_every_partition_is_listed_and_settled_through_its_last_file() -> None:
    world = world_of("b.txt", "a.txt", "misc/c.txt", "misc/deep/er/d.txt")
    report = world.sweep()
    segment = said(world, 0)
    assert [entry.path for entry in segment.entries] == ["a.txt", "b.txt", "misc/c.txt", "misc/deep/er/d.txt"]
    assert {entry.found_by for entry in segment.entries} == {FoundBy.SWEEP}
    assert segment.sweep is not None
    assert segment.sweep.marks == (
        SettleMark("", None, "b.txt"),
        SettleMark("misc", None, "c.txt"),
        SettleMark("misc/deep/er", None, "d.txt"),
    )
    assert (report.kind, report.listed, report.missed, report.partitions) == (SweepKind.WATERMARK, 4, 4, 4)
    assert (report.segments, report.complete) == ((0,), True)


def test_a_recently_modified_file_is_appended_and_neither_it_nor_a_later_name_is_settled() -> None:
    world = world_of("a.txt", "c.txt")
    world.put("b.txt", "x")
    world.sweep()
    segment = said(world, 0)
    assert [entry.path for entry in segment.entries] == ["a.txt", "b.txt", "c.txt"]
    assert segment.sweep is not None
    assert segment.sweep.marks == (SettleMark("", None, "a.txt"),)


class Key(str):
    """A key that can be watched."""


class Listed(MemoryStore):
    """Counts how many of the keys that it listed are still held by somebody."""

    most_held = 0

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        held = weakref.WeakSet[Key]()
        for info in super().list(prefix, start_after=start_after, recursive=recursive):
            key = Key(info.key)
            held.add(key)
            yield replace(info, key=key)
            del key
            self.most_held = max(self.most_held, len(held))


def test_a_sweep_keeps_only_pending_entries_in_memory() -> None:
    world = World()
    world.source = Listed(world.clock, "memory://landing/")
    for n in range(300):
        world.put(f"{n:03}.txt", "x")
    world.clock.advance(OLD)
    for report in (
        world.sweeper(segment_entries=10).watermark_sweep(list),
        world.sweeper(segment_entries=10).late_sweep(list),
    ):
        assert report.listed == 300
        assert world.source.most_held < 15


def test_files_that_do_not_match_the_source_are_skipped() -> None:
    world = world_of("a.txt", "b.tmp", "c.json")
    assert world.sweep().missed == 1
    sweep = said(world, 0).sweep
    assert sweep is not None
    assert sweep.marks == (SettleMark("", None, "c.json"),)


def test_files_in_the_state_or_in_unconsumed_segments_are_not_appended_again() -> None:
    world = world_of("a.txt", "b.txt", "c.txt")
    world.deliver(world.source_event("a.txt"))
    world.drain()
    world.deliver(world.source_event("b.txt"))
    assert world.sweep().missed == 1
    assert [entry.path for entry in said(world, 2).entries] == ["c.txt"]


def test_a_second_sweep_continues_from_the_marks_of_the_first_and_appends_nothing() -> None:
    world = world_of("a.txt", "b.txt")
    world.sweep()
    report = world.sweep()
    assert (report.listed, report.missed, report.segments) == (0, 0, ())


def test_a_sweep_that_runs_out_of_time_appends_what_it_found_and_the_next_one_continues() -> None:
    world = world_of(*(f"{n}.txt" for n in range(9)))
    first = world.sweep(deadline_ts=world.clock.now_ts + 0.007)
    assert not first.complete
    assert 0 < first.missed < 9
    second = world.sweep()
    assert (second.complete, second.listed) == (True, 9 - first.missed)
    world.drain()
    assert len(world.files()) == 9


def test_a_long_sweep_appends_several_segments_with_connecting_marks() -> None:
    world = world_of(*(f"{n}.txt" for n in range(5)))
    report = world.sweep(segment_entries=2)
    sweeps = [said(world, number).sweep for number in report.segments]
    marks = [mark for sweep in sweeps if sweep is not None for mark in sweep.marks]
    assert marks == [
        SettleMark("", None, "1.txt"),
        SettleMark("", "1.txt", "3.txt"),
        SettleMark("", "3.txt", "4.txt"),
    ]


def test_a_sweep_records_the_segments_that_it_relies_on() -> None:
    world = world_of("a.txt", "b.txt")
    first = world.deliver(world.source_event("a.txt"))
    world.deliver(world.source_event("b.txt"))
    world.sweep()
    sweep = said(world, 2).sweep
    assert sweep is not None
    assert sweep.relies_on == first
    assert sweep.chain is not None


def test_a_sweep_appends_after_the_segments_it_relies_on_even_if_they_were_deleted() -> None:
    world = world_of("a.txt", "b.txt")
    world.deliver(world.source_event("a.txt"))
    sweeper = world.sweeper()
    world.wipe()
    assert sweeper.watermark_sweep(list).segments == (1,)


def test_a_sweep_of_an_empty_source_is_recorded_once() -> None:
    world = world_of()
    assert world.sweep().segments == (0,)
    assert world.sweep().segments == ()


def test_the_first_sweep_counts_as_a_late_sweep_only_if_nothing_was_ingested() -> None:
    fresh, begun = world_of("a.txt"), world_of("a.txt")
    begun.deliver(begun.source_event("a.txt"))
    begun.drain()
    for world, counts in ((fresh, True), (begun, False)):
        report = world.sweep()
        assert report.counts_as_late is counts
        sweep = said(world, report.segments[0]).sweep
        assert sweep is not None
        assert (sweep.late_swept_ts is not None) is counts


# -- Windows


def test_a_cold_start_closes_older_partitions_first_and_does_not_list_them() -> None:
    world = world_of(window=True)
    for ago in range(5):
        world.put(f"{folder(world, ago)}/a.txt", "x")
    report = world.sweep(segment_entries=1)
    first = said(world, report.segments[0]).sweep
    assert first is not None
    assert first.closing == Closing(None, folder(world, 2), cold=True)
    assert report.listed == 2


def test_without_a_window_no_partition_is_closed() -> None:
    world = world_of("day=0001/a.txt")
    world.sweep()
    sweep = said(world, 0).sweep
    assert sweep is not None
    assert sweep.closing is None


def closings(world: World, number: int) -> Closing | None:
    sweep = said(world, number).sweep
    return sweep.closing if sweep is not None else None


def in_the_window(*names: str) -> World:
    """A source that was swept both ways while these files of today were in the window."""
    world = world_of(window=True)
    for name in names:
        world.arrive(f"{folder(world)}/{name}")
    world.settle()
    return world


def test_a_partition_is_closed_once_it_left_the_window_and_a_late_sweep_has_seen_it() -> None:
    world = in_the_window("a.txt")
    today = folder(world)
    world.clock.advance(3 * DAY_SECS)
    assert world.sweep().segments == ()
    world.late_sweep()
    number = world.sweep().segments[0]
    closing = closings(world, number)
    assert closing is not None
    assert (closing.through, closing.cold) == (today, False)


def test_a_partition_with_new_files_is_not_closed_yet() -> None:
    world = in_the_window("a.txt")
    today = folder(world)
    world.put(f"{today}/b.txt", "x")
    world.clock.advance(3 * DAY_SECS)
    world.late_sweep(world.state_now())
    world.put(f"{today}/c.txt", "x")
    assert closings(world, world.sweep().segments[0]) is None
    world.clock.advance(OLD)
    world.drain()
    number = max(world.sweep().segments)
    closing = closings(world, number)
    assert closing is not None
    assert closing.through == today


def test_no_partition_is_closed_before_an_older_one_is_quiet() -> None:
    world = in_the_window("a.txt")
    older = folder(world)
    world.clock.advance(DAY_SECS)
    world.arrive(f"{folder(world)}/a.txt")
    world.settle()
    world.clock.advance(5 * DAY_SECS)
    world.late_sweep()
    world.put(f"{older}/young.txt", "x")
    assert closings(world, world.sweep().segments[0]) is None


def test_a_window_that_is_configured_later_closes_no_partition_that_was_settled_before() -> None:
    state = SourceProgress.from_checkpoint(World().unknown(), Days().folder_of)
    rules = settings(window=Days()).sweep_rules
    now_ts = 100 * DAY_SECS
    assert cold_closing(state, rules, now_ts) == Closing(None, "day=0098", cold=True)
    state.watermarks["day=0001"] = "a.txt"
    assert cold_closing(state, rules, now_ts) is None
    assert cold_closing(state, settings().sweep_rules, now_ts) is None


# -- The late sweep


def test_a_late_sweep_appends_files_modified_since_the_last_one_in_any_partition() -> None:
    world = world_of("a.txt", "m.txt", "misc/z.txt")
    world.settle()
    for path in ("b.txt", "z.txt", "new/c.txt"):
        world.put(path, "x")
    report = world.late_sweep()
    entries = said(world, report.segments[0]).entries
    assert [(entry.path, entry.found_by) for entry in entries] == [
        ("b.txt", FoundBy.LATE),
        ("z.txt", FoundBy.LATE),
        ("new/c.txt", FoundBy.LATE),
    ]
    assert (report.kind, report.listed, report.missed) == (SweepKind.LATE, 6, 3)


def test_a_late_sweep_looks_back_by_its_overlap() -> None:
    world = world_of("m.txt", late_overlap_secs=50.0)
    world.sweep()
    world.drain()
    swept_ts = world.clock.now_ts
    assert world.late_sweep().missed == 0
    for path, ago in (("a.txt", 40.0), ("b.txt", 60.0)):
        world.clock.now_ts = swept_ts - ago
        world.put(path, "x")
    world.clock.now_ts = swept_ts + 1
    assert [entry.path for entry in said(world, world.late_sweep().segments[0]).entries] == ["a.txt"]


def test_a_late_sweep_appends_no_file_that_receipts_or_segments_have() -> None:
    world = world_of("a.txt", "b.txt", "c.txt")
    world.deliver(world.source_event("a.txt"))
    world.drain()
    world.deliver(world.source_event("b.txt"))
    report = world.late_sweep()
    assert [entry.path for entry in said(world, report.segments[0]).entries] == ["c.txt"]


def test_a_late_sweep_appends_a_known_path_with_another_etag() -> None:
    world = world_of("a.txt")
    world.settle()
    world.put("a.txt", "other")
    assert world.late_sweep().missed == 1


def test_a_late_sweep_that_finds_nothing_appends_nothing_unless_it_announces() -> None:
    world = world_of("a.txt")
    world.settle()
    quiet = world.sweeper().late_sweep(list, record_if_empty=False)
    assert quiet.segments == ()
    due = world.sweeper().late_sweep(list)
    assert len(due.segments) == 1


def test_a_late_sweep_that_runs_out_of_time_is_not_announced() -> None:
    world = world_of(*(f"{n}.txt" for n in range(9)))
    world.deliver(*(world.source_event(f"{n}.txt") for n in range(9)))
    world.drain()
    report = world.sweeper(deadline_ts=world.clock.now_ts + 0.006).late_sweep(list)
    assert not report.complete
    sweep = said(world, report.segments[0]).sweep
    assert sweep is not None
    assert sweep.late_swept_ts is None
    assert 0 < report.missed < 9
