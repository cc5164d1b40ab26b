"""The dispatcher: one active run for each pipeline that has a backlog, and never a second one.

Before a run is asked for, a record says so; after it, a record says which run came of it. Whoever finds the first
without the second asks again with the same token, which gives the same run.
"""

from collections.abc import Callable
from dataclasses import dataclass

from blizzard.config.published import PublishedPipeline
from blizzard.dispatch import decide
from blizzard.dispatch.backlog import Backlog, read_backlog
from blizzard.dispatch.decide import Hold, Policy
from blizzard.dispatch.run_records import Phase, RunLog, RunRecord
from blizzard.dispatch.service import JobService, Life, RunState, StartConflict, StartRefused
from blizzard.errors import AlreadyExists, BlizzardError
from blizzard.log import Log
from blizzard.storage.base import ObjectStore

MAX_TURNS = 24
"""Two records for a start and one for its end; more turns than that only when dispatchers race."""


@dataclass(slots=True)
class Dispatched:
    """What one dispatch of a pipeline found and did. `backlog` is None where it could not be read."""

    pipeline: str
    phase: Phase | None = None
    run_id: str | None = None
    started: int = 0
    failed: int = 0
    hold: Hold | None = None
    backlog: Backlog | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Logs:
    """Where the dispatcher's events go, by how much they ask of somebody."""

    info: Log
    warning: Log
    error: Log


