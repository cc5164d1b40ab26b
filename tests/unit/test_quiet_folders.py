"""Folders without new files for a day: in a source with many folders, ordinary sweeps leave them out, and late sweeps
take turns with them."""

from collections import Counter
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.ledger.run_index import PartitionStats
from blizzard.state.checkpoint import encode
from blizzard.state.watermark import SourceProgress, no_folder
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.folders import QuietFolders, open_partitions, quiet_folders
from blizzard.sweep.report import SweepKind
from blizzard.sweep.source_sweep import SourceSweep
from tests.unit.fakes import Calls, Days, WatchedStore, World, settings
from tests.unit.scenarios import lines

QUIET = 1000.0


def world_of(folders: int, *, many_folders: int = 3, **more: object) -> World:
    """Each folder has one file that is ingested; all of them are quiet by now."""
    world = World(
        settings(settle_delay_secs=1.0, late_overlap_secs=1.0, quiet_secs=QUIET, many_folders=many_folders, **more)  # type: ignore[arg-type]
    )
    world.deliver(*(world.put(f"c{n}/b.txt", f"c{n}/b.txt 0", f"c{n}/b.txt 1") for n in range(folders)))
    world.drain()
    world.clock.advance(10)
    swept(world)
    world.clock.advance(QUIET + 100)
    return world


def swept(world: World, kind: SweepKind = SweepKind.WATERMARK, sweep: SourceSweep | None = None) -> int:
    """Returns how many folders the sweep left out. What it found is ingested."""
    report = (sweep or world.source_sweep()).sweep(kind)
    world.drain()
    return report.quiet


def put(world: World, *paths: str) -> None:
    for path in paths:
        world.put(path, f"{path} 0", f"{path} 1")


def listings(world: World, kind: SweepKind) -> Counter[str]:
    """The LIST calls of a sweep by folder."""
    calls, one = Calls(), world.source_sweep()
    one.files = WatchedStore(world.source, calls)
    swept(world, kind, one)
    made = (name.partition(" ") for name in calls.names)
    return Counter(folder for call, _, folder in made if call in ("list", "list_folders"))


def test_an_ordinary_sweep_makes_no_request_for_quiet_folders_and_one_for_each_other() -> None:
    world = world_of(20)
    world.arrive("c3/c.txt")
    world.drain()
    made = listings(world, SweepKind.WATERMARK)
    assert made == {"": 1, "c3/": 1}


def test_new_folders_and_folders_with_new_files_are_swept_at_once() -> None:
    world = world_of(6)
    put(world, "new/a.txt", "new/below/a.txt")
    world.deliver(world.put("c1/c.txt", "c1/c.txt 0", "c1/c.txt 1"))
    put(world, "c1/d.txt")
    assert swept(world) == 5
    assert world.files().keys() >= {"new/a.txt", "new/below/a.txt", "c1/c.txt", "c1/d.txt"}


@pytest.mark.parametrize("more", [{"many_folders": 7}, {"quiet_secs": 0.0}], ids=str)
def test_no_folder_is_left_out_of_a_source_with_few_of_them_or_if_that_is_not_wanted(more: dict[str, float]) -> None:
    world = world_of(6)
    rules = world.settings.sweep_rules
    for name, value in more.items():
        object.__setattr__(rules, name, value)
    put(world, "c1/c.txt")
    assert swept(world) == 0
    assert "c1/c.txt" in world.files()


