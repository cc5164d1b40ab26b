"""Ordinary sweeps find files whose names are in no order, with a bounded number of requests."""

import hashlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.cli.source_status import source_status
from blizzard.cli.status import facts_of
from blizzard.ledger.run_index import PartitionStats
from blizzard.manifest.segments import FoundBy
from blizzard.sweep import unordered
from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.source_sweep import SourceSweep
from blizzard.sweep.sweeper import OutOfTime
from blizzard.sweep.unordered import UnorderedReport, is_unordered, unordered_partitions
from tests.unit.fakes import Calls, WatchedStore, World, settings

ROUND_SECS = 40.0


def random_name(n: int) -> str:
    return f"{hashlib.md5(b'%d' % n).hexdigest()[:12]}.txt"


def name_in_order(n: int) -> str:
    return f"{n:06}.txt"


def lower_name(n: int) -> str:
    """A random name that sorts before nearly all others."""
    return f"0{random_name(n)}"


def busy_world(
    *folders: str,
    named: Callable[[int], str] = random_name,
    rounds: int = 20,
    max_requests: int = 30,
    quiet_secs: float = 86_400.0,
) -> World:
    """Every folder had a file every ROUND_SECS, and its watermark is at its last name."""
    wanted = settings(
        settle_delay_secs=60.0, late_overlap_secs=100.0, unordered_requests=max_requests, quiet_secs=quiet_secs
    )
    world = World(wanted)
    swept(world)
    for n in range(rounds):
        world.clock.advance(ROUND_SECS)
        for folder in folders or ("a/",):
            world.arrive(f"{folder}{named(n)}")
        world.drain()
    world.clock.advance(100.0)
    swept(world)
    world.drain()
    return world


def swept(world: World, one: SourceSweep | None = None) -> SweepReport:
    return (one or world.source_sweep()).sweep(SweepKind.WATERMARK)


def whole(report: SweepReport) -> UnorderedReport:
    assert report.unordered is not None
    return report.unordered


def test_a_random_name_without_an_event_is_found_by_the_next_ordinary_sweep() -> None:
    world = busy_world("a/", "b/")
    world.put(f"a/{lower_name(1)}", "lost")
    report = swept(world)
    assert report.missed == 1
    assert whole(report) == UnorderedReport(partitions=2, listed=2, requests=2)
    *_, last = world.manifest().unconsumed(world.source_sweep().checkpoint().position)
    assert [entry.found_by for entry in last.segment.entries] == [FoundBy.SWEEP]
    world.drain()
    assert world.files()[f"a/{lower_name(1)}"] == ["lost"]


def test_what_was_found_is_not_appended_again_neither_before_nor_after_it_is_ingested() -> None:
    world = busy_world()
    world.put(f"a/{lower_name(1)}", "lost")
    assert [swept(world).missed for _ in range(3)] == [1, 0, 0]
    world.drain()
    assert [swept(world).missed for _ in range(2)] == [0, 0]
    assert world.doubled() == []


def test_a_file_above_the_watermark_is_appended_once() -> None:
    world = busy_world()
    world.put("a/z.txt", "new")
    assert swept(world).missed == 1


def test_an_overdue_file_below_the_watermark_counts_as_unannounced() -> None:
    world = busy_world()
    world.put(f"a/{lower_name(1)}", "lost")
    world.clock.advance(1000.0)
    assert swept(world).unannounced == 1


def test_files_that_an_earlier_late_sweep_covered_and_files_of_others_are_not_looked_up() -> None:
    world = busy_world()
    world.put("a/0.tmp", "not of the source")
    world.source_sweep().sweep(SweepKind.LATE)
    world.drain()
    assert swept(world).missed == 0


def test_names_in_order_cost_no_request_and_each_receipt_is_read_once() -> None:
    world = busy_world(named=name_in_order)
    calls, one = Calls(), world.source_sweep()
    one.state = WatchedStore(world.state, calls)
    assert whole(swept(world, one)) == UnorderedReport(0, 0, 0)
    for n in range(4):
        world.clock.advance(60.0)
        world.arrive(f"a/{name_in_order(100 + n)}")
        world.drain()
        swept(world, one)
    read = [name for name in calls.names if name.startswith("get ") and "/receipts/" in name]
    assert len(read) == len(set(read)) >= 5


