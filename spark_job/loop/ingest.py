"""The ingest loop of one source: recover, plan, read, commit, publish; again until the backlog is gone."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from zlib import crc32

from blizzard.errors import BlizzardError, LostRace, RetryableError, UnreadableState
from blizzard.log import Log
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.batch import (
    BatchPlan,
    BatchRules,
    OnOverwrite,
    PlannedFile,
    add_late_files,
    next_checkpoint,
    plan_batch,
    plan_listed_files,
    planned_file,
)
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import Identity
from blizzard.state.receipts import Receipts
from blizzard.state.watermark import SourceProgress
from blizzard.storage.backoff import backoff_secs
from blizzard.storage.base import ObjectStore
from blizzard.sweep.settle_by_listing import BatchCapacity, settle_by_listing
from blizzard.sweep.sweeper import SweepRules, cold_closing
from spark_job.loop.batch_checks import check_complete, records_read, refuse_if_systemic
from spark_job.loop.commit import CommitPath
from spark_job.loop.recovery import SizeOf, recover
from spark_job.loop.suspects import Suspects
from spark_job.ports.reader import Outcome, Reader, Rows, Table
from spark_job.ports.stopwatch import Stopwatch

MAX_LAG_SEGMENTS = 8
"""How far the committed position may lag behind what was consumed before an empty commit catches up."""


FIRST_BACKOFF_SECS = 1.0
"""Doubled with each failure in a row, up to the source's own limit."""


class Step(StrEnum):
    """What one turn of the loop did."""

    COMMITTED = "committed"
    MOVED = "moved"
    """Consumed entries that need no commit."""
    WAITING = "waiting"
    """There are files, but the batch is not full and its interval has not passed."""
    IDLE = "idle"
    LOST = "lost"
    """Another job committed first; the batch was thrown away."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a source is ingested."""

    rules: BatchRules
    sweep_rules: SweepRules
    interval_secs: float = 60.0
    max_tracked_files: int = 1000
    max_attempts: int = 8
    """Of a turn that meets trouble which may pass, or loses its race, before the source has failed."""
    max_backoff_secs: float = 20.0
    systemic_from: int = 1
    """Files that must be denied before it can be everybody's trouble. 2 where one file may well have an owner of its
    own, as on a local disk."""
    segments_ahead: int = 0
    """Fetched before their turn, when a batch takes many."""


@dataclass(slots=True)
class Totals:
    """What this process did for the source; for the log, never for a decision."""

    commits: int = 0
    files: int = 0
    rows: int = 0
    dead_files: int = 0
    dead_records: int = 0
    duplicates: int = 0
    overwritten: int = 0
    lost_races: int = 0

    def add(self, more: "Totals") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(more, field.name))