def test_a_lost_event_in_a_quiet_folder_is_found_within_a_day_by_late_sweeps_that_take_turns() -> None:
    world = world_of(40)
    swept(world, SweepKind.LATE)
    lost = [f"c{n}/{name}.txt" for n in range(40) for name in "ac"]
    put(world, *lost)
    visited = []
    for _ in range(11):
        world.clock.advance(QUIET / 10)
        before = len(world.files())
        swept(world)
        swept(world, SweepKind.LATE)
        visited.append((len(world.files()) - before) // 2)
    assert world.files() == lines(*(f"c{n}/{name}.txt" for n in range(40) for name in "abc"))
    assert world.doubled() == []
    assert max(visited) < 20, "the folders do not all come at once"


def test_a_late_sweep_that_did_not_run_for_days_visits_every_quiet_folder() -> None:
    world = world_of(10)
    put(world, *(f"c{n}/a.txt" for n in range(10)))
    swept(world, SweepKind.LATE)
    world.clock.advance(5 * QUIET)
    put(world, *(f"c{n}/0.txt" for n in range(10)))
    assert swept(world, SweepKind.LATE) == 0
    assert len(world.files()) == 30


def test_dated_folders_are_never_left_out_since_they_are_closed() -> None:
    world = world_of(2, window=Days(), lookback=50)
    world.deliver(*(world.put(f"{Days().oldest_folder(world.clock.now_ts, n + 1)}/a.txt", "x") for n in range(5)))
    world.drain()
    world.clock.advance(QUIET + 100)
    swept(world)
    assert swept(world) == 2


def test_a_folder_of_folders_is_quiet_only_if_all_below_it_are() -> None:
    world = world_of(0)
    world.deliver(*(world.put(f"{top}/{n}/a.txt", "x") for top in "pq" for n in range(4)))
    world.drain()
    world.clock.advance(10)
    swept(world)
    world.clock.advance(QUIET + 100)
    world.arrive("q/2/b.txt")
    world.drain()
    assert listings(world, SweepKind.WATERMARK) == {"": 1, "q/": 1, "q/2/": 1}


prefixes = st.sampled_from(["a", "a/b", "a/b/c", "d", "e/f", ""])


@given(
    st.dictionaries(prefixes, st.integers(0, 30), min_size=1),
    st.lists(st.floats(1, 9), min_size=1, max_size=12),
    st.sets(prefixes),
)
def test_every_folder_is_visited_at_least_once_in_its_time(
    newest: dict[str, int], pauses: list[float], more: set[str]
) -> None:
    """`newest`: seconds of the newest file by partition, which the ledger knows. `more` are new."""
    store = MemoryStore(lambda: 0.0)
    for partition in {*newest, *more}:
        store.put(f"{partition}/x" if partition else "x", b"")
    stats = {partition: PartitionStats(1, 0, secs * 1000, "x") for partition, secs in newest.items()}
    rules, progress = settings(quiet_secs=10.0).sweep_rules, SourceProgress({}, {}, None, None, no_folder)
    now_ts, last_ts, seen_ts = 100.0, None, dict.fromkeys({*newest, *more}, 100.0)
    for pause in [0.0, *pauses]:
        now_ts += pause
        quiet = quiet_folders(stats, (), rules, now_ts=now_ts, due_since_ts=last_ts)
        visited = {*open_partitions(store, progress, quiet=quiet)}
        last_ts = now_ts
        for partition in seen_ts:
            if partition in visited:
                seen_ts[partition] = now_ts
            assert now_ts - seen_ts[partition] <= 10.0 + max(pauses)


def test_a_late_sweep_resumes_in_a_quiet_folder_that_it_visits() -> None:
    store = MemoryStore(lambda: 0.0)
    names = [f"a/{n}" for n in range(20)]
    for name in names:
        store.put(f"{name}/x", b"")
    rules, progress = settings(quiet_secs=10.0).sweep_rules, SourceProgress({}, {}, None, None, no_folder)
    stats = dict.fromkeys(names, PartitionStats(1, 0, 0, "x"))
    due_ts = 100.0 + 10.0 * (crc32(b"a/") / 2**32)

    def walked(start: str) -> list[str]:
        quiet = quiet_folders(stats, (), rules, now_ts=due_ts + 1.0, due_since_ts=due_ts - 1.0)
        return [*open_partitions(store, progress, start, quiet)]

    whole = walked("")
    assert {*names} < {*whole}
    assert all(walked(partition) == whole[at:] for at, partition in enumerate(whole))


@pytest.mark.parametrize("before_ledger_ts", [None, 1.0])
def test_the_state_forgets_quiet_folders_unless_only_it_knows_their_first_files(
    before_ledger_ts: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(5)
    world.arrive("c1/c.txt")
    world.drain()
    monkeypatch.setattr("spark_job.loop.files.source.FORGET_EVERY_COMMITS", 1)
    marks = dict(world.state_now().partition_watermarks)
    assert {*marks} == {f"c{n}" for n in range(5)}, "the marks of the sweep are consumed"
    if before_ledger_ts is not None:
        state = replace(world.state_now(), before_ledger_ts=before_ledger_ts)
        world.delta.commits[-1] = replace(world.delta.commits[-1], user_metadata=encode(state))
        world.forget_copy()
    world.arrive("c2/c.txt")
    world.drain()
    kept = {*world.state_now().partition_watermarks}
    assert kept == ({*marks} if before_ledger_ts else {"c1", "c2"})
    world.deliver(*(world.source_event(f"c{n}/b.txt") for n in range(5)))
    world.drain()
    swept(world)
    swept(world, SweepKind.LATE)
    assert world.doubled() == []
    assert len(world.files()) == 7


def test_the_walk_counts_what_it_leaves_out() -> None:
    quiet = QuietFolders(100.0, 10.0, float("inf"))
    for prefix in ("a/", "b/c/"):
        quiet.add(prefix, 5.0)
    assert [quiet.leaves_out(prefix) for prefix in ("", "a/", "b/", "b/c/", "new/")] == [False, True, True, True, False]
    assert quiet.left_out == 3


@pytest.mark.parametrize("stays_active", [False, True])
def test_a_file_that_a_quiet_folder_got_without_an_event_is_found_when_the_folder_gets_others(
    stays_active: bool,
) -> None:
    """From then on its folder is listed as any other one, which late sweeps do not look back in for so long."""
    for folder in (f"c{n}" for n in range(10)):
        world = world_of(10)
        swept(world)
        swept(world, SweepKind.LATE)
        world.clock.advance(5)
        put(world, f"{folder}/a.txt")  # sorts below the watermark
        world.clock.advance(5)
        for turn in range(15):
            if turn == 0 or stays_active:
                world.arrive(f"{folder}/c{turn:03d}.txt")
                world.drain()
            swept(world)
            swept(world, SweepKind.LATE)
            world.clock.advance(QUIET / 10)
        assert f"{folder}/a.txt" in world.files()