def test_no_request_is_made_if_the_source_allows_none() -> None:
    world = busy_world(max_requests=0)
    world.put(f"a/{lower_name(1)}", "lost")
    report = swept(world)
    assert (report.missed, report.unordered) == (0, None)


class TestTurns:
    @pytest.fixture
    def world(self, monkeypatch: pytest.MonkeyPatch) -> World:
        """Five partitions of 25 files. A request returns 10 files, and a sweep may make 4."""
        monkeypatch.setattr(unordered, "FILES_PER_REQUEST", 10)
        return busy_world(*(f"{folder}/" for folder in "abcde"), rounds=25, max_requests=4)

    def test_each_sweep_continues_where_the_last_one_stopped(self, world: World) -> None:
        found = [whole(swept(world)) for _ in range(5)]
        assert [each.requests for each in found] == [4] * 5
        assert [each.listed for each in found] == [1, 1, 2, 1, 1]
        assert [each.next.partition for each in found if each.next] == ["b", "c", "e", "a", "b"]
        assert found[0].left == 4

    def test_a_file_anywhere_is_found_within_a_round(self, world: World) -> None:
        lost = [f"{folder}/{name}" for folder in "abcde" for name in ("0.txt", "8.txt", "e.txt")]
        for path in lost:
            world.put(path, "lost")
        # 25 or 28 files in 5 partitions take 15 requests.
        assert sum(swept(world).missed for _ in range(4)) == len(lost)
        world.drain()
        assert set(lost) <= set(world.files())
        assert world.doubled() == []

    def test_a_partition_that_is_gone_does_not_stop_the_round(self, world: World) -> None:
        swept(world)
        world.source.delete([info.key for info in world.source.list("b/")])
        assert whole(swept(world)).listed == 2

    def test_a_sweep_out_of_time_continues_later(self, world: World) -> None:
        one = world.source_sweep()
        steps = 0
        while True:
            steps += 1
            deadline_ts = world.clock.now_ts + 0.001 * steps
            try:
                report = one.sweep(SweepKind.WATERMARK, deadline_ts=deadline_ts)
            except OutOfTime:
                continue
            if report.unordered is not None and report.unordered.requests:
                break
        assert report.complete
        assert whole(report).next is not None
        assert whole(report).requests < 4


def idle_world(*folders: str, rounds: int = 20, max_requests: int = 30, quiet_secs: float = 86_400.0) -> World:
    """No folder had a file since the last late sweep."""
    world = busy_world(*folders, rounds=rounds, max_requests=max_requests, quiet_secs=quiet_secs)
    world.clock.advance(600.0)
    world.source_sweep().sweep(SweepKind.LATE)
    world.drain()
    return world


def idle(report: SweepReport) -> UnorderedReport:
    assert report.unordered_idle is not None
    return report.unordered_idle


def sweep_minutes(world: World, minutes: int) -> list[SweepReport]:
    reports = []
    for _ in range(minutes):
        world.clock.advance(60.0)
        reports.append(swept(world))
    return reports


