"""What goes wrong, one by one: events, sweeps, jobs and storage against the rows that end up in the table."""

from collections.abc import Callable

import pytest

from blizzard.errors import LostRace, PermanentError, RecoveryError, StorageUnavailable
from blizzard.state.batch import OnOverwrite
from spark_job.loop.ingest import MAX_LAG_SEGMENTS, Step
from tests.unit.fakes import DAY_SECS, POISON, Crash, Days, World, crash, settings


def lines(*paths: str) -> dict[str, list[str]]:
    """What the table holds of files that `World.arrive` made."""
    return {path: [f"{path} 0", f"{path} 1"] for path in sorted(paths)}


def day(world: World, ago: int = 0) -> str:
    return Days().floor(world.clock.now_ts, ago + 1)


def dated(**more: object) -> World:
    return World(settings(window=Days(), **more))  # type: ignore[arg-type]


def close_all(world: World) -> None:
    """Let everything dated leave the window, and be closed."""
    world.clock.advance(5 * DAY_SECS)
    world.settle()
    assert world.late_sweep().listed == 0
    world.drain()


# -- Events


def test_a_notification_that_comes_twice_is_ingested_once() -> None:
    world = World()
    event = world.arrive("a.txt")
    world.deliver(event, event)
    assert world.drain().files == 1
    world.deliver(event)
    world.drain()
    assert world.files() == lines("a.txt")


def test_notifications_out_of_order_are_all_ingested() -> None:
    world = World()
    events = [world.put(name, f"{name} 0", f"{name} 1") for name in ("a.txt", "b.txt", "c.txt")]
    world.deliver(events[2])
    world.drain()
    world.deliver(events[1], events[0])
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "c.txt")


def test_an_old_segment_that_is_replayed_changes_nothing() -> None:
    world = World()
    old = [world.arrive(name) for name in ("a.txt", "b.txt")]
    world.settle()
    world.deliver(*old)
    world.drain()
    assert world.files() == lines("a.txt", "b.txt")


def test_events_for_what_is_known_need_no_commit_until_the_position_lags() -> None:
    world = World()
    event = world.arrive("a.txt")
    world.drain()
    commits = len(world.delta.commits)
    for _ in range(MAX_LAG_SEGMENTS):
        world.deliver(event)
    world.drain()
    assert len(world.delta.commits) == commits
    world.deliver(event)
    world.drain()
    assert len(world.delta.commits) == commits + 1
    assert world.segments() == [MAX_LAG_SEGMENTS + 1]


# -- Overwritten files


def test_a_file_that_is_overwritten_before_it_is_read_is_ingested_with_its_new_content() -> None:
    world = World()
    world.arrive("a.txt", "old")
    world.arrive("a.txt", "new")
    world.drain()
    assert world.files() == {"a.txt": ["new"]}


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("policy", "rows", "dead"),
    [("ignore", ["old", "older"], False), ("dead_letter", ["old", "older"], True), ("replace", ["new"], False)],
)
def test_a_file_that_is_overwritten_after_it_was_ingested(
    policy: str, rows: list[str], dead: bool, settled: bool
) -> None:
    world = World(settings(on_overwrite=OnOverwrite(policy)))
    world.arrive("a.txt", "old", "older")
    world.settle() if settled else world.drain()
    world.arrive("a.txt", "new")
    assert world.drain().overwritten >= (policy != "ignore")
    world.arrive("b.txt")
    world.drain()
    assert world.files() == {"a.txt": rows} | lines("b.txt")
    assert bool(world.dead_files()) == dead


def test_an_overwritten_file_whose_event_was_lost_is_found_by_the_late_sweep() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt", "old")
    world.drain()
    world.put("a.txt", "new")
    world.late_sweep()
    world.drain()
    assert world.files() == {"a.txt": ["new"]}


@pytest.mark.parametrize("announced", [True, False])
def test_a_file_that_was_gone_and_is_put_again_comes_in_though_nothing_else_does(announced: bool) -> None:
    world = World()
    world.arrive("c.txt", "old")
    world.source.delete(["c.txt"])
    world.drain()
    event = world.put("c.txt", "new", "newer")
    if announced:
        world.deliver(event)
    world.drain()
    world.settle()
    assert world.files() == {"c.txt": ["new", "newer"]}
    sequence = world.state_now().sequence
    world.settle()
    world.settle()
    assert world.state_now().sequence == sequence


