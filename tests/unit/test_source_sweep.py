"""One sweep from its parts: the report that stays of it, and which files count as unannounced."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import AccessDenied
from blizzard.manifest.segments import FoundBy
from blizzard.sweep.late_cursor import ListingPosition
from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.reports import SweepReports, read_reports
from blizzard.sweep.rules import SweepRules
from blizzard.sweep.source_sweep import Claim, SourceSweep, sweep_rules
from blizzard.sweep.sweeper import EVENT_GRACE_SECS, OutOfTime
from blizzard.sweep.unordered import UnorderedReport
from tests.unit.fakes import Calls, WatchedStore, World, settings

SETTLE_SECS = 60.0
OVERDUE_SECS = SETTLE_SECS + EVENT_GRACE_SECS


@pytest.fixture
def world() -> World:
    return World(settings(settle_delay_secs=SETTLE_SECS))


naturals = st.integers(0, 2**53)
positions = st.builds(ListingPosition, st.text(max_size=5), st.none() | st.text(max_size=5))


unordered_reports = st.builds(UnorderedReport, naturals, naturals, naturals, st.none() | positions)


def reports_of(kind: SweepKind) -> st.SearchStrategy[SweepReport]:
    return st.builds(
        SweepReport,
        kind=st.just(kind),
        started_ts=st.floats(0, 4e9),
        listed=naturals,
        missed=naturals,
        missed_bytes=naturals,
        partitions=naturals,
        segments=st.lists(naturals, max_size=3).map(tuple),
        complete=st.booleans(),
        unannounced=naturals,
        unordered=st.none() | unordered_reports,
        unordered_idle=st.none() | unordered_reports,
        inventory=st.none() | st.just("2026-11-24T01-00Z"),
    )


class TestReports:
    @given(
        st.none() | st.floats(0, 4e9),
        st.none() | reports_of(SweepKind.WATERMARK),
        st.none() | reports_of(SweepKind.LATE),
        st.none() | st.floats(0, 4e9),
    )
    def test_reports_are_read_as_they_were_written(
        self,
        since_ts: float | None,
        watermark: SweepReport | None,
        late: SweepReport | None,
        sweeping_until_ts: float | None,
    ) -> None:
        world, written = World(), SweepReports(since_ts, watermark, late, sweeping_until_ts)
        world.state.put(world.identity.report_key, written.to_json().encode())
        assert read_reports(world.state, world.identity) == written

    def test_each_kind_of_sweep_keeps_its_own_last_report(self, world: World) -> None:
        world.put("a.txt", "x")
        one = world.source_sweep()
        first = one.sweep(SweepKind.WATERMARK)
        late = one.sweep(SweepKind.LATE)
        assert one.reports() == SweepReports(first.started_ts, first, late)
        second = one.sweep(SweepKind.WATERMARK)
        assert one.reports() == SweepReports(first.started_ts, second, late)
        assert one.reports().report_of(SweepKind.LATE) == late

    @pytest.mark.parametrize("kind", ["watermark", "late"])
    def test_the_file_of_an_earlier_version_is_read_as_the_last_sweep_of_its_kind(
        self, world: World, kind: str
    ) -> None:
        old = {"kind": kind, "started_ts": 7.5, "listed": 4, "missed": 2, "missed_bytes": 30, "partitions": 3}
        old |= {"segments": [1], "complete": True}
        world.state.put(world.identity.report_key, json.dumps(old).encode())
        found = read_reports(world.state, world.identity)
        report = SweepReport(SweepKind(kind), 7.5, 4, 2, 30, 3, (1,), complete=True)
        assert found == SweepReports(7.5).with_report(report)
        assert found.report_of(SweepKind.LATE if kind == "watermark" else SweepKind.WATERMARK) is None

    def test_a_report_file_without_a_claim_has_no_running_sweep(self, world: World) -> None:
        document = json.loads(SweepReports(7.5).to_json())
        del document["sweeping_until_ts"]
        world.state.put(world.identity.report_key, json.dumps(document).encode())
        assert read_reports(world.state, world.identity) == SweepReports(7.5)

    @pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"kind": "early"}', b'{"watched_since_ts": "x"}'])
    def test_an_unreadable_report_file_counts_as_empty(self, world: World, data: bytes) -> None:
        world.state.put(world.identity.report_key, data)
        assert read_reports(world.state, world.identity) == SweepReports()


class TestSweeping:
    def test_a_sweep_starts_from_the_copy_of_the_checkpoint(self, world: World) -> None:
        world.arrive("a.txt")
        world.drain()
        world.put("b.txt", "x")
        assert world.source_sweep().sweep(SweepKind.WATERMARK).missed == 1
        world.drain()
        assert world.source_sweep().sweep(SweepKind.WATERMARK).missed == 0

    def test_a_late_sweep_skips_files_that_are_in_receipts(self, world: World) -> None:
        world.arrive("b.txt")
        world.settle()
        world.put("a.txt", "x")
        assert world.source_sweep().sweep(SweepKind.WATERMARK).missed == 0
        report = world.source_sweep().sweep(SweepKind.LATE)
        assert (report.kind, report.listed, report.missed) == (SweepKind.LATE, 2, 1)
        *_, last = world.manifest().unconsumed(world.source_sweep().checkpoint().position)
        assert [(entry.path, entry.found_by) for entry in last.segment.entries] == [("a.txt", FoundBy.LATE)]

    def test_a_sweep_logs_what_it_did(self, world: World) -> None:
        world.put("a.txt", "x")
        world.source_sweep().sweep(SweepKind.WATERMARK)
        assert world.log == [
            (
                "swept",
                {
                    "source": "events:landing",
                    "kind": "watermark",
                    "listed": 1,
                    "missed": 1,
                    "missed_bytes": 2,
                    "unannounced": 0,
                    "complete": True,
                },
            )
        ]

    def test_a_sweep_out_of_time_reports_it_and_the_next_one_continues(self, world: World) -> None:
        for number in range(9):
            world.put(f"{number}.txt", "x")
        world.clock.advance(100)
        one = world.source_sweep()
        cut = one.sweep(SweepKind.WATERMARK, deadline_ts=world.clock.now_ts + 0.006)
        assert not cut.complete
        assert 0 < cut.missed < 9
        rest = one.sweep(SweepKind.WATERMARK)
        assert rest.complete
        assert cut.missed + rest.missed == 9

    def test_a_sweep_without_time_to_read_the_backlog_does_nothing(self, world: World) -> None:
        world.arrive("a.txt")
        world.put("b.txt", "x")
        segments = world.manifest().refs()
        with pytest.raises(OutOfTime, match="were not read"):
            world.source_sweep().sweep(SweepKind.WATERMARK, deadline_ts=0.0)
        assert world.manifest().refs() == segments

    def test_sweep_rules_are_those_of_the_source_settings(self) -> None:
        rules = sweep_rules(
            pattern="**/*.gz",
            prefix_template="date=%Y-%m-%d",
            lookback=3,
            settle_delay_secs=5.0,
            late_overlap_secs=6.0,
        )
        assert (rules.matches("a/b.gz"), rules.matches("a/b.txt")) == (True, False)
        assert rules.folder_of("date=2024-01-28/x") == "date=2024-01-28"
        assert rules.before_window(1_706_450_400.0) == "date=2024-01-25"
        assert (rules.settle_delay_secs, rules.late_overlap_secs) == (5.0, 6.0)
        plain = sweep_rules(
            pattern="**", prefix_template=None, lookback=1, settle_delay_secs=5.0, late_overlap_secs=6.0
        )
        assert plain == SweepRules(plain.matches, None, 1, 5.0, 6.0)


class TestClaims:
    """What a sweep says of itself while it lasts."""

    def claimed(self, world: World) -> SweepReports:
        return read_reports(world.state, world.identity)

    def seen(
        self, world: World, one: SourceSweep, kind: SweepKind, claim: Claim | None, *, late_ts: float
    ) -> SweepReports:
        """The report file as it is when the third of five files is listed, which is at `late_ts`."""
        found: list[SweepReports] = []

        def look(key: str) -> bool:
            if key == "2.txt":
                world.clock.now_ts = late_ts
            if key == "3.txt":
                found.append(self.claimed(world))
            return True

        for number in range(5):
            world.put(f"{number}.txt", "x")
        one.rules = replace(one.rules, matches=look)
        one.sweep(kind, claim=claim)
        return found[0]

    @pytest.mark.parametrize("kind", SweepKind)
    def test_a_long_sweep_writes_its_claim(self, world: World, kind: SweepKind) -> None:
        now_ts = world.clock.now_ts
        claim = Claim(now_ts + 30, now_ts + 900)
        during = self.seen(world, world.source_sweep(), kind, claim, late_ts=now_ts + 31)
        assert during == SweepReports(sweeping_until_ts=now_ts + 900)

    def test_the_report_of_a_sweep_removes_its_claim(self, world: World) -> None:
        now_ts = world.clock.now_ts
        self.seen(world, world.source_sweep(), SweepKind.WATERMARK, Claim(now_ts, now_ts + 900), late_ts=now_ts + 31)
        assert self.claimed(world).sweeping_until_ts is None
        assert self.claimed(world).watermark is not None

    @pytest.mark.parametrize("kind", SweepKind)
    def test_the_report_of_a_sweep_removes_the_claim_of_another_one(self, world: World, kind: SweepKind) -> None:
        one = world.source_sweep()
        one.write(SweepReports(sweeping_until_ts=world.clock.now_ts + 900))
        one.sweep(kind)
        assert self.claimed(world).sweeping_until_ts is None

    @pytest.mark.parametrize("from_secs", [30, None])
    def test_short_sweeps_and_sweeps_of_the_job_write_no_claim(self, world: World, from_secs: int | None) -> None:
        now_ts = world.clock.now_ts
        claim = None if from_secs is None else Claim(now_ts + from_secs, now_ts + 900)
        calls = Calls()
        one = world.source_sweep()
        one.state = WatchedStore(world.state, calls)
        assert self.seen(world, one, SweepKind.WATERMARK, claim, late_ts=now_ts + 29) == SweepReports()
        assert calls.names.count(f"put {world.identity.report_key}") == 1

    def test_a_claim_is_written_once(self, world: World) -> None:
        now_ts = world.clock.now_ts
        calls = Calls()
        one = world.source_sweep()
        one.state = WatchedStore(world.state, calls)
        self.seen(world, one, SweepKind.WATERMARK, Claim(now_ts, now_ts + 900), late_ts=now_ts + 31)
        assert calls.names.count(f"put {world.identity.report_key}") == 2

    def test_a_claim_keeps_the_report_of_the_other_kind(self, world: World) -> None:
        one = world.source_sweep()
        late = one.sweep(SweepKind.LATE)
        now_ts = world.clock.now_ts
        during = self.seen(world, one, SweepKind.WATERMARK, Claim(now_ts, now_ts + 900), late_ts=now_ts + 31)
        assert during == SweepReports(late.started_ts, None, late, now_ts + 900)

    def test_a_failed_sweep_withdraws_its_claim(self, world: World) -> None:
        now_ts = world.clock.now_ts

        def deny(key: str) -> bool:
            assert self.claimed(world).sweeping_until_ts == now_ts + 900
            raise AccessDenied("403")

        world.put("a.txt", "x")
        one = world.source_sweep()
        one.rules = replace(one.rules, matches=deny)
        with pytest.raises(AccessDenied):
            one.sweep(SweepKind.WATERMARK, claim=Claim(now_ts, now_ts + 900))
        assert self.claimed(world) == SweepReports()

    def test_a_sweep_without_time_withdraws_its_claim(self, world: World) -> None:
        world.arrive("a.txt")
        before = world.source_sweep().sweep(SweepKind.LATE)
        now_ts = world.clock.now_ts
        calls = Calls()
        one = world.source_sweep()
        one.state = WatchedStore(world.state, calls)
        with pytest.raises(OutOfTime):
            one.sweep(SweepKind.WATERMARK, deadline_ts=now_ts, claim=Claim(now_ts, now_ts + 900))
        assert calls.names.count(f"put {world.identity.report_key}") == 2
        assert self.claimed(world) == SweepReports(before.started_ts, None, before)

    def test_a_failed_sweep_that_cannot_withdraw_its_claim_raises_its_own_error(self, world: World) -> None:
        now_ts = world.clock.now_ts
        calls = Calls()

        def deny_listing(key: str) -> bool:
            calls.before_named(f"put {world.identity.report_key}", deny_writing)
            raise AccessDenied("listing")

        def deny_writing() -> None:
            raise AccessDenied("writing")

        world.put("a.txt", "x")
        one = world.source_sweep()
        one.state = WatchedStore(world.state, calls)
        one.rules = replace(one.rules, matches=deny_listing)
        with pytest.raises(AccessDenied, match="listing"):
            one.sweep(SweepKind.WATERMARK, claim=Claim(now_ts, now_ts + 900))
        assert self.claimed(world).sweeping_until_ts == now_ts + 900


class TestUnannounced:
    def test_a_file_whose_event_may_still_arrive_is_not_unannounced(self, world: World) -> None:
        world.source_sweep().sweep(SweepKind.WATERMARK)
        world.put("a.txt", "x")
        world.clock.advance(OVERDUE_SECS - 1)
        report = world.source_sweep().sweep(SweepKind.WATERMARK)
        assert (report.missed, report.unannounced) == (1, 0)

    def test_a_file_whose_event_is_overdue_is_unannounced(self, world: World) -> None:
        world.source_sweep().sweep(SweepKind.WATERMARK)
        world.put("a.txt", "x")
        world.clock.advance(OVERDUE_SECS + 1)
        report = world.source_sweep().sweep(SweepKind.WATERMARK)
        assert (report.missed, report.unannounced) == (1, 1)

    def test_a_file_older_than_the_first_sweep_is_not_unannounced(self, world: World) -> None:
        for number in range(9):
            world.put(f"{number}.txt", "x")
        world.clock.advance(10 * OVERDUE_SECS)
        cut = world.source_sweep().sweep(SweepKind.WATERMARK, deadline_ts=world.clock.now_ts + 0.006)
        rest = world.source_sweep().sweep(SweepKind.WATERMARK)
        assert not cut.complete
        assert (cut.missed + rest.missed, cut.unannounced + rest.unannounced) == (9, 0)

    def test_an_announced_file_is_not_unannounced_however_old(self, world: World) -> None:
        world.source_sweep().sweep(SweepKind.WATERMARK)
        world.arrive("a.txt")
        world.clock.advance(OVERDUE_SECS + 1)
        assert world.source_sweep().sweep(SweepKind.WATERMARK).unannounced == 0

    def test_an_unannounced_file_is_counted_once(self, world: World) -> None:
        world.source_sweep().sweep(SweepKind.WATERMARK)
        world.put("a.txt", "x")
        world.clock.advance(OVERDUE_SECS + 1)
        assert world.source_sweep().sweep(SweepKind.WATERMARK).unannounced == 1
        assert world.source_sweep().sweep(SweepKind.WATERMARK).unannounced == 0