class TestIdlePartitions:
    def test_a_file_without_an_event_after_a_late_sweep_is_found_within_a_tenth_of_the_time_to_the_next(self) -> None:
        world = idle_world("a/", "b/")
        world.put(f"b/{lower_name(1)}", "lost")
        assert sum(report.missed for report in sweep_minutes(world, 6)) == 1
        world.drain()
        assert world.files()[f"b/{lower_name(1)}"] == ["lost"]
        assert whole(swept(world)).partitions == 1
        assert world.doubled() == []

    def test_each_is_listed_once_in_that_time_however_often_the_source_is_swept(self) -> None:
        world = idle_world("a/", "b/")
        calls, one = Calls(), world.source_sweep()
        one.files = WatchedStore(world.source, calls)
        reports = []
        for _ in range(120):
            world.clock.advance(30.0)
            reports.append(swept(world, one))
        assert [whole(report).requests for report in reports] == [0] * 120
        assert [idle(report).requests for report in reports if idle(report).requests] == [2] * 10
        # Each sweep lists both folders, and the one above them, after their watermarks.
        assert sum(name.startswith("list ") for name in calls.names) == 120 * 3 + 20

    def test_they_take_a_tenth_of_the_requests_and_a_round_may_take_several_sweeps(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(unordered, "FILES_PER_REQUEST", 10)
        world = idle_world("a/", "b/", "c/", rounds=25)  # 3 requests each
        world.put(f"c/{lower_name(1)}", "lost")
        reports = sweep_minutes(world, 12)
        first = next(at for at, report in enumerate(reports) if idle(report).requests)
        one_round = reports[first : first + 6]
        assert [idle(report).requests for report in one_round] == [3, 3, 3, 0, 0, 0]
        assert [idle(report).partitions for report in one_round] == [3, 2, 1, 0, 0, 0]
        assert [place.partition for report in one_round if (place := idle(report).next)] == ["b", "c"]
        assert [report.missed for report in one_round] == [0, 0, 1, 0, 0, 0]

    def test_active_ones_come_first_and_a_sweep_never_makes_more_requests_than_it_may(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(unordered, "FILES_PER_REQUEST", 10)
        world = idle_world("a/", "b/", "c/", "d/", rounds=25, max_requests=4)
        for folder in "ab":  # 3 requests each
            world.arrive(f"{folder}/{random_name(1000)}")
        world.drain()
        reports = sweep_minutes(world, 14)
        assert [whole(report).requests for report in reports] == [4] * 14
        waiting = [idle(report) for report in reports if idle(report).partitions]
        assert {(each.partitions, each.requests) for each in waiting} == {(2, 0)}
        world.source.delete([info.key for folder in ("a/", "b/") for info in world.source.list(folder)])
        reports = sweep_minutes(world, 6)
        assert [(whole(report).requests, idle(report).requests) for report in reports] == [(2, 1)] * 6

    def test_a_partition_without_a_file_for_a_day_is_left_to_late_sweeps(self) -> None:
        world = idle_world()
        world.clock.advance(86_400.0)
        world.source_sweep().sweep(SweepKind.LATE)
        world.put(f"a/{lower_name(1)}", "lost")
        assert [idle(report).partitions for report in sweep_minutes(world, 7)] == [0] * 7
        assert world.source_sweep().sweep(SweepKind.LATE).missed == 1

    def test_without_a_time_after_which_folders_are_quiet_it_is_still_listed(self) -> None:
        world = idle_world(quiet_secs=0.0)
        world.clock.advance(86_400.0)
        world.source_sweep().sweep(SweepKind.LATE)
        world.put(f"a/{lower_name(1)}", "lost")
        assert sum(report.missed for report in sweep_minutes(world, 6)) == 1

    def test_after_a_report_of_the_version_before_a_round_begins_at_once(self) -> None:
        world = idle_world()
        swept(world)
        document = json.loads(world.state.get(world.identity.report_key))
        del document["watermark"]["unordered_idle"]
        world.state.put(world.identity.report_key, json.dumps(document).encode())
        assert world.source_sweep().reports().watermark is not None
        assert idle(swept(world)) == UnorderedReport(partitions=1, listed=1, requests=1)


def test_files_that_the_job_commits_while_a_sweep_begins_are_not_appended_again() -> None:
    world = busy_world()
    world.arrive("a/z.txt")
    world.drain()
    calls, one = Calls(), world.source_sweep()
    world.arrive(f"a/{lower_name(1)}")
    world.arrive(f"a/{lower_name(2)}")
    one.state = WatchedStore(world.state, calls)
    one.manifest = type(one.manifest)(one.state, world.identity.state_prefix, world.identity.source_id)
    calls.before_named(f"list {world.identity.state_prefix}/pending/", world.drain)
    assert swept(world, one).missed == 0
    assert {f"a/{lower_name(1)}", f"a/{lower_name(2)}"} <= set(world.files())


def test_a_whole_listing_settles_nothing() -> None:
    world = busy_world()
    world.put(f"a/{lower_name(1)}", "lost")
    world.clock.advance(500.0)
    (number,) = swept(world).segments
    (found,) = [world.manifest().read(ref) for ref in world.manifest().refs() if ref.number == number]
    assert found.sweep is not None
    assert (found.sweep.marks, found.sweep.closing, found.sweep.late_swept_ts) == ((), None, None)


def test_status_shows_folders_in_no_order_and_how_many_of_them_were_listed() -> None:
    world = busy_world("a/", "b/", max_requests=1)
    report = swept(world)
    identity = world.identity
    status = source_status(
        world.state,
        pipeline=identity.pipeline,
        source=identity.source,
        state_prefix=identity.state_prefix,
        table_uri=world.state.uri,
        now_ts=world.clock.now_ts,
    )
    assert status.unordered == whole(report)
    assert ("in no order", "2 folders; the last sweep listed 1 of them with 1 requests") in facts_of(status)


class TestOrder:
    def stats(self, files: int, disordered: int) -> PartitionStats:
        return PartitionStats(files, disordered)

    def test_a_few_late_files_do_not_make_a_partition_unordered(self) -> None:
        assert not is_unordered(self.stats(10_000, 200))
        assert not is_unordered(self.stats(5, 2))
        assert is_unordered(self.stats(10_000, 201))
        assert is_unordered(self.stats(8, 3))

    def test_a_small_partition_is_judged_as_the_whole_source(self) -> None:
        of_source = {"large": self.stats(1000, 400), "new": self.stats(2, 0), "in order": self.stats(100, 0)}
        assert unordered_partitions(of_source) == ["large", "new"]
        assert unordered_partitions({"large": self.stats(1000, 0), "new": self.stats(2, 0)}) == []


names = (
    st.integers(0, 40).map(random_name) | st.integers(0, 40).map(name_in_order) | st.sampled_from(["0.txt", "z.txt"])
)
paths = st.builds(str.__add__, st.sampled_from(["", "a/", "b/c/"]), names)
steps = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "lose", "lose", "sweep", "drain", "late"]),
        paths,
        st.sampled_from([1.0, 70.0, 500.0]),
    ),
    max_size=40,
)


