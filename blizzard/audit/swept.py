"""What the reports of sweeps say, and since when a source is swept."""

from collections.abc import Iterable

from blizzard.audit.source import AuditedSource
from blizzard.errors import BucketMissing
from blizzard.manifest.segments import Sweep
from blizzard.state.receipts import Receipts
from blizzard.sweep.reports import SweepReports, read_reports


def read_reports_of(source: AuditedSource) -> SweepReports:
    try:
        return read_reports(source.state, source.identity)
    except BucketMissing:
        return SweepReports()


def first_swept_ts(source: AuditedSource, reports: SweepReports, sweeps: Iterable[Sweep]) -> float | None:
    """When the source's first sweep began, or the first commit that can be found. None: nothing tells. `sweeps`: of
    segments that no commit has consumed; a first sweep may have ended before its report."""
    known = [reports.watched_since_ts] if reports.watched_since_ts is not None else []
    cold = (sweep for sweep in sweeps if sweep.closing is not None and sweep.closing.cold)
    known += [sweep.late_swept_ts for sweep in cold if sweep.late_swept_ts is not None]
    receipts = Receipts(source.state, source.identity.state_prefix)
    try:
        first = next(receipts.names(0, 0), None)
        info = None if first is None else source.state.head(f"{source.identity.state_prefix}/receipts/{first}")
    except BucketMissing:
        info = None
    return min([*known, *([info.modified_ts] if info is not None else [])], default=None)
