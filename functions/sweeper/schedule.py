"""Which sweeps are due, and in which order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blizzard.config.published import PublishedSource
from blizzard.sweep.report import SweepKind
from blizzard.sweep.reports import SweepReports

EARLY_FRACTION = 0.1
"""The fraction of its interval by which a sweep may start early. Schedules are not exact: with a schedule of one
minute, a source with an interval of one minute would otherwise be due only every other time."""

MAX_CLAIM_SECS = 960.0
"""A function runs for at most 900 seconds. A claim that ends later than this is invalid."""


@dataclass(frozen=True, slots=True)
class DueSweep:
    """`intervals_elapsed`: intervals since the start of the last sweep of this kind; infinite if there was none."""

    source_id: str
    kind: SweepKind
    intervals_elapsed: float


def due_sweeps(
    sources: Iterable[PublishedSource], reports: Mapping[str, SweepReports], now_ts: float
) -> tuple[DueSweep, ...]:
    """The most overdue first, of sources that have reports. A sweep that ran out of time is due at once.

    A source with a valid claim is not due: two concurrent sweeps, of either kind, would append the same files.
    """
    found = [due for source in sources if source.id in reports for due in _due(source, reports[source.id], now_ts)]
    return tuple(sorted(found, key=lambda due: -due.intervals_elapsed))


def is_claimed(reports: SweepReports, now_ts: float) -> bool:
    """Whether another invocation is sweeping the source, as far as its report shows."""
    return reports.sweeping_until_ts is not None and 0 < reports.sweeping_until_ts - now_ts <= MAX_CLAIM_SECS


def _due(source: PublishedSource, reports: SweepReports, now_ts: float) -> Iterable[DueSweep]:
    if is_claimed(reports, now_ts):
        return
    intervals = {SweepKind.WATERMARK: source.sweep_interval_secs, SweepKind.LATE: source.late_interval_secs}
    for kind, interval_secs in intervals.items():
        last = reports.report_of(kind)
        last_ts = last.started_ts if last else _first_due_from(kind, reports)
        intervals_elapsed = float("inf") if last_ts is None else (now_ts - last_ts) / interval_secs
        if intervals_elapsed >= 1 - EARLY_FRACTION or (last is not None and not last.complete):
            yield DueSweep(source.id, kind, intervals_elapsed)


def _first_due_from(kind: SweepKind, reports: SweepReports) -> float | None:
    """When the first interval of this kind starts, in Unix seconds. None: the sweep is due now.

    Before anything is ingested a late sweep finds no more than a watermark sweep, so the first late sweep is due one
    interval after the first watermark sweep.
    """
    if kind is SweepKind.WATERMARK:
        return None
    return float("inf") if reports.watched_since_ts is None else reports.watched_since_ts
