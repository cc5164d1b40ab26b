"""One sweep of one source from its parts, and the report that stays; the job and the sweeper function share it."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from blizzard.errors import BlizzardError, NotFound
from blizzard.log import Log
from blizzard.manifest.pending_manifest import Manifest
from blizzard.paths.partition import TimeTemplate
from blizzard.paths.pattern import Pattern
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import Identity, read_copy
from blizzard.state.receipts import Receipts
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.sweep.late_cursor import LateCursor, decode_cursor
from blizzard.sweep.sweeper import Kind, Sweeper, SweepReport, SweepRules


def sweep_rules(
    *, pattern: str, prefix_template: str | None, lookback: int, settle_delay_secs: float, late_overlap_secs: float
) -> SweepRules:
    """From a source's settings; `prefix_template` None: no folder of it ever closes."""
    return SweepRules(
        matches=Pattern(pattern).matches,
        window=None if prefix_template is None else TimeTemplate(prefix_template),
        lookback=lookback,
        settle_delay_secs=settle_delay_secs,
        late_overlap_secs=late_overlap_secs,
        written=json.dumps([pattern, prefix_template]),
    )


@dataclass(frozen=True, slots=True)
class SweepReports:
    """The last sweep of each kind, as the report file has them.

    `watched_since_ts` is when the source's first sweep began: of what is older nobody can say that its event was lost.
    `sweeping_until_ts`: somebody sweeps the source and is done or gone by then; None: nobody said so.
    """

    watched_since_ts: float | None = None
    watermark: SweepReport | None = None
    late: SweepReport | None = None
    sweeping_until_ts: float | None = None

    def of(self, kind: Kind) -> SweepReport | None:
        return self.watermark if kind is Kind.WATERMARK else self.late

    def including(self, report: SweepReport) -> "SweepReports":
        """A report also ends whatever claim there is."""
        since_ts = report.started_ts if self.watched_since_ts is None else self.watched_since_ts
        if report.kind is Kind.WATERMARK:
            return SweepReports(since_ts, report, self.late)
        return SweepReports(since_ts, self.watermark, report)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Claim:
    """A sweep that still lasts at `from_ts` says in the report file that it may last until `until_ts`.

    A hint that spares others the same work, not a lock: two that begin together both sweep, and append files twice,
    which the job drops.
    """

    from_ts: float
    until_ts: float


def read_reports(store: ObjectStore, identity: Identity) -> SweepReports:
    """Without a readable file nothing is known: the source is swept at once, and no event counts as lost."""
    try:
        return _reports(json_fields.mapping(json.loads(store.get(identity.report_key))))
    except (NotFound, *json_fields.MALFORMED):
        return SweepReports()


def _reports(document: dict[str, Any]) -> SweepReports:
    if "kind" in document:  # the file of an earlier version: only the last sweep, whatever its kind
        return SweepReports().including(_report(document))
    watermark, late = (
        None if document[kind] is None else _report(json_fields.mapping(document[kind])) for kind in Kind
    )
    return SweepReports(
        json_fields.optional_number(document["watched_since_ts"]),
        watermark,
        late,
        json_fields.optional_number(document.get("sweeping_until_ts")),
    )


def _report(document: dict[str, Any]) -> SweepReport:
    cursor = document.get("cursor")
    return SweepReport(
        kind=Kind(document["kind"]),
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
    """One source, ready to be swept. `state` is the table's store, `files` the source's."""

    identity: Identity
    files: ObjectStore
    state: ObjectStore
    rules: SweepRules
    clock: Callable[[], float]
    new_id: Callable[[], str]
    log: Log
    manifest: Manifest = field(init=False)

    def __post_init__(self) -> None:
        # One for all sweeps: it remembers the segments that it read last, and they never change.
        self.manifest = Manifest(self.state, self.identity.state_prefix, self.identity.source_id)

    def checkpoint(self) -> Checkpoint:
        """The copy; without one a sweep lists too much, and the job drops what it knows."""
        unknown = Checkpoint(pipeline=self.identity.pipeline, source=self.identity.source)
        return read_copy(self.state, self.identity) or unknown

    def reports(self) -> SweepReports:
        return read_reports(self.state, self.identity)

    def sweep(
        self,
        kind: Kind,
        *,
        announce: bool = True,
        deadline_ts: float = float("inf"),
        reports: SweepReports | None = None,
        claim: Claim | None = None,
    ) -> SweepReport:
        """One sweep from the checkpoint's copy; what it finds is in the manifest afterwards, and the report written.

        `announce`: as in Sweeper.late_sweep. Listing stops at `deadline_ts`. `reports`: if the file was just read.
        `claim`: what to say if it takes long; it is taken back if the sweep fails. Raises BlizzardError.
        A late sweep goes on where the last one ran out of time, unless it has all the time that it needs itself.
        """
        reports = reports or self.reports()
        cursor = reports.late.cursor if reports.late is not None and deadline_ts < float("inf") else None
        claiming = _Claiming(self, reports, claim)
        try:
            report = self._swept(kind, announce, deadline_ts, reports.watched_since_ts, claiming.look, cursor)
        except BlizzardError:
            claiming.give_up()
            raise
        self.write(reports.including(report))
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

    def _swept(
        self,
        kind: Kind,
        announce: bool,
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
        if kind is Kind.LATE:
            receipts = Receipts(self.state, self.identity.state_prefix)
            return sweeper.late_sweep(
                lambda since_ts: receipts.ingested_since(checkpoint.receipt, since_ts),
                announce=announce,
                cursor=cursor,
            )
        return sweeper.watermark_sweep()

    def write(self, reports: SweepReports) -> None:
        self.state.put(self.identity.report_key, reports.to_json().encode())


@dataclass(slots=True)
class _Claiming:
    """Says so once, when a sweep turns out to take long."""

    sweep: SourceSweep
    reports: SweepReports
    claim: Claim | None
    said: bool = False

    def look(self, now_ts: float) -> None:
        if self.claim is not None and not self.said and now_ts >= self.claim.from_ts:
            self.said = True
            self.sweep.write(replace(self.reports, sweeping_until_ts=self.claim.until_ts))

    def give_up(self) -> None:
        """What cannot be taken back ends by its time."""
        if self.said:
            with suppress(BlizzardError):
                self.sweep.write(replace(self.reports, sweeping_until_ts=None))