class Dispatcher:
    """Dispatches one pipeline. `clock` gives Unix seconds, `new_id` a short unique text."""

    def __init__(
        self,
        pipeline: PublishedPipeline,
        *,
        store: ObjectStore,
        service: JobService,
        policy: Policy,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        log: Logs,
    ) -> None:
        self._pipeline = pipeline
        self._store = store
        self._service = service
        self._policy = policy
        self._clock = clock
        self._new_id = new_id
        self._log = log
        self._runs = RunLog(store, pipeline.name, new_id)

    def dispatch(self) -> Dispatched:
        """Look after the pipeline's run, and start one if that is due. An error is in the answer: what was found out
        before it still counts."""
        found = Dispatched(self._pipeline.name)
        try:
            if self._go(found):
                self._trim()
        except BlizzardError as error:
            found.error = error
            self._log.error(
                "dispatch_failed", pipeline=found.pipeline, error=str(error), error_kind=type(error).__name__
            )
            self._read_for_the_record(found)
        return found

    def started(self, run_id: str) -> bool:
        """Whether the newest record is about this run; one that cannot be read is about none."""
        try:
            latest = self._runs.latest()
        except BlizzardError:
            return False  # to dispatch the pipeline says what is wrong
        return latest is not None and latest.run_id == run_id

    def _go(self, found: Dispatched) -> bool:
        """Whether a record was written."""
        record, own, wrote = self._runs.latest(), False, False
        for _ in range(MAX_TURNS):
            _note(found, record)
            try:
                following = self._turn(record, found, own=own)
            except AlreadyExists:
                record, own = self._runs.latest(), False
                continue
            if following is None:
                break
            record, own, wrote = following, True, True
        return wrote

    def _turn(self, record: RunRecord | None, found: Dispatched, *, own: bool) -> RunRecord | None:
        """One transition: the record that it wrote, None when there is nothing more to do. Raises AlreadyExists when
        somebody else was faster. `own`: whether `record` was written by this dispatch."""
        if record is not None and record.phase is Phase.STARTING:
            return self._start(record, found, own=own)
        if record is not None and record.phase is Phase.RUNNING:
            return self._look_after(record, found)
        found.backlog = backlog = read_backlog(self._store, self._pipeline, decide.seen(record))
        found.hold = decide.hold(record, self._service.fingerprint, self._clock())
        if not backlog.worth_a_run or found.hold is not None:
            return None
        return self._adopt(record) or self._announce(record, backlog)

    def _announce(self, record: RunRecord | None, backlog: Backlog) -> RunRecord:
        now_ts = self._clock()
        announced = decide.starting(
            record,
            pipeline=self._pipeline.name,
            epoch=self._epoch(record),
            fingerprint=self._service.fingerprint,
            backlog=backlog,
            now_ts=now_ts,
        )
        written = self._runs.append(announced, now_ts=now_ts)
        if record is not None and record.phase is Phase.OPEN:
            self._log.info("circuit_closed", pipeline=self._pipeline.name, reason="release or configuration changed")
        return written

    def _start(self, record: RunRecord, found: Dispatched, *, own: bool) -> RunRecord:
        """Ask for the run that `record` announced. If somebody else announced it and went away, it may be running."""
        adopted = None if own else self._adopt(record)
        if adopted is not None:
            return adopted
        try:
            run_id = self._service.start(self._pipeline.name, record.client_token)
        except StartRefused as error:
            return self._refused(record, error, found, spent=False)
        except StartConflict as error:
            if self._clock() - record.written_ts < decide.TOKEN_GRACE_SECS:
                raise
            return self._refused(record, error, found, spent=True)
        written = self._runs.append(decide.running(record, run_id, self._service.fingerprint), now_ts=self._clock())
        found.started += 1
        self._log.info("run_started", pipeline=self._pipeline.name, run_id=run_id, attempt=record.attempt)
        return written

    def _refused(self, record: RunRecord, error: BlizzardError, found: Dispatched, *, spent: bool) -> RunRecord:
        now_ts = self._clock()
        failed = decide.refused(record, str(error), now_ts, self._policy, spent=spent)
        return self._failed(self._runs.append(failed, now_ts=now_ts), found)

    def _adopt(self, record: RunRecord | None) -> RunRecord | None:
        run_id = self._service.active(self._pipeline.name)
        if run_id is None:
            return None
        now_ts = self._clock()
        adopted = decide.adopted(
            record,
            run_id,
            pipeline=self._pipeline.name,
            epoch=self._epoch(record),
            fingerprint=self._service.fingerprint,
            now_ts=now_ts,
        )
        written = self._runs.append(adopted, now_ts=now_ts)
        self._log.info("run_adopted", pipeline=self._pipeline.name, run_id=run_id)
        return written

    def _look_after(self, record: RunRecord, found: Dispatched) -> RunRecord | None:
        state = self._service.state(record.run_id or "")
        ended = self._ended(record, state)
        succeeded = state is not None and state.life is Life.SUCCEEDED
        seen = record.marks if ended and succeeded else {}
        # Only now: what the run consumed before it ended must not look as if it still waited.
        found.backlog = backlog = read_backlog(self._store, self._pipeline, seen)
        if not ended:
            return None
        now_ts = self._clock()
        following = decide.after(record, state, backlog, now_ts, self._policy)
        written = self._runs.append(following, now_ts=now_ts)
        if state is None:
            self._log.warning("run_unknown", pipeline=self._pipeline.name, run_id=record.run_id)
        elif written.phase is Phase.SUCCEEDED:
            self._log.info("run_succeeded", pipeline=self._pipeline.name, run_id=record.run_id)
        else:
            self._failed(written, found)
        return written

    def _ended(self, record: RunRecord, state: RunState | None) -> bool:
        if state is None:
            return self._clock() - record.written_ts >= decide.UNKNOWN_GRACE_SECS
        return state.life is not Life.ACTIVE

    def _failed(self, record: RunRecord, found: Dispatched) -> RunRecord:
        found.failed += 1
        self._log.warning(
            "run_failed",
            pipeline=self._pipeline.name,
            run_id=record.run_id,
            failures=record.failures,
            not_before_ts=record.not_before_ts,
            reason=record.reason,
        )
        if record.phase is Phase.OPEN:
            self._log.error(
                "circuit_open", pipeline=self._pipeline.name, failures=record.failures, reason=record.reason
            )
        return record

    def _trim(self) -> None:
        try:
            self._runs.trim()
        except BlizzardError as error:  # the records are there all the same; the next dispatch tries again
            self._log.warning("trim_failed", pipeline=self._pipeline.name, error=str(error))

    def _read_for_the_record(self, found: Dispatched) -> None:
        """How long files have waited is worth knowing most of all when runs cannot be started."""
        try:
            found.backlog = found.backlog or read_backlog(self._store, self._pipeline, {})
        except BlizzardError:
            return  # the log has the first error already

    def _epoch(self, record: RunRecord | None) -> str:
        return record.epoch if record else self._new_id()


def _note(found: Dispatched, record: RunRecord | None) -> None:
    found.hold = None
    if record is not None:
        found.phase, found.run_id = record.phase, record.run_id
