"""What the reports of sweeps say, and since when a source is swept."""

from blizzard.audit.source import AuditedSource
from blizzard.errors import BucketMissing
from blizzard.state.receipts import Receipts
from blizzard.sweep.reports import SweepReports, read_reports


def read_reports_of(source: AuditedSource) -> SweepReports:
    try:
        return read_reports(source.state, source.identity)
    except BucketMissing:
        return SweepReports()


def first_swept_ts(source: AuditedSource, reports: SweepReports) -> float | None:
    """When the source's first sweep began, or the first commit that can be found. None: nothing tells."""
    known = [reports.watched_since_ts] if reports.watched_since_ts is not None else []
    receipts = Receipts(source.state, source.identity.state_prefix)
    try:
        first = next(receipts.names(0, 0), None)
        info = None if first is None else source.state.head(f"{source.identity.state_prefix}/receipts/{first}")
    except BucketMissing:
        info = None
    return min([*known, *([info.modified_ts] if info is not None else [])], default=None)
