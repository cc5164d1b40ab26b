"""Sweeping one source, and the stored report of its sweeps. The job and the sweeper function share this module."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from blizzard.errors import BlizzardError, NotFound
from blizzard.ledger.settled_files import SettledFiles
from blizzard.log import Log
from blizzard.manifest.pending_manifest import Manifest
from blizzard.paths.partition import TimeTemplate
from blizzard.paths.pattern import Pattern
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity, read_copy
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.sweep.late_cursor import LateCursor, decode_cursor, encode_cursor
from blizzard.sweep.sweeper import Sweeper, SweepKind, SweepReport, SweepRules


def sweep_rules(
    *, pattern: str, prefix_template: str | None, lookback: int, settle_delay_secs: float, late_overlap_secs: float
) -> SweepRules:
    """From a source's settings. `prefix_template` None: no partition is ever closed."""
    return SweepRules(
        matches=Pattern(pattern).matches,
        window=None if prefix_template is None else TimeTemplate(prefix_template),
        lookback=lookback,
        settle_delay_secs=settle_delay_secs,
        late_overlap_secs=late_overlap_secs,
        definition=json.dumps([pattern, prefix_template]),
    )


@dataclass(frozen=True, slots=True)
class SweepReports:
    """The content of the report file: the last sweep of each kind.

    `watched_since_ts`: start of the source's first sweep. Events of older files cannot be called lost.
    `sweeping_until_ts`: a sweep is running and ends by then at the latest; None: no running sweep has said so.
    """

    watched_since_ts: float | None = None
    watermark: SweepReport | None = None
    late: SweepReport | None = None
    sweeping_until_ts: float | None = None

    def report_of(self, kind: SweepKind) -> SweepReport | None:
        return self.watermark if kind is SweepKind.WATERMARK else self.late

    def with_report(self, report: SweepReport) -> "SweepReports":
        """Also removes the claim of a running sweep, `sweeping_until_ts`."""
        since_ts = report.started_ts if self.watched_since_ts is None else self.watched_since_ts
        if report.kind is SweepKind.WATERMARK:
            return SweepReports(since_ts, report, self.late)
        return SweepReports(since_ts, self.watermark, report)

    def to_json(self) -> str:
        document = {
            "watched_since_ts": self.watched_since_ts,
            "watermark": _encode_report(self.watermark),
            "late": _encode_report(self.late),
            "sweeping_until_ts": self.sweeping_until_ts,
        }
        return json.dumps(document, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Claim:
    """A sweep that is still running at `from_ts` writes into the report file that it may run until `until_ts`.

    This is a hint to other sweeps, not a lock. Two sweeps that start together both append the same files; the job drops
    the duplicates.
    """

    from_ts: float
    until_ts: float


def read_reports(store: ObjectStore, identity: SourceIdentity) -> SweepReports:
    """Empty if the file is missing or unreadable: the source is then swept at once, and no event counts as lost."""
    try:
        return _decode_reports(json_fields.mapping(json.loads(store.get(identity.report_key))))
    except (NotFound, *json_fields.MALFORMED):
        return SweepReports()


def _encode_report(report: SweepReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    cursor = None if report.cursor is None else encode_cursor(report.cursor)
    return {**asdict(replace(report, cursor=None)), "cursor": cursor}


def _decode_reports(document: dict[str, Any]) -> SweepReports:
    if "kind" in document:  # written by an earlier version: only the last sweep, of either kind
        return SweepReports().with_report(_decode_report(document))
    watermark, late = (
        None if document[kind] is None else _decode_report(json_fields.mapping(document[kind])) for kind in SweepKind
    )
    return SweepReports(
        json_fields.optional_number(document["watched_since_ts"]),
        watermark,
        late,
        json_fields.optional_number(document.get("sweeping_until_ts")),
    )


def _decode_report(document: dict[str, Any]) -> SweepReport:
    cursor = document.get("cursor")
    return SweepReport(
        kind=SweepKind(document["kind"]),
        started_ts=json_fields.number(document["started_ts"]),
        listed=json_fields.natural(document["listed"]),
        missed=json_fields.natural(document["missed"]),
        missed_bytes=json_fields.natural(document["missed_bytes"]),
        partitions=json_fields.natural(document["partitions"]),
        segments=tuple(json_fields.natural(number) for number in json_fields.array(document["segments"])),
        complete=document["complete"] is True,
        unannounced=json_fields.natural(document.get("unannounced", 0)),
        cursor=None if cursor is None else decode_cursor(json_fields.mapping(cursor)),
    )


@dataclass(slots=True)
class SourceSweep:
    """One source to sweep. `state` is the table's store, `files` the source's."""

    identity: SourceIdentity
    files: ObjectStore
    state: ObjectStore
    rules: SweepRules
    clock: Callable[[], float]
    new_id: Callable[[], str]
    log: Log
    manifest: Manifest = field(init=False)

    def __post_init__(self) -> None:
        # One for all sweeps: it caches segments, which never change.
        self.manifest = Manifest(self.state, self.identity.state_prefix, self.identity.source_id)

    def checkpoint(self) -> Checkpoint:
        """The checkpoint's copy. Without a copy a sweep appends known files too; the job drops them."""
        unknown = Checkpoint(pipeline=self.identity.pipeline, source=self.identity.source)
        return read_copy(self.state, self.identity) or unknown

    def reports(self) -> SweepReports:
        return read_reports(self.state, self.identity)

    def sweep(
        self,
        kind: SweepKind,
        *,
        record_if_empty: bool = True,
        deadline_ts: float = float("inf"),
        reports: SweepReports | None = None,
        claim: Claim | None = None,
    ) -> SweepReport:
        """Sweep from the checkpoint's copy, append the files found to the manifest, and write the report.

        `record_if_empty`: as in Sweeper.late_sweep. Listing stops at `deadline_ts`. `reports`: the report file, if it
        was just read. `claim` is written if the sweep takes long, and withdrawn if it fails. Raises BlizzardError.
        A late sweep with a deadline resumes where the last one ran out of time.
        """
        reports = reports or self.reports()
        cursor = reports.late.cursor if reports.late is not None and deadline_ts < float("inf") else None
        claim_writer = _ClaimWriter(self, reports, claim)
        try:
            report = self._run_sweeper(
                kind, record_if_empty, deadline_ts, reports.watched_since_ts, claim_writer.write_if_due, cursor
            )
        except BlizzardError:
            claim_writer.withdraw()
            raise
        self.write(reports.with_report(report))
        self.log(
            "swept",
            source=self.identity.source_id,
            kind=report.kind,
            listed=report.listed,
            missed=report.missed,
            missed_bytes=report.missed_bytes,
            unannounced=report.unannounced,
            complete=report.complete,
        )
        return report

    def _run_sweeper(
        self,
        kind: SweepKind,
        record_if_empty: bool,
        deadline_ts: float,
        watched_since_ts: float | None,
        still_sweeping: Callable[[float], None],
        cursor: LateCursor | None,
    ) -> SweepReport:
        checkpoint = self.checkpoint()
        sweeper = Sweeper(
            self.files,
            self.manifest,
            checkpoint,
            self.rules,
            clock=self.clock,
            writer_id=self.new_id(),
            deadline_ts=deadline_ts,
            watched_since_ts=watched_since_ts,
            still_sweeping=still_sweeping,
        )
        settled = SettledFiles(self.state, self.identity, checkpoint, self.log)
        if kind is SweepKind.LATE:
            return sweeper.late_sweep(settled.unsettled, record_if_empty=record_if_empty, cursor=cursor)
        return sweeper.watermark_sweep(settled.unsettled_paths)

    def write(self, reports: SweepReports) -> None:
        self.state.put(self.identity.report_key, reports.to_json().encode())


@dataclass(slots=True)
class _ClaimWriter:
    """Writes the claim once, when a sweep turns out to take long."""

    sweep: SourceSweep
    reports: SweepReports
    claim: Claim | None
    written: bool = False

    def write_if_due(self, now_ts: float) -> None:
        if self.claim is not None and not self.written and now_ts >= self.claim.from_ts:
            self.written = True
            self.sweep.write(replace(self.reports, sweeping_until_ts=self.claim.until_ts))

    def withdraw(self) -> None:
        """A claim that cannot be withdrawn expires at its `until_ts`."""
        if self.written:
            with suppress(BlizzardError):
                self.sweep.write(replace(self.reports, sweeping_until_ts=None))
