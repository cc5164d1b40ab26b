"""Sweeping one source, and the stored report of its sweeps. The job and the sweeper function share this module."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from blizzard.errors import AccessDenied, BlizzardError, BucketMissing, NotFound, UnreadableState
from blizzard.ledger.ledger import LedgerCache
from blizzard.ledger.settled_files import SettledFiles
from blizzard.log import Log
from blizzard.manifest.pending_manifest import Manifest
from blizzard.paths.partition import TimeTemplate
from blizzard.paths.pattern import Pattern
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.sweep.commit_counts import CommitCounts, count_commits
from blizzard.sweep.inventory import InventoryReader, UnusableInventory, newest_inventory, still_there
from blizzard.sweep.late_cursor import LateCursor
from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.reports import SweepReports, read_reports
from blizzard.sweep.rules import LATE_INTERVAL_SECS, QUIET_SECS, UNORDERED_REQUESTS, SweepRules
from blizzard.sweep.sweeper import EVENT_GRACE_SECS, Sweeper
from blizzard.sweep.unordered import IDLE_SHARE, KnownOrder, Turns, UnorderedSearch, idle_turns


def sweep_rules(
    *,
    pattern: str,
    prefix_template: str | None,
    lookback: int,
    settle_delay_secs: float,
    late_overlap_secs: float,
    unordered_requests: int = UNORDERED_REQUESTS,
    quiet_secs: float = QUIET_SECS,
    late_interval_secs: float = LATE_INTERVAL_SECS,
) -> SweepRules:
    """From a source's settings. `prefix_template` None: no partition is ever closed."""
    return SweepRules(
        matches=Pattern(pattern).matches,
        window=None if prefix_template is None else TimeTemplate(prefix_template),
        lookback=lookback,
        settle_delay_secs=settle_delay_secs,
        late_overlap_secs=late_overlap_secs,
        late_interval_secs=late_interval_secs,
        unordered_requests=unordered_requests,
        quiet_secs=quiet_secs,
        definition=json.dumps([pattern, prefix_template]),
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A sweep that is still running at `from_ts` writes into the report file that it may run until `until_ts`.

    This is a hint to other sweeps, not a lock. Two sweeps that start together both append the same files; the job drops
    the duplicates.
    """

    from_ts: float
    until_ts: float


@dataclass(slots=True)
class SourceSweep:
    """One source to sweep. `state` is the table's store, `files` the source's, `inventory` that of its S3 Inventory
    reports."""

    identity: SourceIdentity
    files: ObjectStore
    state: ObjectStore
    rules: SweepRules
    clock: Callable[[], float]
    new_id: Callable[[], str]
    log: Log
    inventory: ObjectStore | None = None
    manifest: Manifest = field(init=False)
    _order: KnownOrder = field(init=False, default_factory=KnownOrder)
    _ledger: LedgerCache = field(init=False, default_factory=LedgerCache)
    codec: CheckpointCodec = field(init=False)

    def __post_init__(self) -> None:
        # One of each for all sweeps: they keep segments and bases in memory, which never change.
        self.codec = CheckpointCodec(self.state, self.identity)
        self.manifest = Manifest(self.state, self.identity.state_prefix, self.identity.source_id)

    def checkpoint(self) -> Checkpoint:
        """The checkpoint's copy. Without a copy a sweep appends known files too; the job drops them."""
        try:
            return self.codec.read_copy()
        except (NotFound, UnreadableState):
            return Checkpoint(pipeline=self.identity.pipeline, source=self.identity.source)

    def reports(self) -> SweepReports:
        return read_reports(self.state, self.identity)

    def count_commits(self, reports: SweepReports) -> tuple[CommitCounts, SweepReports]:
        """What was committed since the last count, and the reports with this one, for `sweep` to write."""
        checkpoint = self.checkpoint()
        counts = count_commits(self.state, self.identity, checkpoint, reports.counted, self.log)
        return counts, replace(reports, counted=checkpoint.sequence)

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
        claim_writer = _ClaimWriter(self, reports, claim)
        try:
            report = self._run_sweeper(kind, record_if_empty, deadline_ts, reports, claim_writer.write_if_due)
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
        reports: SweepReports,
        still_sweeping: Callable[[float], None],
    ) -> SweepReport:
        checkpoint = self.checkpoint()
        settled = SettledFiles(
            self.state, self.identity, checkpoint, self.log, newest=self.checkpoint, cache=self._ledger
        )
        sweeper = Sweeper(
            self.files,
            self.manifest,
            checkpoint,
            self.rules,
            clock=self.clock,
            writer_id=self.new_id(),
            deadline_ts=deadline_ts,
            watched_since_ts=reports.watched_since_ts,
            still_sweeping=still_sweeping,
            partitions=settled.partitions() if self._has_many_folders(reports) else None,
        )
        if kind is SweepKind.WATERMARK:
            unordered = self._unordered(checkpoint.sequence, sweeper, settled, reports.watermark)
            return sweeper.watermark_sweep(settled.unsettled_paths, unordered)
        cursor = reports.late.cursor if reports.late is not None and deadline_ts < float("inf") else None
        if self.inventory is not None and sweeper.late_swept_ts is not None:
            report = self._read_inventory(sweeper, self.inventory, settled, record_if_empty, cursor)
            if report is not None:
                return report
        return sweeper.late_sweep(settled.unsettled, record_if_empty=record_if_empty, cursor=cursor)

    def _has_many_folders(self, reports: SweepReports) -> bool:
        """As far as the last sweeps saw. Else the ledger need not be read to know which folders are quiet."""
        seen = [report.partitions for report in (reports.watermark, reports.late) if report is not None]
        return self.rules.quiet_secs > 0 and max(seen, default=0) > self.rules.many_folders

    def _unordered(
        self, sequence: int, sweeper: Sweeper, settled: SettledFiles, last: SweepReport | None
    ) -> UnorderedSearch | None:
        """What the sweep lists whole; None: nothing."""
        rules, now_ts, late_ts = self.rules, sweeper.started_ts, sweeper.late_swept_ts
        if rules.unordered_requests < 1:
            return None
        newest_ms = self._order.newest_ms(sequence, now_ts, settled.partitions)
        active_ms = 0.0 if late_ts is None else (late_ts - rules.settle_delay_secs - EVENT_GRACE_SECS) * 1000
        quiet_ms = (now_ts - rules.quiet_secs) * 1000 if rules.quiet_secs else 0.0
        active = [name for name, ms in newest_ms.items() if ms >= active_ms]
        idle = [name for name, ms in newest_ms.items() if quiet_ms <= ms < active_ms]
        idle_before = None if last is None else last.unordered_idle
        round_secs = rules.late_interval_secs / IDLE_SHARE
        is_due = last is None or idle_before is None or now_ts // round_secs != last.started_ts // round_secs
        start = None if last is None or last.unordered is None else last.unordered.next
        return UnorderedSearch(
            active=Turns(active, start),
            idle=idle_turns(idle, idle_before, is_due=is_due),
            max_requests=rules.unordered_requests,
            unsettled=settled.unsettled_paths,
        )

    def _read_inventory(
        self,
        sweeper: Sweeper,
        store: ObjectStore,
        settled: SettledFiles,
        record_if_empty: bool,
        cursor: LateCursor | None,
    ) -> SweepReport | None:
        """None: it cannot be used, and the sweep has to list the source."""

        def unsettled(files: Sequence[ObjectInfo]) -> Sequence[ObjectInfo]:
            return still_there(self.files, settled.unsettled(files))

        try:
            inventory = newest_inventory(store, self.files.uri, self.clock())
            reader = InventoryReader(store, inventory, self.files.uri)
            return sweeper.inventory_sweep(reader, unsettled, record_if_empty=record_if_empty, cursor=cursor)
        except (UnusableInventory, AccessDenied, BucketMissing) as error:
            self.log("inventory_unusable", source=self.identity.source_id, error=str(error))
            return None

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