def test_a_replacement_that_cannot_be_read_leaves_the_old_rows() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt", "old")
    world.drain()
    world.deliver(world.put("a.txt", raw=POISON))
    world.arrive("b.txt")
    world.drain()
    assert world.files() == {"a.txt": ["old"]} | lines("b.txt")
    assert world.dead_files() == {"a.txt": "not a gzip file"}


def test_of_two_replacements_the_readable_one_is_made() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt", "old")
    world.arrive("b.txt", "old")
    world.drain()
    world.deliver(world.put("a.txt", raw=POISON), world.put("b.txt", "new"))
    world.drain()
    assert world.files() == {"a.txt": ["old"], "b.txt": ["new"]}


def test_an_event_for_content_that_is_gone_is_no_overwrite() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    stale = world.put("a.txt", "old")
    world.arrive("a.txt", "new")
    world.drain()
    world.deliver(stale)
    assert world.drain().overwritten == 0
    assert world.files() == {"a.txt": ["new"]}


def test_an_old_event_in_the_same_batch_does_not_hide_that_a_file_was_overwritten() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    old = world.arrive("a.txt", "old")
    world.settle()
    world.deliver(old, world.put("a.txt", "newer"), world.put("a.txt", "newest"), old)
    world.drain()
    assert world.files() == {"a.txt": ["newest"]}


def test_what_was_overwritten_before_the_first_sweep_is_found_by_the_first_late_sweep() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE, late_overlap_secs=1.0))
    world.arrive("a.txt", "old")
    world.drain()
    world.put("a.txt", "new")
    world.settle()
    assert world.files() == {"a.txt": ["new"]}


# -- Commits and jobs


def test_a_commit_whose_answer_was_lost_is_found_and_not_repeated() -> None:
    world = World()
    world.arrive("a.txt")
    world.delta.faults = ["answer lost"]
    assert world.drain().commits == 1
    assert world.files() == lines("a.txt")
    assert world.doubled() == []


def test_a_commit_that_did_not_arrive_is_repeated() -> None:
    world = World()
    world.arrive("a.txt")
    world.delta.faults = ["lost", "lost"]
    world.drain()
    assert world.files() == lines("a.txt")
    assert len(world.slept_secs) == 2


def test_of_two_jobs_at_once_one_commits_and_the_other_plans_anew() -> None:
    world = World()
    world.arrive("a.txt")
    job = world.job()
    world.delta.before_commit = lambda: (world.arrive("b.txt"), world.drain(), world.arrive("c.txt"))
    totals = job.drain()
    assert (totals.lost_races, totals.commits) == (1, 1)
    assert world.files() == lines("a.txt", "b.txt", "c.txt")
    assert world.doubled() == []


def test_a_job_that_planned_before_another_one_committed_is_not_skipped_in_silence() -> None:
    world = World()
    world.arrive("a.txt")
    job = world.job()
    job.step(draining=False)
    world.arrive("b.txt")
    world.drain()
    world.arrive("c.txt")
    assert job.drain().lost_races == 1
    assert world.files() == lines("a.txt", "b.txt", "c.txt")
    assert world.doubled() == []


def test_the_first_commit_of_another_job_during_recovery_is_no_error() -> None:
    world = World()
    world.arrive("a.txt")
    world.calls.before_named("holds_rows", world.drain)
    job = world.job()
    world.arrive("b.txt")
    job.drain()
    assert world.files() == lines("a.txt", "b.txt")
    assert world.doubled() == []


def test_a_job_that_always_loses_says_so() -> None:
    world = World(settings(max_attempts=3))
    world.arrive("b.txt")
    overtake(world, times=3)
    with pytest.raises(LostRace, match="3 times in a row"):
        world.drain()


def overtake(world: World, times: int) -> None:
    """Let another job commit all there is just before each of the next commits, while more comes."""

    def win() -> None:
        world.drain()
        world.arrive(f"z{times}.txt")
        if times > 1:
            overtake(world, times - 1)

    world.delta.before_commit = win


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
    """Do everything, die before the n-th call, suffer harm, do it again from the start, and come to an end."""
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


def test_a_manifest_that_is_wiped_between_any_two_calls_loses_and_doubles_nothing() -> None:
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


# -- Bad files


