"""The ingest loop of one source: recover, plan, read, commit, publish; repeated until the backlog is gone.

A batch that changes the table's schema is read twice: the change is a commit of its own, after which the next turn
plans the same input again.

It drives a source of any kind (`SourceKind`); what is specific to files is in `spark_job/loop/files`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any
from zlib import crc32

from blizzard.errors import LostRace, NeverAnswered, RetryableError
from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.storage.backoff import backoff_secs
from spark_job.loop.commit import BatchCommitter
from spark_job.ports.source import Batch, BatchCounts, Plan, SourceCheckpoint, SourceKind
from spark_job.ports.stopwatch import Stopwatch
from spark_job.ports.table import Table

MAX_LAG_SEGMENTS = 8
"""How far the committed position may lag behind what was consumed before an empty commit catches up."""

WAITING_SECS = 0.1
"""Between two looks at work in the background."""
FIRST_BACKOFF_SECS = 1.0
"""Doubled with each failure in a row, up to the source's own limit."""


class Step(StrEnum):
    """What one turn of the loop did."""

    COMMITTED = "committed"
    MOVED = "moved"
    """Consumed entries that need no commit."""
    WAITING = "waiting"
    """There is input, but the batch is not full and its interval has not passed; or a draining run has nothing left but
    work in the background."""
    IDLE = "idle"
    LOST = "lost"
    """Another job committed first; the batch was discarded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How the loop treats a source, of whatever kind."""

    interval_secs: float = 60.0
    """Time from a commit to the next batch that is not full. A draining run does not wait for it."""
    max_attempts: int = 8
    """Turns in a row with a transient failure or a lost race, after which the source has failed."""
    max_backoff_secs: float = 20.0


@dataclass(slots=True)
class Totals:
    """What this process did for the source; for the log."""

    commits: int = 0
    files: int = 0
    rows: int = 0
    dead_files: int = 0
    dead_records: int = 0
    duplicates: int = 0
    overwritten: int = 0
    lost_races: int = 0

    def add_commit(self, batch: BatchCounts) -> None:
        self.commits += 1
        for field in fields(batch):
            setattr(self, field.name, getattr(self, field.name) + getattr(batch, field.name))