class Ingest:
    """One source's loop. `clock` gives Unix seconds, `new_id` a short unique text; `sleep` waits for seconds. `watch`
    times the turns; the table may add parts of its own."""

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        *,
        table: Table,
        reader: Reader,
        state: ObjectStore,
        source: ObjectStore,
        clock: Callable[[], float],
        watch: Stopwatch,
        new_id: Callable[[], str],
        sleep: Callable[[float], None],
        log: Log,
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._table = table
        self._reader = reader
        self._state = state
        self._source = source
        self._clock = clock
        self._new_id = new_id
        self._sleep = sleep
        self._log = log
        self._manifest = Manifest(state, identity.state_prefix, identity.source_id, prefetch=settings.segments_ahead)
        receipts = Receipts(state, identity.state_prefix)
        dead_letters = DeadLetters(state, identity.state_prefix, identity.source_id)
        self._checkpoint: Checkpoint | None = None
        self._lag_segments = 0
        self._repaired = False
        self._last_commit_ts = clock()
        self._skipped: set[str] = set()
        self._prepared = False
        self._watch = watch
        self._suspects = Suspects(table=table, source=source, receipts=receipts, dead_letters=dead_letters, clock=clock)
        self._commits = CommitPath(
            identity,
            table=table,
            state=state,
            manifest=self._manifest,
            receipts=receipts,
            dead_letters=dead_letters,
            clock=clock,
            new_id=new_id,
            log=log,
            watch=self._watch,
        )
        self.totals = Totals()

    def forget(self) -> None:
        """Begin the next turn with recovery, as after any error whose effect is not known."""
        self._checkpoint = None
        self._prepared = False
        self._commits.forget()

    def drain(self, stopping: Callable[[], bool] = lambda: False) -> Totals:
        """Turn the loop until nothing is left, or until `stopping` says so between two batches.

        Races and passing faults are retried with backoff, up to the limit.
        """
        failures = 0
        while True:
            try:
                step = self.step(draining=True)
            except RetryableError as error:
                if stopping():
                    raise
                failures = self._back_off(error, failures)
                continue
            failures = self._back_off(None, failures) if step is Step.LOST else 0
            if step is Step.IDLE or stopping():
                return self.totals

    def _back_off(self, error: RetryableError | None, failures: int) -> int:
        """Wait before another try; raises the error once the attempts are used up."""
        self._sleep(self.retry_after_secs(error, failures + 1))
        return failures + 1

    def retry_after_secs(self, error: RetryableError | None, failures: int) -> float:
        """How long to leave the source alone after so many failures in a row (None: a lost race); the next step begins
        with recovery. Raises the error once the attempts are used up."""
        if failures >= self._settings.max_attempts:
            raise error or LostRace(
                f"other jobs of source {self._identity.source_id} committed first {failures} times in a row. "
                "Nothing is lost; run one job per source at a time."
            )
        jitter = crc32(self._new_id().encode()) / 2**32
        most_secs = self._settings.max_backoff_secs
        delay_secs = backoff_secs(failures, first_secs=FIRST_BACKOFF_SECS, most_secs=most_secs, jitter=jitter)
        self._log("retrying", source=self._identity.source_id, attempt=failures, wait_secs=delay_secs, error=str(error))
        self.forget()
        return delay_secs

    def step(self, *, draining: bool) -> Step:
        """One turn: at most one commit."""
        self._watch.restart()
        checkpoint = self._checkpoint or self._recover()
        with self._watch.part("plan"):
            plan = self._plan(checkpoint)
        if plan.empty:
            return self._consume(plan)
        if not (plan.full or draining or self._interval_passed()):
            return Step.WAITING
        return self._judge_first(plan) if plan.suspects else self._commit_batch(plan)

    def _judge_first(self, plan: BatchPlan) -> Step:
        """A turn that asks the table costs time also when nothing is left to commit: the log says how much."""
        decided = self._ask(plan)
        if isinstance(decided, Step):
            step = decided
        else:
            step = self._consume(decided) if decided.empty else self._commit_batch(decided)
        if step in (Step.MOVED, Step.IDLE):
            self._log("moved_on", source=self._identity.source_id, secs=asdict(self._watch.secs()))
        return step

    def _interval_passed(self) -> bool:
        return self._clock() - self._last_commit_ts >= self._settings.interval_secs

    def _recover(self) -> Checkpoint:
        with self._watch.part("recover"):
            recovered = recover(
                self._table,
                self._state,
                self._identity,
                folder_of=self._settings.rules.folder_of,
                slice_threshold_bytes=self._settings.rules.interval_bytes,
                late_overlap_secs=self._settings.rules.late_overlap_secs,
                sizes=SizeOf(self._source),
                log=self._log,
            )
        checkpoint = recovered.checkpoint
        self._adopt(checkpoint)
        self._repaired = recovered.repaired
        if not recovered.repaired:
            self._commits.publish(checkpoint, copy=recovered.unpublished)
        self._log(
            "recovered",
            source=self._identity.source_id,
            sequence=checkpoint.sequence,
            segment=checkpoint.position.segment,
            watermark=checkpoint.watermark,
            tracked_files=len(checkpoint.files),
            secs=asdict(self._watch.secs()),
        )
        return checkpoint

    def _adopt(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._lag_segments = 0
        self._repaired = False

    def _plan(self, checkpoint: Checkpoint) -> BatchPlan:
        if len(checkpoint.files) > self._settings.max_tracked_files and not checkpoint.in_progress:
            listed = self._plan_listed(checkpoint)
            if not listed.empty:
                return listed
            self._checkpoint = checkpoint = next_checkpoint(listed, {})
        unreadable: list[UnreadableState] = []
        plan = plan_batch(checkpoint, self._manifest.unconsumed(checkpoint.position, unreadable), self._settings.rules)
        for error in unreadable:
            if str(error) not in self._skipped:
                self._skipped.add(str(error))
                self._log("segment_unreadable", source=self._identity.source_id, error=str(error))
        return plan

    def _plan_listed(self, checkpoint: Checkpoint) -> BatchPlan:
        """Settle before more is taken: the batch is what is missing, by a listing, for watermarks to go forward."""
        rules, sweep_rules = self._settings.rules, self._settings.sweep_rules
        progress = SourceProgress.from_checkpoint(checkpoint, rules.folder_of)
        closing = cold_closing(progress, sweep_rules, self._clock())
        if closing is not None:
            progress.close_partitions(closing)
        capacity = BatchCapacity(rules.interval_files, rules.interval_bytes)
        limit = self._settings.max_tracked_files
        listed = settle_by_listing(progress, self._source, sweep_rules, limit, capacity=capacity)
        self._log(
            "settled_by_listing",
            source=self._identity.source_id,
            tracked_files=len(checkpoint.files),
            missing=len(listed),
            closed_through=closing.through if closing else None,
        )
        return plan_listed_files(checkpoint, listed, progress, rules)

    def _consume(self, plan: BatchPlan) -> Step:
        """Take over what needs no reading; commit only a repaired state, or when the position would lag too far."""
        before = plan.base.position
        self._checkpoint = next_checkpoint(plan, {})
        self.totals.duplicates += plan.duplicates + plan.settled
        self._lag_segments += plan.segments
        if self._repaired or self._lag_segments > MAX_LAG_SEGMENTS:
            self._prepare()
            return self._commit(plan, None, ())
        return Step.IDLE if plan.position == before else Step.MOVED

    def _ask(self, plan: BatchPlan) -> BatchPlan | Step:
        """Let the table decide the suspects. A step where overwritten files had to replace others: plan anew then."""
        self._prepare()
        with self._watch.part("suspects"):
            decided = self._suspects.decide(plan.suspects)
        self.totals.duplicates += decided.known
        self.totals.overwritten += len(decided.changed)
        self._log(
            "suspects_judged",
            source=self._identity.source_id,
            late=len(decided.late),
            known=decided.known,
            overwritten=len(decided.changed),
        )
        if decided.changed and self._settings.rules.on_overwrite is OnOverwrite.REPLACE:
            return self._replace(plan, decided.changed)
        if decided.changed and self._settings.rules.on_overwrite is OnOverwrite.DEAD_LETTER:
            with self._watch.part("letters"):
                self._suspects.put_letters(decided.changed)
        return add_late_files(plan, decided.late, self._settings.rules)

    def _replace(self, plan: BatchPlan, entries: Sequence[Entry]) -> Step:
        """Old rows out, new rows in, by one commit of its own that consumes nothing. What cannot be read keeps its old
        rows and is dead-lettered."""
        files = [replace(planned_file(entry, self._settings.rules), slice_bytes=None) for entry in entries]
        rows = self._read(files, plan.base.sequence + 1, replacing=True)
        try:
            good = [outcome.path for outcome in rows.outcomes if outcome.error is None]
            self._suspects.refuse([entry for entry in entries if entry.path not in good])
            if not good:
                self._commits.put_letters(None, rows.outcomes)
                return Step.MOVED
            return self._commit(plan_batch(plan.base, (), self._settings.rules), rows, files, replaced=good)
        finally:
            rows.release()

    def _read(self, files: Sequence[PlannedFile], sequence: int, *, replacing: bool = False) -> Rows:
        self._prepare()
        with self._watch.part("read"):
            rows = self._reader.read(files, sequence=sequence, replacing=replacing)
        self._watch.set_apart("write", rows.write_share, of="read")
        try:
            check_complete(files, rows.outcomes, rows.held)
            refuse_if_systemic(rows.outcomes, self._identity.source_id, systemic_from=self._settings.systemic_from)
        except BlizzardError:
            rows.release()
            raise
        return rows

    def _prepare(self) -> None:
        """Once, and not before it is needed: a run that finds nothing new asks nothing of the engine."""
        if not self._prepared:
            with self._watch.part("prepare"):
                self._table.prepare()
            self._prepared = True

    def _commit_batch(self, plan: BatchPlan) -> Step:
        with self._watch.part("suspects"):
            files = self._suspects.with_expected_etags(plan)
        self._log(
            "batch_planned",
            source=self._identity.source_id,
            sequence=plan.base.sequence + 1,
            files=len(files),
            bytes=plan.bytes,
            duplicates=plan.duplicates,
        )
        rows = self._read(files, plan.base.sequence + 1)
        try:
            self.totals.duplicates += plan.duplicates + plan.settled
            return self._commit(plan, rows, files)
        finally:
            rows.release()

    def _commit(
        self, plan: BatchPlan, rows: Rows | None, files: Sequence[PlannedFile], *, replaced: Sequence[str] = ()
    ) -> Step:
        """Letters, receipt, then the one commit; and afterwards what only publishes it."""
        outcomes = list(rows.outcomes) if rows else []
        with self._watch.part("plan"):
            self._bound_tracked(plan, outcomes)
        self._commits.put_letters(rows, outcomes)
        now_ts, sequence = self._clock(), plan.base.sequence + 1
        receipt = self._commits.put_receipt(plan, files, outcomes, now_ts)
        checkpoint = replace(
            next_checkpoint(plan, records_read(outcomes)),
            sequence=sequence,
            delta_version=self._commits.planned_on(),
            receipt=receipt,
            last_update_ts=now_ts,
        )
        self._log("batch_read", source=self._identity.source_id, sequence=sequence, files=len(files), receipt=receipt)
        if not self._commits.send(checkpoint, rows, replaced):
            self.totals.lost_races += 1
            self.forget()
            secs = asdict(self._watch.secs())
            self._log("race_lost", source=self._identity.source_id, sequence=sequence, secs=secs)
            return Step.LOST
        self._adopt(checkpoint)
        self._last_commit_ts = self._clock()
        counts = self._count(outcomes)
        self._commits.publish(checkpoint)
        self._say_committed(checkpoint, counts)
        return Step.COMMITTED

    def _bound_tracked(self, plan: BatchPlan, outcomes: Sequence[Outcome]) -> None:
        """Settle by listing before more than the limit would be tracked, so that the state stays small."""
        limit = self._settings.max_tracked_files
        if len(plan.progress.files) + len(outcomes) <= limit:
            return
        arriving = frozenset(outcome.path for outcome in outcomes if outcome.finished)
        settle_by_listing(plan.progress, self._source, self._settings.sweep_rules, limit, arriving=arriving)

    def _count(self, outcomes: Sequence[Outcome]) -> Totals:
        """Add this batch to the totals; returns the batch by itself."""
        mine = Totals(
            commits=1,
            files=len(outcomes),
            rows=sum(outcome.rows for outcome in outcomes if outcome.error is None),
            dead_files=sum(outcome.error is not None for outcome in outcomes),
            dead_records=sum(outcome.dead_records for outcome in outcomes),
        )
        self.totals.add(mine)
        return mine

    def _say_committed(self, checkpoint: Checkpoint, batch: Totals) -> None:
        self._log(
            "batch_committed",
            source=self._identity.source_id,
            sequence=checkpoint.sequence,
            files=batch.files,
            rows=batch.rows,
            dead_files=batch.dead_files,
            dead_records=batch.dead_records,
            tracked_files=len(checkpoint.files),
            watermark=checkpoint.watermark,
            delta_checkpoint=self._commits.made_delta_checkpoint(),
            secs=asdict(self._watch.secs()),
        )