def test_half_of_a_batch_is_bad_and_the_other_half_is_ingested() -> None:
    world = World()
    events = [world.put(f"{n}.txt", f"{n}.txt 0", f"{n}.txt 1") for n in range(3)]
    world.deliver(*events, *(world.put(f"{n}.txt", raw=POISON) for n in range(3, 6)))
    assert world.drain().commits == 1
    assert world.files() == lines("0.txt", "1.txt", "2.txt")
    assert sorted(world.dead_files()) == ["3.txt", "4.txt", "5.txt"]


def test_a_poison_file_is_dead_lettered_once_and_blocks_nobody() -> None:
    world = World()
    world.deliver(world.put("a.txt", raw=POISON))
    world.drain()
    world.settle()
    world.arrive("b.txt")
    world.drain()
    assert world.files() == lines("b.txt")
    assert world.dead_letters.files() == 1


def test_a_file_that_is_gone_before_it_is_read_is_dead_lettered() -> None:
    world = World()
    world.arrive("a.txt")
    world.source.delete(["a.txt"])
    world.arrive("b.txt")
    world.drain()
    assert world.dead_files() == {"a.txt": "gone"}
    assert world.files() == lines("b.txt")


def test_bad_records_are_dead_lettered_with_their_row_and_the_others_are_ingested() -> None:
    world = World()
    world.arrive("a.txt", "good", "!bad", "fine")
    totals = world.drain()
    assert (totals.rows, totals.dead_records) == (2, 1)
    assert world.files() == {"a.txt": ["good", "fine"]}
    assert world.dead_records() == {"a.txt": [1]}


# -- Storage in trouble


def test_a_batch_that_is_mostly_denied_stops_the_job_and_dead_letters_nothing() -> None:
    world = World()
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
    world.reader.denied = {"a.txt", "b.txt"}
    with pytest.raises(PermanentError, match="2 of 3 files"):
        world.drain()
    assert (world.files(), world.dead_files()) == ({}, {})
    world.reader.denied = set()
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "c.txt")


def test_one_denied_file_among_others_is_its_own_trouble() -> None:
    world = World()
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
    world.reader.denied = {"b.txt"}
    world.drain()
    assert world.files() == lines("a.txt", "c.txt")
    assert world.dead_files() == {"b.txt": "403 forbidden"}


def test_storage_that_fails_now_and_then_is_tried_again() -> None:
    world = World()
    world.arrive("a.txt")
    world.reader.passing = 3
    world.drain()
    assert world.files() == lines("a.txt")
    assert world.slept_secs == sorted(world.slept_secs)
    assert len(world.slept_secs) == 3


def test_storage_that_never_recovers_ends_the_job_with_its_error_and_loses_nothing() -> None:
    world = World(settings(max_attempts=4))
    world.arrive("a.txt")
    world.reader.passing = 4
    with pytest.raises(StorageUnavailable, match="503 slow down"):
        world.drain()
    assert len(world.slept_secs) == 3
    assert (world.files(), world.dead_files()) == ({}, {})
    world.drain()
    assert world.files() == lines("a.txt")


# -- Sweeps


def test_a_file_withheld_from_the_events_is_found_by_the_sweep() -> None:
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


def test_a_cold_start_takes_the_last_days_and_leaves_out_what_is_older() -> None:
    world = dated(lookback=2)
    days = [day(world, ago) for ago in range(4)]
    for name in days:
        world.put(f"{name}/a.txt", f"{name}/a.txt 0", f"{name}/a.txt 1")
    world.sweep()
    world.drain()
    world.settle()
    assert world.files() == lines(f"{days[0]}/a.txt", f"{days[1]}/a.txt")
    assert world.state_now().closed_through == days[2]


def test_a_cold_start_that_runs_out_of_time_still_leaves_out_what_is_older() -> None:
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


def test_a_stale_cold_sweep_does_not_hide_late_files_of_what_it_left_out() -> None:
    world = dated(max_tracked_files=0, late_overlap_secs=1.0)
    old = day(world)
    world.arrive(f"{old}/b.txt")
    world.drain()
    assert world.state_now().partition_watermarks == {old: "b.txt"}
    world.put(f"{old}/a.txt", f"{old}/a.txt 0", f"{old}/a.txt 1")
    world.clock.advance(5 * DAY_SECS)
    world.sweep(world.unknown())
    world.drain()
    world.clock.advance(10)
    world.late_sweep()
    world.drain()
    assert world.files() == lines(f"{old}/a.txt", f"{old}/b.txt")