@given(steps, st.integers(0, 3))
def test_no_file_is_lost_or_doubled_whatever_its_name(plan: list[tuple[str, str, float]], max_requests: int) -> None:
    world = World(settings(settle_delay_secs=60.0, late_overlap_secs=100.0, unordered_requests=max_requests))
    for action, path, secs in plan:
        world.clock.advance(secs)
        if action in ("arrive", "lose") and world.source.head(path) is None:
            event = world.put(path, path)
            if action == "arrive":
                world.deliver(event)
        elif action == "sweep":
            report = swept(world)
            listed = [each.requests for each in (report.unordered, report.unordered_idle) if each is not None]
            assert sum(listed) <= max_requests
        elif action == "late":
            world.source_sweep().sweep(SweepKind.LATE)
        elif action == "drain":
            world.drain()
    world.settle()
    assert sorted(world.files()) == sorted(info.key for info in world.source.list())
    assert world.doubled() == []


def test_an_overwritten_file_is_left_to_late_sweeps() -> None:
    """Otherwise each ordinary sweep would append it again, and wake the pipeline."""
    world = busy_world("a")
    sweep = world.source_sweep()
    world.clock.advance(100)
    sweep.sweep(SweepKind.LATE)
    world.drain()
    path = sorted(world.files())[5]
    world.put(path, "another content")
    world.deliver(world.source_event(path))
    world.arrive(f"a{random_name(99)}")
    world.drain()
    world.clock.advance(100)
    report = sweep.sweep(SweepKind.WATERMARK)
    assert report.unordered is not None
    assert report.unordered.listed == 1
    assert report.missed == 0
    assert sweep.sweep(SweepKind.LATE).missed == 1
