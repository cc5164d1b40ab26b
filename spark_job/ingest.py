"""The ingest loop of one source: recover, plan, read, commit, publish; again until the backlog is gone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from blizzard.batch import (
    BatchPlan,
    OnOverwrite,
    PlannedFile,
    Rules,
    admit,
    conclude,
    judge,
    plan_batch,
    plan_listed,
    planned,
)
from blizzard.checkpoint import FINISHED, Checkpoint, encode
from blizzard.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.errors import (
    BlizzardError,
    CommitOutcomeUnknown,
    LostRace,
    NotFound,
    PermanentError,
    RetryableError,
    StorageUnavailable,
    UnreadableState,
)
from blizzard.identity import Identity
from blizzard.log import Log
from blizzard.manifest import Entry, Manifest
from blizzard.receipts import ReceiptLine, Receipts
from blizzard.storage.base import ObjectStore
from blizzard.sweep import Room, SweepRules, cold_closing, settle_by_listing
from blizzard.watermark import Settling
from spark_job.ports import Outcome, Reader, Rows, Table, Trouble
from spark_job.recovery import SizeOf, recover

MAX_LAG_SEGMENTS = 8
"""How far the committed position may lag behind what was consumed before an empty commit catches up."""


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

    rules: Rules
    sweep_rules: SweepRules
    interval_secs: float = 60.0
    max_tracked_files: int = 1000
    max_attempts: int = 8
    everybodys_from: int = 1
    """Files that must be denied before it can be everybody's trouble. 2 where one file may well have an owner of its
    own, as on a local disk."""


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


class Ingest:
    """One source's loop. `clock` gives Unix seconds, `new_id` a short unique text, `sleep` waits for seconds."""

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
        new_id: Callable[[], str],
        sleep: Callable[[float], None],
        log: Log,
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._table = table
        self._reader = reader
        self._store = state
        self._source = source
        self._clock = clock
        self._new_id = new_id
        self._sleep = sleep
        self._log = log
        self._manifest = Manifest(state, identity.state_prefix, identity.source_id)
        self._receipts = Receipts(state, identity.state_prefix)
        self._dead_letters = DeadLetters(state, identity.state_prefix, identity.source_id)
        self._checkpoint: Checkpoint | None = None
        self._lag_segments = 0
        self._repaired = False
        self._last_commit_ts = clock()
        self._skipped: set[str] = set()
        self._refused: set[tuple[str, str]] = set()
        self._prepared = False
        self.totals = Totals()

    def forget(self) -> None:
        """Begin the next turn with recovery, as after any error whose effect is not known."""
        self._checkpoint = None
        self._prepared = False

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
        delay_secs = backoff_secs(failures, self._new_id())
        self._log("retrying", source=self._identity.source_id, attempt=failures, wait_secs=delay_secs, error=str(error))
        self.forget()
        return delay_secs

    def step(self, *, draining: bool) -> Step:
        """One turn: at most one commit."""
        checkpoint = self._checkpoint or self._recover()
        plan = self._plan(checkpoint)
        if plan.empty:
            return self._consume(plan)
        if not (plan.full or draining or self._interval_passed()):
            return Step.WAITING
        if plan.suspects:
            self._prepare()
            decided = self._ask(plan)
            if isinstance(decided, Step):
                return decided
            plan = decided
        if plan.empty:
            return self._consume(plan)
        return self._commit_batch(plan)

    def _interval_passed(self) -> bool:
        return self._clock() - self._last_commit_ts >= self._settings.interval_secs

    def _recover(self) -> Checkpoint:
        recovered = recover(
            self._table,
            self._store,
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
            self._publish(checkpoint, copy=recovered.unpublished)
        self._log(
            "recovered",
            source=self._identity.source_id,
            sequence=checkpoint.sequence,
            segment=checkpoint.position.segment,
            watermark=checkpoint.watermark,
            tracked_files=len(checkpoint.files),
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
            self._checkpoint = checkpoint = conclude(listed, {})
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
        settling = Settling.of(checkpoint, rules.folder_of)
        closing = cold_closing(settling, sweep_rules, self._clock())
        if closing is not None:
            settling.close(closing)
        room = Room(rules.interval_files, rules.interval_bytes)
        limit = self._settings.max_tracked_files
        listed = settle_by_listing(settling, self._source, sweep_rules, limit, room=room)
        self._log(
            "settled_by_listing",
            source=self._identity.source_id,
            tracked_files=len(checkpoint.files),
            missing=len(listed),
            closed_through=closing.through if closing else None,
        )
        return plan_listed(checkpoint, listed, settling, rules)

    def _consume(self, plan: BatchPlan) -> Step:
        """Take over what needs no reading; commit only a repaired state, or when the position would lag too far."""
        before = plan.base.position
        self._checkpoint = conclude(plan, {})
        self.totals.duplicates += plan.duplicates + plan.settled
        self._lag_segments += plan.segments
        if self._repaired or self._lag_segments > MAX_LAG_SEGMENTS:
            self._prepare()
            return self._commit(plan, None, ())
        return Step.IDLE if plan.position == before else Step.MOVED

    def _ask(self, plan: BatchPlan) -> BatchPlan | Step:
        """Let the table decide the suspects. A step when overwritten files were replaced: plan anew from there."""
        etags = self._table.etags([entry.path for entry in plan.suspects])
        verdict = judge(plan.suspects, etags)
        self.totals.duplicates += verdict.known
        changed = list({entry.path: entry for entry in verdict.overwritten if self._is_news(entry, etags)}.values())
        self.totals.overwritten += len(changed)
        self._log(
            "suspects_judged",
            source=self._identity.source_id,
            late=len(verdict.late),
            known=verdict.known,
            overwritten=len(changed),
        )
        if changed and self._settings.rules.on_overwrite is OnOverwrite.REPLACE:
            return self._replace(plan, changed)
        if changed and self._settings.rules.on_overwrite is OnOverwrite.DEAD_LETTER:
            self._refuse_overwritten(changed)
        return admit(plan, verdict.late, self._settings.rules)

    def _is_news(self, entry: Entry, etags: Mapping[str, frozenset[str]]) -> bool:
        """Whether the object really has content that the table has not: an old event speaks of content that is gone."""
        if (entry.path, entry.etag) in self._refused:
            return False
        info = self._source.head(entry.path)
        return info is not None and info.etag not in etags[entry.path]

    def _refuse_overwritten(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            error = "the file was overwritten after it was ingested; its first rows stay (on_overwrite: dead_letter)"
            self._dead_letters.put_file(DeadLetter(entry.path, entry.etag, Stage.DOWNLOAD, error), self._clock())

    def _replace(self, plan: BatchPlan, entries: Sequence[Entry]) -> Step:
        """Old rows out, new rows in, by one commit of its own that consumes nothing. What cannot be read keeps its old
        rows and is dead-lettered."""
        files = [replace(planned(entry, self._settings.rules), slice_bytes=None) for entry in entries]
        rows = self._read(files, plan.base.sequence + 1)
        try:
            good = [outcome.path for outcome in rows.outcomes if outcome.error is None]
            self._refused.update((entry.path, entry.etag) for entry in entries if entry.path not in good)
            if not good:
                self._write_letters(None, rows.outcomes)
                return Step.MOVED
            return self._commit(plan_batch(plan.base, (), self._settings.rules), rows, files, replaced=good)
        finally:
            rows.release()

    def _read(self, files: Sequence[PlannedFile], sequence: int) -> Rows:
        self._prepare()
        rows = self._reader.read(files, sequence=sequence)
        try:
            _check_complete(files, rows.outcomes)
            self._refuse_if_everybodys(rows.outcomes)
        except BlizzardError:
            rows.release()
            raise
        return rows

    def _prepare(self) -> None:
        """Once, and not before it is needed: a run that finds nothing new asks nothing of the engine."""
        if not self._prepared:
            self._table.prepare()
            self._prepared = True

    def _commit_batch(self, plan: BatchPlan) -> Step:
        files = self._with_expected_etags(plan)
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

    def _with_expected_etags(self, plan: BatchPlan) -> Sequence[PlannedFile]:
        """A file in progress must still be the one whose first records are committed."""
        begun = [file.path for file in plan.files if file.skip_records]
        if not begun:
            return plan.files
        etags = {**self._receipt_etags(plan.base.receipt, begun), **self._table.etags(begun)}
        return [replace(f, expected_etag=next(iter(etags.get(f.path, ())), None)) for f in plan.files]

    def _receipt_etags(self, receipt: str | None, paths: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """For a file of which so far no record was good: the table has no row of it."""
        try:
            lines = self._receipts.get(receipt).lines if receipt else ()
        except (NotFound, UnreadableState):
            return {}
        return {line.path: frozenset({line.etag}) for line in lines if line.path in paths}

    def _refuse_if_everybodys(self, outcomes: Sequence[Outcome]) -> None:
        """Stop, and dead-letter nothing, when storage fails or refuses most of a batch: no file is at fault."""
        for outcome in outcomes:
            if outcome.trouble is Trouble.PASSING:
                raise StorageUnavailable(f"{outcome.path} could not be read: {outcome.error}. Nothing was committed.")
        denied = [outcome for outcome in outcomes if outcome.trouble in (Trouble.DENIED, Trouble.EVERYBODYS)]
        certain = any(outcome.trouble is Trouble.EVERYBODYS for outcome in denied)
        if certain or (2 * len(denied) > len(outcomes) and len(denied) >= self._settings.everybodys_from):
            raise PermanentError(
                f"{len(denied)} of {len(outcomes)} files of {self._identity.source_id} were refused, the first "
                f"({denied[0].path}) with: {denied[0].error}. Nothing was dead-lettered or committed; mend the "
                "permissions, keys or disk that this names and start the job again."
            )

    def _commit(
        self, plan: BatchPlan, rows: Rows | None, files: Sequence[PlannedFile], *, replaced: Sequence[str] = ()
    ) -> Step:
        """Letters, receipt, then the one commit; and afterwards what only publishes it."""
        outcomes = list(rows.outcomes) if rows else []
        self._bound_tracked(plan, outcomes)
        self._write_letters(rows, outcomes)
        now_ts, sequence = self._clock(), plan.base.sequence + 1
        receipt = self._put_receipt(plan, files, outcomes, sequence, now_ts)
        checkpoint = replace(
            conclude(plan, _records_read(outcomes)),
            sequence=sequence,
            delta_version=self._table.newest_version(),
            receipt=receipt or plan.base.receipt,
            last_update_ts=now_ts,
        )
        self._log("batch_read", source=self._identity.source_id, sequence=sequence, files=len(files), receipt=receipt)
        landed = self._send(checkpoint, rows, replaced)
        if not landed:
            self.totals.lost_races += 1
            self.forget()
            self._log("race_lost", source=self._identity.source_id, sequence=sequence)
            return Step.LOST
        self._adopt(checkpoint)
        self._last_commit_ts = self._clock()
        self._count(checkpoint, outcomes)
        self._publish(checkpoint)
        return Step.COMMITTED

    def _bound_tracked(self, plan: BatchPlan, outcomes: Sequence[Outcome]) -> None:
        """Settle by listing before more than the limit would be tracked, so that the state stays small."""
        limit = self._settings.max_tracked_files
        if len(plan.settling.files) + len(outcomes) <= limit:
            return
        arriving = frozenset(outcome.path for outcome in outcomes if outcome.finished)
        settle_by_listing(plan.settling, self._source, self._settings.sweep_rules, limit, arriving=arriving)

    def _write_letters(self, rows: Rows | None, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.error is not None:
                letter = DeadLetter(outcome.path, outcome.etag, outcome.stage or Stage.PARSE, outcome.error)
                self._dead_letters.put_file(letter, self._clock())
                self._log(
                    "file_dead_lettered",
                    source=self._identity.source_id,
                    path=outcome.path,
                    stage=letter.stage,
                    error=outcome.error,
                )
        if rows is not None and any(outcome.dead_records for outcome in outcomes):
            rows.put_dead_records()

    def _put_receipt(
        self, plan: BatchPlan, files: Sequence[PlannedFile], outcomes: Sequence[Outcome], sequence: int, now_ts: float
    ) -> str | None:
        event_ts = {file.path: file.event_ts for file in files}
        lines = [
            ReceiptLine(o.path, o.etag, o.size, o.rows, o.dead_records, event_ts.get(o.path, 0.0), o.error)
            for o in outcomes
        ]
        return self._receipts.put(
            sequence=sequence, attempt=self._new_id(), previous=plan.base.receipt, now_ts=now_ts, lines=lines
        )

    def _send(self, checkpoint: Checkpoint, rows: Rows | None, replaced: Sequence[str]) -> bool:
        """Commit, and find out whether it was ours that landed: after an error, and after a skip that says nothing."""
        text = encode(checkpoint)
        try:
            if replaced and rows is not None:
                self._table.replace(rows, replaced, sequence=checkpoint.sequence, user_metadata=text)
            else:
                self._table.append(rows, sequence=checkpoint.sequence, user_metadata=text)
        except (LostRace, CommitOutcomeUnknown) as error:
            self._log("commit_unclear", source=self._identity.source_id, error=str(error)[:500])
            landed = self._landed(checkpoint, text)
            if landed is None and isinstance(error, CommitOutcomeUnknown):
                raise RetryableError(f"the commit did not reach the table and can be tried again: {error}") from error
            return landed is True
        landed = self._landed(checkpoint, text)
        return landed is True

    def _landed(self, checkpoint: Checkpoint, text: str) -> bool | None:
        """True: our commit is in the log; False: another's of the same or a later sequence; None: neither."""
        for commit in self._table.commits(1_000, above=checkpoint.delta_version):
            version = commit.txns.get(self._identity.app_id)
            if version is not None and version >= checkpoint.sequence:
                if commit.user_metadata == text:
                    return True
                if version == checkpoint.sequence:
                    return False
        version = self._table.txn_version(self._identity.app_id)
        return False if version is not None and version >= checkpoint.sequence else None

    def _count(self, checkpoint: Checkpoint, outcomes: Sequence[Outcome]) -> None:
        totals = self.totals
        rows = sum(outcome.rows for outcome in outcomes if outcome.error is None)
        dead_records = sum(outcome.dead_records for outcome in outcomes)
        dead_files = sum(outcome.error is not None for outcome in outcomes)
        totals.commits += 1
        totals.files += len(outcomes)
        totals.rows += rows
        totals.dead_files += dead_files
        totals.dead_records += dead_records
        self._log(
            "batch_committed",
            source=self._identity.source_id,
            sequence=checkpoint.sequence,
            files=len(outcomes),
            rows=rows,
            dead_files=dead_files,
            dead_records=dead_records,
            tracked_files=len(checkpoint.files),
            watermark=checkpoint.watermark,
        )

    def _publish(self, checkpoint: Checkpoint, *, copy: bool = True) -> None:
        """The copy, then the trim. Neither is needed to go on, so storage that refuses them only says so."""
        try:
            if copy:
                self._store.put(self._identity.copy_key, encode(checkpoint).encode())
            self._manifest.trim(checkpoint.position)
        except BlizzardError as error:
            self._log("publish_failed", source=self._identity.source_id, error=str(error))


def _check_complete(files: Sequence[PlannedFile], outcomes: Sequence[Outcome]) -> None:
    """A file without an outcome would count as ingested, and a slice without progress would be read for ever."""
    by_path = {outcome.path: outcome for outcome in outcomes}
    for file in files:
        outcome = by_path.get(file.path)
        if outcome is None or not (outcome.finished or outcome.error or outcome.records_read > file.skip_records):
            raise PermanentError(
                f"the reader says of {file.path} {outcome or 'nothing'}; expected an outcome that goes beyond record "
                f"{file.skip_records}. Nothing was committed; this is a fault of the reader, please report it."
            )


def _records_read(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return {o.path: FINISHED if o.finished or o.error is not None else o.records_read for o in outcomes}


def backoff_secs(failures: int, jitter_seed: str, *, cap_secs: float = 20.0) -> float:
    """Exponential from half a second, with full jitter that is drawn from the seed."""
    ceiling = min(cap_secs, 0.5 * 2.0**failures)
    return ceiling * (0.5 + int.from_bytes(jitter_seed.encode()[-2:], "big") % 1000 / 2000)
