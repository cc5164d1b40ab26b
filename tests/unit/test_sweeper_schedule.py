"""Which sweeps are due, and in which order."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.published import PublishedSource
from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.reports import SweepReports
from functions.sweeper.schedule import MAX_CLAIM_SECS, DueSweep, due_sweeps

NOW_TS = 1_000_000.0
INTERVAL_SECS, LATE_SECS = 60.0, 3600.0


def source(name: str, *, interval_secs: float = INTERVAL_SECS, late_secs: float = LATE_SECS) -> PublishedSource:
    return PublishedSource(
        pipeline="p",
        name=name,
        uri=f"s3://landing/{name}/",
        table_uri="s3://lake/t",
        pattern="**",
        prefix_template=None,
        lookback=1,
        settle_delay_secs=60.0,
        sweep_interval_secs=interval_secs,
        late_interval_secs=late_secs,
        late_overlap_secs=86_400.0,
        unordered_requests=30,
        quiet_secs=86_400.0,
        inventory=None,
        interval_files=1000,
        interval_bytes=1 << 30,
        max_attempts=8,
        max_backoff_secs=20.0,
        on_overwrite="ignore",
    )


def reports(watermark_ago: float, late_ago: float = 0.0, *, complete: bool = True) -> SweepReports:
    """Of sweeps that began so many seconds ago."""
    one = SweepReport(SweepKind.WATERMARK, NOW_TS - watermark_ago, 0, 0, 0, 1, (), complete)
    late = replace(one, kind=SweepKind.LATE, started_ts=NOW_TS - late_ago, complete=True)
    return SweepReports(NOW_TS - 1e6, one, late)


def due(**of: SweepReports) -> list[tuple[str, SweepKind]]:
    found = due_sweeps([source(name) for name in of], {f"p:{name}": known for name, known in of.items()}, NOW_TS)
    return [(sweep.source_id.removeprefix("p:"), sweep.kind) for sweep in found]


def test_a_source_that_was_never_swept_is_due_and_its_late_sweep_is_not() -> None:
    assert due(a=SweepReports()) == [("a", SweepKind.WATERMARK)]


def test_the_first_late_sweep_comes_an_interval_after_the_first_sweep() -> None:
    fresh = reports(0.0).watermark
    assert due(a=SweepReports(NOW_TS - 0.5 * LATE_SECS, fresh)) == []
    assert due(a=SweepReports(NOW_TS - LATE_SECS, fresh)) == [("a", SweepKind.LATE)]


def test_each_kind_has_its_own_interval() -> None:
    assert due(a=reports(INTERVAL_SECS / 2, LATE_SECS / 2)) == []
    assert due(a=reports(INTERVAL_SECS, LATE_SECS / 2)) == [("a", SweepKind.WATERMARK)]
    assert due(a=reports(INTERVAL_SECS / 2, LATE_SECS)) == [("a", SweepKind.LATE)]


def test_a_schedule_that_fires_slightly_early_finds_its_sources_due() -> None:
    assert due(a=reports(INTERVAL_SECS - 2)) == [("a", SweepKind.WATERMARK)]
    assert due(a=reports(INTERVAL_SECS - 20)) == []


def test_a_sweep_that_ran_out_of_time_is_due_at_once() -> None:
    assert due(a=reports(1.0, complete=False)) == [("a", SweepKind.WATERMARK)]


@pytest.mark.parametrize("left_secs", [0.001, 900.0, MAX_CLAIM_SECS])
def test_a_claimed_source_is_not_due(left_secs: float) -> None:
    claimed = replace(reports(INTERVAL_SECS, LATE_SECS), sweeping_until_ts=NOW_TS + left_secs)
    assert due(a=claimed, b=replace(SweepReports(), sweeping_until_ts=NOW_TS + left_secs)) == []


@pytest.mark.parametrize("left_secs", [0.0, -1.0, MAX_CLAIM_SECS + 1, 1e9])
def test_an_expired_or_impossible_claim_is_ignored(left_secs: float) -> None:
    claimed = replace(reports(INTERVAL_SECS), sweeping_until_ts=NOW_TS + left_secs)
    assert due(a=claimed) == [("a", SweepKind.WATERMARK)]


def test_the_sweep_that_is_overdue_by_most_intervals_is_first() -> None:
    found = due_sweeps(
        [source("often", interval_secs=10), source("seldom", interval_secs=100), source("new")],
        {"p:often": reports(50), "p:seldom": reports(300), "p:new": SweepReports()},
        NOW_TS,
    )
    assert [(sweep.source_id, sweep.intervals_elapsed) for sweep in found] == [
        ("p:new", float("inf")),
        ("p:often", 5.0),
        ("p:seldom", 3.0),
    ]


def test_a_source_without_a_readable_report_is_not_due() -> None:
    assert due_sweeps([source("a"), source("b")], {"p:b": SweepReports()}, NOW_TS) == (
        DueSweep("p:b", SweepKind.WATERMARK, float("inf")),
    )


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=6), st.integers(1, 3))
@pytest.mark.filterwarnings("error")
def test_every_source_is_swept_even_with_time_for_few_sweeps_a_round(ages: list[float], per_round: int) -> None:
    known = {f"p:s{n}": reports(age, complete=False) for n, age in enumerate(ages)}
    sources = [source(f"s{n}", late_secs=1e12) for n in range(len(ages))]
    now_ts, seen = NOW_TS, set()
    for _ in range(len(ages)):
        now_ts += INTERVAL_SECS
        for sweep in due_sweeps(sources, known, now_ts)[:per_round]:
            seen.add(sweep.source_id)
            report = SweepReport(sweep.kind, now_ts, 0, 0, 0, 1, (), complete=False)
            known[sweep.source_id] = known[sweep.source_id].with_report(report)
    assert seen == known.keys()
