"""Worlds and late sweeps in parts, for tests of late sweeps."""

from hypothesis import strategies as st

from blizzard.state.watermark import SourceProgress, no_folder
from blizzard.sweep.report import SweepKind, SweepReport
from tests.unit.fakes import World, settings

TICK_SECS = 0.001
MAX_PARTS = 100

FOLDERS = st.sampled_from(["", "a/", "a/b/", "a!/", "a/b!/", "a0/", "b/c/d/", "é/", "z/"])
NAMES = st.sampled_from(["0.txt", "a.txt", "b.txt", "z.txt", "é.txt", "x.tmp"])
PATHS = st.builds(str.__add__, FOLDERS, NAMES)
TREES = st.sets(PATHS, max_size=14)
TIMES = st.lists(st.integers(9, 30), min_size=1, max_size=5)
"""How many clock readings each part has time for; the list repeats."""


def part(world: World, looks: int | None = 8) -> SweepReport:
    """One late sweep of the sweeper function. `looks`: how many clock readings it has time for (None: no limit)."""
    deadline_ts = world.clock.now_ts + (1e6 if looks is None else looks * TICK_SECS)
    return world.source_sweep().sweep(SweepKind.LATE, deadline_ts=deadline_ts)


def parts(world: World, looks: int = 8) -> list[SweepReport]:
    """Late sweeps until one is complete."""
    found = [part(world, looks)]
    while not found[-1].complete:
        assert len(found) < MAX_PARTS, "expected the late sweep to be complete after MAX_PARTS parts"
        found.append(part(world, looks))
    return found


def appended(world: World, *reports: SweepReport) -> list[str]:
    return [path for report in reports for number in report.segments for path in world.paths_of(number)]


def announced_ts_of(world: World) -> float | None:
    """Time of the last late sweep, by checkpoint and unconsumed segments."""
    checkpoint = world.source_sweep().checkpoint()
    progress = SourceProgress.from_checkpoint(checkpoint, no_folder)
    for item in world.manifest().unconsumed(checkpoint.position):
        if item.segment.sweep is not None and item.marks_are_valid:
            progress.apply_sweep(item.segment.sweep)
    return progress.late_swept_ts


def swept_world(*paths: str, **more: object) -> World:
    """A world in which these files are ingested and settled, and a late sweep has listed them; some time ago."""
    world = World(settings(late_overlap_secs=1.0, **more), tick_secs=TICK_SECS)  # type: ignore[arg-type]
    for path in paths:
        world.put(path, "x")
    world.settle()
    world.clock.advance(100)
    return world


def many(count: int = 9) -> list[str]:
    return [f"{folder}{number}.txt" for folder in ("", "a/", "a/b/", "c/") for number in range(count)]