class Ingest:
    """One source's loop. `clock` gives Unix seconds, `new_id` a short unique text; `sleep` waits for seconds. `watch`
    times the turns; source and table time their parts with the same stopwatch."""

    def __init__(
        self,
        identity: SourceIdentity,
        settings: LoopSettings,
        *,
        source: SourceKind[Any, Any, Any],
        table: Table[Any],
        clock: Callable[[], float],
        watch: Stopwatch,
        new_id: Callable[[], str],
        sleep: Callable[[float], None],
        log: Log,
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._source = source
        self._table = table
        self._clock = clock
        self._watch = watch
        self._new_id = new_id
        self._sleep = sleep
        self._log = log
        self._committer = BatchCommitter(identity, source, table=table, log=log, watch=watch)
        self._checkpoint: SourceCheckpoint | None = None
        self._lag_segments = 0
        self._repaired = False
        self._last_commit_ts = clock()
        self._prepared = False
        self.totals = Totals()

    # -- turns, and retries between them

    def drain(self, stopping: Callable[[], bool] = lambda: False) -> Totals:
        """Take turns until the backlog is gone, or until `stopping` is true between two batches.

        Lost races and transient failures are retried with backoff, up to the limit.
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
            if step is Step.WAITING:
                self._sleep(WAITING_SECS)
            if step is Step.IDLE or stopping():
                return self.totals

    def _back_off(self, error: RetryableError | None, failures: int) -> int:
        self._sleep(self.retry_after_secs(error, failures + 1, draining=True))
        return failures + 1

    def retry_after_secs(self, error: RetryableError | None, failures: int, *, draining: bool) -> float:
        """The pause after `failures` failures in a row (error None: a lost race). The next step starts with recovery.
        Raises the error once the attempts are used up: for a draining run half of them, if what it needs has never
        answered and may have another address."""
        attempts = self._settings.max_attempts
        if failures >= (-(-attempts // 2) if draining and isinstance(error, NeverAnswered) else attempts):
            raise error or LostRace(
                f"other jobs of source {self._identity.source_id} committed first {failures} times in a row. "
                "Nothing is lost; run one job per source at a time."
            )
        jitter = crc32(self._new_id().encode()) / 2**32
        max_secs = self._settings.max_backoff_secs
        delay_secs = backoff_secs(failures, first_secs=FIRST_BACKOFF_SECS, max_secs=max_secs, jitter=jitter)
        self._log("retrying", source=self._identity.source_id, attempt=failures, wait_secs=delay_secs, error=str(error))
        self.forget()
        return delay_secs

    def forget(self) -> None:
        """Start the next turn with recovery, as after any error whose effect is unknown."""
        self._checkpoint = None
        self._prepared = False
        self._committer.forget()

    def commit_state(self, plan: Plan) -> bool:
        """A commit without rows, for an operator who has found out the state that `plan` continues from. False: another
        job committed first."""
        self._watch.restart()
        self.forget()
        return self._commit(plan, None) is Step.COMMITTED

    def step(self, *, draining: bool) -> Step:
        """One turn: at most one commit."""
        self._watch.restart()
        checkpoint = self._recover() if self._checkpoint is None else self._checkpoint
        with self._watch.part("plan"):
            plan = self._source.plan(checkpoint)
        self._checkpoint = plan.base
        if plan.empty:
            return self._skip(plan, draining=draining)
        if draining and not self._repaired and self._source.has_caught_up(plan):
            return Step.IDLE
        if not (plan.full or draining or self._interval_passed()):
            return Step.WAITING
        return self._resolve(plan, draining=draining) if plan.unresolved else self._ingest_batch(plan)

    def _interval_passed(self) -> bool:
        return self._clock() - self._last_commit_ts >= self._settings.interval_secs

    # -- the parts of a turn

    def _recover(self) -> SourceCheckpoint:
        with self._watch.part("recover"):
            recovered = self._source.recover()
        checkpoint: SourceCheckpoint = recovered.checkpoint
        self._continue_from(checkpoint)
        self._repaired = recovered.repaired
        if not recovered.repaired:
            self._source.publish(checkpoint, copy=recovered.unpublished)
        self._source.log_recovered(checkpoint, self._watch.secs())
        return checkpoint

    def _continue_from(self, checkpoint: SourceCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._lag_segments = 0
        self._repaired = False

    def _skip(self, plan: Plan, *, draining: bool) -> Step:
        """Advance the position without reading. Commit only a repaired checkpoint, or if the committed position lags
        too far behind, or at the end of a run if the source asks for it; and only to a table that takes it."""
        self._checkpoint = checkpoint = self._source.skip(plan)
        self.totals.duplicates += plan.duplicates
        self._lag_segments += plan.segments
        ends = draining and not plan.moved
        if ends and not self._repaired and self._source.is_busy():
            return Step.WAITING
        if self._repaired or self._lag_segments > MAX_LAG_SEGMENTS or (ends and self._source.owes_commit(checkpoint)):
            self._prepare()
            if self._table.takes_states():
                return self._commit(plan, None)
        return Step.MOVED if plan.moved else Step.IDLE

    def _resolve(self, plan: Plan, *, draining: bool) -> Step:
        """Judging takes time even if there is nothing to commit; the log then says how much."""
        resolved = self._source.resolve(plan)
        self.totals.duplicates += resolved.duplicates
        self.totals.overwritten += resolved.overwritten
        step = (
            self._skip(resolved.plan, draining=draining) if resolved.plan.empty else self._ingest_batch(resolved.plan)
        )
        if step in (Step.MOVED, Step.IDLE):
            self._log("moved_on", source=self._identity.source_id, secs=asdict(self._watch.secs()))
        return step

    def _prepare(self) -> None:
        """Prepare the table once, when it is needed: a run that finds nothing new does not start Spark."""
        if not self._prepared:
            with self._watch.part("prepare"):
                self._table.prepare()
            self._prepared = True

    def _ingest_batch(self, plan: Plan) -> Step:
        plan = self._source.start(plan)
        self._prepare()
        batch = self._source.read(plan)
        if batch is None:
            return Step.MOVED
        try:
            changing = self._source.change_schema(plan, batch)
            if changing is not None:
                batch.rows.discard()
                return self._commit(changing, None)
            self.totals.duplicates += plan.duplicates
            return self._commit(plan, batch)
        finally:
            batch.rows.release()

    def _commit(self, plan: Plan, batch: Batch | None) -> Step:
        """Write dead letters and receipt, then commit, then publish the commit."""
        counts = BatchCounts() if batch is None else batch.counts
        with self._watch.part("plan"):
            settled = self._source.settle(plan, batch)
        receipt = self._source.record(plan, batch)
        checkpoint = self._source.stamp(settled, delta_version=self._committer.reached_version(), receipt=receipt)
        source_id, sequence = self._identity.source_id, checkpoint.sequence
        self._log("batch_read", source=source_id, sequence=sequence, files=counts.files, receipt=receipt.name)
        if not self._committer.commit(checkpoint, batch, plan.schema_change):
            self.totals.lost_races += 1
            self.forget()
            self._log("race_lost", source=source_id, sequence=sequence, secs=asdict(self._watch.secs()))
            return Step.LOST
        self._continue_from(checkpoint)
        if plan.schema_change is None:  # otherwise the batch is due as before
            self._last_commit_ts = self._clock()
        self.totals.add_commit(counts)
        self._source.publish(checkpoint, copy=True)
        self._log_committed(checkpoint, counts)
        return Step.COMMITTED

    def _log_committed(self, checkpoint: SourceCheckpoint, counts: BatchCounts) -> None:
        self._source.log_committed(
            checkpoint,
            counts,
            version=self._committer.reached_version(),
            delta_checkpoint=self._committer.made_delta_checkpoint(),
            secs=self._watch.secs(),
        )
