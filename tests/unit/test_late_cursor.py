"""A late sweep in parts finds what one in a single piece would, whatever happens between the parts."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from blizzard.manifest.segments import Closing, Sweep
from blizzard.state.watermark import SourceProgress, no_folder
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.late_cursor import Epoch, Ground, LateCursor, Place, Run, open_partitions
from blizzard.sweep.source_sweep import sweep_rules
from blizzard.sweep.sweeper import Kind, OutOfTime, SweepReport
from tests.unit.fakes import DAY_SECS, Calls, Days, WatchedStore, World, settings

TICK_SECS = 0.001
MAX_PARTS = 100

FOLDERS = st.sampled_from(["", "a/", "a/b/", "a!/", "a/b!/", "a0/", "b/c/d/", "é/", "z/"])
NAMES = st.sampled_from(["0.txt", "a.txt", "b.txt", "z.txt", "é.txt", "x.tmp"])
PATHS = st.builds(str.__add__, FOLDERS, NAMES)
TREES = st.sets(PATHS, max_size=14)
TIMES = st.lists(st.integers(9, 30), min_size=1, max_size=5)
"""How many looks at the clock the parts have time for, one after the other, and again from the first."""


def part(world: World, looks: int | None = 8) -> SweepReport:
    """One late sweep as the sweeper begins it, which reads what it needs from storage. None: in one piece."""
    deadline_ts = world.clock.now_ts + (1e6 if looks is None else looks * TICK_SECS)
    return world.source_sweep().sweep(Kind.LATE, deadline_ts=deadline_ts)


def parts(world: World, looks: int = 8) -> list[SweepReport]:
    """Parts until one is complete."""
    found = [part(world, looks)]
    while not found[-1].complete:
        assert len(found) < MAX_PARTS, "it never comes to an end"
        found.append(part(world, looks))
    return found


def appended(world: World, *reports: SweepReport) -> list[str]:
    return [path for report in reports for number in report.segments for path in world.paths_of(number)]


def said_ts(world: World) -> float | None:
    """What the unconsumed segments and the checkpoint say of the last late sweep."""
    checkpoint = world.source_sweep().checkpoint()
    progress = SourceProgress.from_checkpoint(checkpoint, no_folder)
    for item in world.manifest().unconsumed(checkpoint.position):
        if item.segment.sweep is not None and item.marks_are_valid:
            progress.apply_sweep(item.segment.sweep)
    return progress.late_swept_ts


def swept_world(*paths: str, **more: object) -> World:
    """These files are ingested and settled, and a late sweep has been over them. Time enough has passed since."""
    world = World(settings(late_overlap_secs=1.0, **more), tick_secs=TICK_SECS)  # type: ignore[arg-type]
    for path in paths:
        world.put(path, "x")
    world.settle()
    world.clock.advance(100)
    return world


def many(count: int = 9) -> list[str]:
    return [f"{folder}{number}.txt" for folder in ("", "a/", "a/b/", "c/") for number in range(count)]


# -- In parts


def test_it_goes_on_where_it_stopped_and_lists_nothing_twice() -> None:
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
        assert len(found) < MAX_PARTS, "it never comes to an end"
        world.drain()
        found.append(part(world, looks))
    world.drain()
    assert set(late) <= set(world.files())


def test_the_start_of_the_first_part_is_announced() -> None:
    world = swept_world(*many())
    before_ts = said_ts(world)
    first = part(world)
    world.clock.advance(500)
    assert (first.complete, said_ts(world)) == (False, before_ts)
    rest = parts(world)
    assert rest[-1].started_ts > first.started_ts + 500
    assert said_ts(world) == first.started_ts
    world.arrive("new.txt")
    world.drain()
    assert world.state_now().late_swept_ts == first.started_ts


def test_what_comes_behind_the_cursor_is_found_by_the_next_late_sweep() -> None:
    world = swept_world(*many())
    part(world)
    world.clock.advance(500)
    world.put("!.txt", "late")
    world.clock.advance(500)
    assert appended(world, *parts(world)) == []
    world.drain()
    assert appended(world, part(world, None)) == ["!.txt"]


def test_a_complete_one_leaves_no_cursor() -> None:
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
    one.sweep(Kind.WATERMARK)
    assert one.reports().late == first
    assert part(world, None).listed < len(many())


def test_the_jobs_own_sweep_lists_everything_and_ends_what_was_begun() -> None:
    world = swept_world(*many())
    assert part(world).cursor is not None
    report = world.source_sweep().sweep(Kind.LATE)
    assert (report.listed, report.complete, report.cursor) == (len(many()), True, None)
    assert said_ts(world) == report.started_ts


def test_a_folder_that_is_gone_or_closed_by_now_is_no_obstacle() -> None:
    today, later = (f"day={int(100_000 // DAY_SECS) + ago:04d}" for ago in (0, 8))
    for harm in ("gone", "closed"):
        world = swept_world(*(f"{today}/{number}.txt" for number in range(20)), window=Days())
        world.put(f"{later}/a.txt", "x")
        stopped = part(world)
        assert stopped.cursor is not None
        assert stopped.cursor.place.partition == today
        if harm == "gone":
            world.source.delete([info.key for info in world.source.list(f"{today}/")])
        else:
            closing = Sweep(closing=Closing(world.source_sweep().checkpoint().closed_through, today), relies_on=10**6)
            world.manifest().append([], writer_id="w", now_ts=0.0, sweep=closing)
            world.arrive(f"{later}/0.txt")
            world.drain()
            assert world.state_now().closed_through == today
        assert appended(world, *parts(world, 12)) == [f"{later}/a.txt"]


# -- Beginning anew


def begins_anew(world: World) -> bool:
    report = part(world, None)
    assert report.complete
    return report.listed == len(list(world.source.list()))


@pytest.fixture
def stopped() -> World:
    """A late sweep has stopped half way, and found a file before."""
    world = swept_world(*many())
    world.put("!.txt", "late")
    world.clock.advance(10)
    report = part(world, 20)
    assert appended(world, report) == ["!.txt"]
    assert report.cursor is not None
    return world


def test_it_does_not_begin_anew_without_a_reason(stopped: World) -> None:
    assert not begins_anew(stopped)


def test_not_when_what_it_found_is_consumed_nor_when_events_come_in(stopped: World) -> None:
    stopped.drain()
    stopped.arrive("b/new.txt")
    part(stopped, 12)
    stopped.drain()
    assert not begins_anew(stopped)


@pytest.mark.parametrize("harm", ["report lost", "cursor spoilt", "rules", "address", "overlap", "overtaken", "copy"])
def test_it_begins_anew_when_what_it_rests_on_has_changed(stopped: World, harm: str) -> None:
    world, key = stopped, stopped.identity.report_key
    if harm == "report lost":
        world.state.delete([key])
    elif harm == "cursor spoilt":
        document = json.loads(world.state.get(key))
        del document["late"]["cursor"]["epoch"]
        world.state.put(key, json.dumps(document).encode())
    elif harm == "rules":
        sweeping = replace(world.settings.sweep_rules, written="other")
        world.settings = replace(world.settings, sweep_rules=sweeping)
    elif harm == "address":
        moved = MemoryStore(world.clock, "memory://elsewhere/")
        for info in world.source.list():
            moved.put(info.key, world.source.get(info.key))
        world.source = moved
    elif harm == "overlap":
        sweeping = replace(world.settings.sweep_rules, late_overlap_secs=50.0)
        world.settings = replace(world.settings, sweep_rules=sweeping)
    elif harm == "overtaken":
        world.late_sweep()
    else:
        world.forget_copy()
    assert begins_anew(world)


def test_a_wiped_manifest_loses_nothing_that_an_earlier_part_had_found(stopped: World) -> None:
    stopped.wipe()
    assert begins_anew(stopped)
    stopped.drain()
    assert "!.txt" in stopped.files()


def test_nor_does_one_that_has_grown_again(stopped: World) -> None:
    numbers = stopped.segments()
    stopped.wipe()
    while max(stopped.segments(), default=-1) <= numbers[-1]:
        stopped.arrive(f"b/{len(stopped.contents)}.txt")
    stopped.drain()
    assert begins_anew(stopped)
    stopped.drain()
    assert "!.txt" in stopped.files()


def test_nor_does_a_segment_that_cannot_be_read(stopped: World) -> None:
    stopped.corrupt_segment(stopped.segments()[-1])
    assert begins_anew(stopped)
    stopped.drain()
    assert "!.txt" in stopped.files()


def test_a_pattern_or_template_that_changed_shows_in_the_rules() -> None:
    def written(pattern: str, template: str | None) -> str:
        return sweep_rules(
            pattern=pattern, prefix_template=template, lookback=1, settle_delay_secs=1.0, late_overlap_secs=1.0
        ).written

    assert written("**", None) == written("**", None)
    assert len({written("**", None), written("*", None), written("**", "day=%Y-%m-%d")}) == 3


EPOCH = Epoch(100.0, 50.0, "listing", "day=0005")


@pytest.mark.parametrize(
    ("now", "late_swept_ts", "goes_on"),
    [
        (replace(EPOCH, started_ts=101.0), 60.0, True),
        (EPOCH, 60.0, True),
        (replace(EPOCH, since_ts=51.0, closed_through="day=0006"), 99.0, True),
        (replace(EPOCH, started_ts=99.0), 60.0, False),
        (replace(EPOCH, since_ts=49.0), 60.0, False),
        (replace(EPOCH, since_ts=None), None, False),
        (replace(EPOCH, listing="other"), 60.0, False),
        (replace(EPOCH, closed_through="day=0004"), 60.0, False),
        (replace(EPOCH, closed_through=None), 60.0, False),
        (EPOCH, 100.0, False),
    ],
)
def test_an_epoch_goes_on_while_nothing_can_hide_a_file(now: Epoch, late_swept_ts: float | None, goes_on: bool) -> None:
    progress = SourceProgress({}, {}, now.closed_through, late_swept_ts, no_folder)
    assert EPOCH.goes_on(now, progress) is goes_on
    assert replace(EPOCH, since_ts=None).goes_on(replace(EPOCH, since_ts=None), progress) is (late_swept_ts != 100.0)


@pytest.mark.parametrize(
    ("run", "holds"),
    [
        (Run(3, 9, "x"), True),
        (Run(0, 7, "x"), True),
        (Run(4, 9, "x"), False),
        (Run(3, 6, "x"), False),
        (Run(3, 9, "y"), False),
        (Run(3, 9, None), False),
    ],
)
def test_ground_holds_while_all_of_it_is_in_the_run(run: Run, holds: bool) -> None:
    assert run.holds(Ground(3, 7, "x")) is holds
    assert run.holds(Ground(3, 2, "z"))


# -- The walk


def all_of(store: ObjectStore, start: str = "") -> list[str]:
    return list(open_partitions(store, SourceProgress({}, {}, None, None, no_folder), start))


@given(TREES, FOLDERS)
def test_a_walk_from_any_folder_is_the_rest_of_the_whole_walk(tree: set[str], folder: str) -> None:
    store, start = MemoryStore(lambda: 1.0), folder.removesuffix("/")
    for path in tree:
        store.put(path, b"x")
    rest = all_of(store, start)
    assert rest[0] == start
    store.put(f"{folder}x.txt", b"x")
    whole = all_of(store)
    assert [p for p in rest if p != start] == [
        p for p in whole[whole.index(start) + 1 :] if p in rest or any(path.startswith(f"{p}/") for path in tree)
    ]


def test_a_walk_on_disk_goes_on_from_a_folder_that_is_gone(tmp_path: Path) -> None:
    for path in ("a.txt", "a/b/c.txt", "d/e.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    store = LocalStore(tmp_path)
    assert all_of(store, "a/a/a") == ["a/a/a", "a/b", "d"]
    assert list(store.list("a/a/a/", start_after="a/a/a/b.txt", recursive=False)) == []


# -- Whatever the tree and the deadlines


@hypothesis_settings(max_examples=50)
@given(old=TREES, late=TREES, times=TIMES, data=st.data())
def test_the_parts_together_find_what_one_piece_would_and_lose_nothing_that_comes_between(
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
        raise AssertionError("it never comes to an end")
    assert sorted(set(found) - between) == expected
    assert len(found) == len(set(found))
    announced_ts = said_ts(world)
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
            world.source_sweep().sweep(Kind.LATE, announce=data.draw(st.booleans()))
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
    assert report.cursor.place == Place(report.cursor.place.partition, report.cursor.place.after)