def test_a_sweep_whose_segments_were_wiped_before_it_appended_settles_nothing_of_theirs() -> None:
    world = World(settings(late_overlap_secs=1.0))
    world.arrive("a.txt")
    world.drain()
    world.deliver(world.put("b.txt", "b.txt 0", "b.txt 1"))
    world.put("c.txt", "c.txt 0", "c.txt 1")
    world.clock.advance(100)
    sweeper = world.sweeper()
    world.wipe()
    sweeper.watermark_sweep()
    world.drain()
    assert world.files() == lines("a.txt", "c.txt")
    world.sweep()
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "c.txt")


def test_a_late_sweep_whose_first_segment_is_wiped_does_not_count_as_one() -> None:
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


# -- Files larger than a batch


def large(world: World, path: str = "large.txt", records: int = 30) -> list[str]:
    content = [f"record {n:02d}" for n in range(records)]
    world.arrive(path, *content)
    return content


def test_a_large_file_is_read_in_slices_and_a_crash_between_them_doubles_nothing() -> None:
    world = World(settings(interval_bytes=100))
    content = large(world)
    while world.files() != {"large.txt": content}:
        before = len(world.delta.rows)
        job = world.job()
        job.step(draining=True)
        assert len(world.delta.rows) == before + 10
    world.settle()
    assert world.files() == {"large.txt": content}
    assert world.doubled() == []


def test_no_watermark_passes_a_file_in_progress() -> None:
    world = World(settings(interval_bytes=100))
    large(world, "b.txt")
    world.arrive("c.txt", "short")
    world.clock.advance(100)
    world.sweep()
    job = world.job()
    job.step(draining=True)
    assert world.state_now().in_progress == {"b.txt": 10}
    assert world.state_now().partition_watermarks == {}
    world.settle()
    assert world.state_now().partition_watermarks == {"": "c.txt"}


def test_a_file_that_changes_while_in_progress_keeps_its_first_rows_and_is_dead_lettered() -> None:
    world = World(settings(interval_bytes=100))
    content = large(world)
    world.job().step(draining=True)
    world.put("large.txt", *reversed(content))
    world.settle()
    assert world.files() == {"large.txt": content[:10]}
    assert world.dead_files() == {"large.txt": "it changed while in progress"}


def test_a_file_that_changes_while_in_progress_is_replaced_though_no_event_tells_of_it() -> None:
    world = World(settings(interval_bytes=100, on_overwrite=OnOverwrite.REPLACE))
    content = large(world)
    world.job().step(draining=True)
    world.put("large.txt", *reversed(content))
    world.settle()
    assert world.files() == {"large.txt": [*reversed(content)]}
    assert world.dead_files() == {"large.txt": "it changed while in progress"}


def test_a_file_that_changes_while_in_progress_has_a_letter_for_each_content_where_changes_are_to_have_one() -> None:
    world = World(settings(interval_bytes=100, on_overwrite=OnOverwrite.DEAD_LETTER))
    content = large(world)
    world.job().step(draining=True)
    before = world.source.head("large.txt")
    world.put("large.txt", *reversed(content))
    after = world.source.head("large.txt")
    world.settle()
    assert before is not None
    assert after is not None
    assert world.files() == {"large.txt": content[:10]}
    assert world.dead_contents() == {("large.txt", before.etag), ("large.txt", after.etag)}


def test_a_change_is_noticed_even_if_no_record_was_good_so_far() -> None:
    """And since the table has nothing of the file, what it holds now is a late file."""
    world = World(settings(interval_bytes=100))
    world.arrive("large.txt", *(f"!record {n}" for n in range(30)))
    job = world.job()
    job.step(draining=True)
    world.put("large.txt", *(records := [f"record {n:02d}" for n in range(30)]))
    job.step(draining=True)
    assert world.files() == {}
    assert world.dead_files() == {"large.txt": "it changed while in progress"}
    world.settle()
    assert world.files() == {"large.txt": records}


def test_a_large_late_file_and_its_neighbours_are_all_ingested() -> None:
    world = World(settings(interval_bytes=100))
    world.arrive("z.txt")
    world.settle()
    world.arrive("a.txt")
    content = large(world, "b.txt")
    world.arrive("c.txt")
    world.drain()
    assert world.files() == lines("a.txt", "c.txt", "z.txt") | {"b.txt": content}


