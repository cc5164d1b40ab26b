"""A late sweep in parts finds the same files as one in a single piece, whatever happens between the parts."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from blizzard.manifest.segments import Closing, Sweep
from blizzard.sweep.late_cursor import (
    LateCursor,
    ListingPosition,
)
from blizzard.sweep.report import SweepKind
from blizzard.sweep.sweeper import OutOfTime
from tests.unit.fakes import DAY_SECS, Calls, Days, WatchedStore
from tests.unit.late_sweeps import (
    MAX_PARTS,
    PATHS,
    TIMES,
    TREES,
    announced_ts_of,
    appended,
    many,
    part,
    parts,
    swept_world,
)


def test_a_late_sweep_resumes_where_it_stopped_and_lists_nothing_twice() -> None:
    world = swept_world(*many())
    calls = Calls()
    world.source = WatchedStore(world.source, calls)  # type: ignore[assignment]
    done = parts(world)
    listed = [name for name in calls.names if name.startswith("listed ")]
    assert len(done) > 3
    # The file at which time ran out was seen and not judged, so the next part begins with it.
    assert len(listed) - len(set(listed)) <= len(done) - 1
    assert set(listed) == {f"listed {path}" for path in many()}


def test_a_late_file_of_the_last_partition_is_found_however_short_the_parts_are() -> None:
    world = swept_world(*many(), "z/m.txt")
    world.put("z/a.txt", "late")
    world.clock.advance(10)
    done = parts(world)
    assert len(done) > 3
    assert appended(world, *done) == ["z/a.txt"]
    world.drain()
    assert "z/a.txt" in world.files()


@pytest.mark.parametrize("looks", range(9, 30))
def test_wherever_the_parts_are_cut_each_late_file_is_found(looks: int) -> None:
    world = swept_world("z.txt")
    late = many(5)
    for path in late:
        world.put(path, "late")
    world.clock.advance(10)
    found = [part(world, looks)]
    while not found[-1].complete:
        assert len(found) < MAX_PARTS, "expected the late sweep to be complete after MAX_PARTS parts"
        world.drain()
        found.append(part(world, looks))
    world.drain()
    assert set(late) <= set(world.files())


def test_the_announced_time_is_the_start_of_the_first_part() -> None:
    world = swept_world(*many())
    before_ts = announced_ts_of(world)
    first = part(world)
    world.clock.advance(500)
    assert (first.complete, announced_ts_of(world)) == (False, before_ts)
    rest = parts(world)
    assert rest[-1].started_ts > first.started_ts + 500
    assert announced_ts_of(world) == first.started_ts
    world.arrive("new.txt")
    world.drain()
    assert world.state_now().late_swept_ts == first.started_ts


def test_a_file_that_arrives_before_the_cursor_is_found_by_the_next_late_sweep() -> None:
    world = swept_world(*many())
    part(world)
    world.clock.advance(500)
    world.put("!.txt", "late")
    world.clock.advance(500)
    assert appended(world, *parts(world)) == []
    world.drain()
    assert appended(world, part(world, None)) == ["!.txt"]


def test_a_complete_late_sweep_leaves_no_cursor() -> None:
    world = swept_world(*many())
    done = parts(world)
    assert all(report.cursor is not None for report in done[:-1])
    assert done[-1].cursor is None
    assert part(world, None).listed == len(many())


def test_a_watermark_sweep_and_a_claim_in_between_keep_the_cursor() -> None:
    world = swept_world(*many())
    first = part(world)
    one = world.source_sweep()
    one.write(replace(one.reports(), sweeping_until_ts=world.clock.now_ts))
    one.sweep(SweepKind.WATERMARK)
    assert one.reports().late == first
    assert part(world, None).listed < len(many())


def test_a_late_sweep_of_the_job_lists_everything_and_removes_the_cursor() -> None:
    world = swept_world(*many())
    assert part(world).cursor is not None
    report = world.source_sweep().sweep(SweepKind.LATE)
    assert (report.listed, report.complete, report.cursor) == (len(many()), True, None)
    assert announced_ts_of(world) == report.started_ts


def test_a_late_sweep_resumes_after_its_folder_was_deleted_or_closed() -> None:
    today, later = (f"day={int(100_000 // DAY_SECS) + ago:04d}" for ago in (0, 8))
    for harm in ("gone", "closed"):
        world = swept_world(*(f"{today}/{number}.txt" for number in range(20)), window=Days())
        world.put(f"{later}/a.txt", "x")
        stopped = part(world)
        assert stopped.cursor is not None
        assert stopped.cursor.position.partition == today
        if harm == "gone":
            world.source.delete([info.key for info in world.source.list(f"{today}/")])
        else:
            closing = Sweep(closing=Closing(world.source_sweep().checkpoint().closed_through, today), relies_on=10**6)
            world.manifest().append([], writer_id="w", now_ts=0.0, sweep=closing)
            world.arrive(f"{later}/0.txt")
            world.drain()
            assert world.state_now().closed_through == today
        assert appended(world, *parts(world, 12)) == [f"{later}/a.txt"]


@hypothesis_settings(max_examples=50)
@given(old=TREES, late=TREES, times=TIMES, data=st.data())
def test_the_parts_find_what_one_sweep_would_and_lose_no_file_that_arrives_between_them(
    old: set[str], late: set[str], times: list[int], data: st.DataObject
) -> None:
    world = swept_world(*old)
    for path in sorted(late):
        world.put(path, "late", path)
    world.clock.advance(10)
    wanted = sorted(path for path in late if path.endswith(".txt"))
    expected, started_ts = wanted, world.clock.now_ts
    between: set[str] = set()
    found: list[str] = []
    for number in range(MAX_PARTS):
        try:
            report = part(world, times[number % len(times)])
        except OutOfTime:
            world.drain()
            continue
        found += appended(world, report)
        if report.complete:
            break
        path = data.draw(st.none() | PATHS) if number < 6 else None
        if path is not None and path not in late | between:
            between.add(path)
            world.clock.advance(10)
            world.put(path, "between", path)
        if data.draw(st.booleans()):
            world.drain()
    else:
        raise AssertionError("expected the late sweep to be complete after MAX_PARTS parts")
    assert sorted(set(found) - between) == expected
    assert len(found) == len(set(found))
    announced_ts = announced_ts_of(world)
    assert announced_ts is not None
    assert announced_ts <= started_ts + 1
    world.drain()
    rest = part(world, None)
    found += appended(world, rest)
    assert set(found) >= {path for path in late | between if path.endswith(".txt")}


@hypothesis_settings(max_examples=50)
@given(old=TREES, times=TIMES, data=st.data())
def test_nothing_is_lost_whatever_happens_between_the_parts(
    old: set[str], times: list[int], data: st.DataObject
) -> None:
    world = swept_world(*old)
    puts = set(old)
    for number in range(12):
        for path in data.draw(st.sets(PATHS, max_size=3)) - puts:
            puts.add(path)
            world.put(path, "new", path)
        world.clock.advance(10)
        with suppress(OutOfTime):
            part(world, times[number % len(times)])
        harm = data.draw(st.sampled_from(["nothing", "nothing", "drain", "drain", "wipe", "copy", "report", "job"]))
        if harm == "drain":
            world.drain()
        elif harm == "wipe":
            world.wipe()
        elif harm == "copy":
            world.forget_copy()
        elif harm == "report":
            world.state.delete([world.identity.report_key])
        elif harm == "job":
            world.source_sweep().sweep(SweepKind.LATE, record_if_empty=data.draw(st.booleans()))
    world.drain()
    # Only late sweeps look from here on: what an announcement hid from them would be missing in the end.
    for _ in range(3):
        part(world, None)
        world.drain()
        world.clock.advance(10)
    assert set(world.files()) == {path for path in puts if path.endswith(".txt")}
    assert world.doubled() == []


def test_a_cursor_is_read_as_it_was_written() -> None:
    world = swept_world(*many())
    report = part(world)
    assert world.source_sweep().reports().late == report
    assert isinstance(report.cursor, LateCursor)
    assert report.cursor.position == ListingPosition(report.cursor.position.partition, report.cursor.position.after)