def test_a_large_late_poison_file_ends() -> None:
    world = World(settings(interval_bytes=100))
    world.arrive("z.txt")
    world.settle()
    world.deliver(world.put("a.txt", raw=POISON + b"x" * 200))
    world.arrive("b.txt")
    world.calls.at_most(2_000)
    world.drain()
    assert world.files() == lines("b.txt", "z.txt")
    assert world.dead_files() == {"a.txt": "not a gzip file"}


# -- Bounds


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


def test_files_that_are_deleted_once_ingested_are_not_tracked_for_ever() -> None:
    world = World(settings(interval_files=10, max_tracked_files=20))
    for n in range(10):
        for event in [world.arrive(f"{n}{m}.txt") for m in range(10)]:
            world.drain()
            world.source.delete([event.path])
    assert len(world.files()) == 100
    assert max(len(state.files) for state in world.states()) <= 20 + 10


def test_the_job_itself_settles_over_files_that_nobody_announced() -> None:
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


def test_the_job_settles_over_a_file_larger_than_a_batch() -> None:
    world = World(settings(interval_bytes=100, interval_files=2, max_tracked_files=2))
    content = [f"record {n:02d}" for n in range(30)]
    world.put("0.txt", *content)
    for n in range(1, 9):
        world.arrive(f"{n}.txt")
    world.drain()
    assert world.files() == lines(*(f"{n}.txt" for n in range(1, 9))) | {"0.txt": content}
    assert max(len(state.files) for state in world.states()) <= 2 + 2 + 1


# -- Recovery


def test_an_unreadable_newest_checkpoint_is_repaired_from_the_one_before() -> None:
    world = World()
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
        world.drain()
    world.delta.spoil(3)
    world.forget_copy()
    world.wipe()
    world.put("d.txt", "d.txt 0", "d.txt 1")
    world.settle()
    assert world.files() == lines("a.txt", "b.txt", "c.txt", "d.txt")
    assert world.doubled() == []
    assert [fields["files_added"] for fields in world.events_logged("state_repaired")] == [1]


def test_a_repaired_state_is_committed_even_if_nothing_new_came() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.delta.spoil(1)
    world.forget_copy()
    world.drain()
    world.drain()
    assert len(world.events_logged("state_repaired")) == 1
    assert world.state_now().sequence == 1


def test_without_any_readable_checkpoint_the_state_is_rebuilt_from_the_rows() -> None:
    world = World(settings(interval_bytes=100))
    content = large(world)
    for name in ("a.txt", "b.txt", "z.txt"):
        world.arrive(name)
    job = world.job()
    job.step(draining=True)
    job.step(draining=True)
    for version in (1, 2):
        world.delta.spoil(version)
    world.forget_copy()
    world.wipe()
    world.settle()
    assert world.files() == lines("a.txt", "b.txt", "z.txt") | {"large.txt": content}
    assert world.doubled() == []


def test_rows_without_a_txn_stop_the_job() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.delta.commits = world.delta.commits[:1]
    world.arrive("b.txt")
    with pytest.raises(RecoveryError, match="holds rows of source events:landing but no Txn"):
        world.drain()
    assert world.files() == lines("a.txt")


def test_a_copy_that_was_deleted_is_written_again_by_the_next_job() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.forget_copy()
    world.drain()
    assert world.sweep().missed == 0


# -- When a batch closes


def test_a_batch_waits_for_its_interval_unless_it_is_full_or_the_run_drains() -> None:
    world = World(settings(interval_secs=60, interval_files=3))
    job = world.job()
    world.arrive("a.txt")
    assert job.step(draining=False) is Step.WAITING
    world.clock.advance(60)
    assert job.step(draining=False) is Step.COMMITTED
    world.arrive("b.txt")
    assert job.step(draining=False) is Step.WAITING
    world.arrive("c.txt")
    world.arrive("d.txt")
    assert job.step(draining=False) is Step.COMMITTED
    world.arrive("e.txt")
    assert job.step(draining=True) is Step.COMMITTED
    assert job.step(draining=True) is Step.IDLE
    assert len(world.delta.commits) == 1 + 3


def test_a_batch_that_is_full_by_bytes_does_not_wait() -> None:
    world = World(settings(interval_bytes=40))
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        world.arrive(name)
    job = world.job()
    assert job.step(draining=False) is Step.COMMITTED
    assert sorted(world.files()) == ["a.txt", "b.txt"]
