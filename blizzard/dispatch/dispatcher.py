"""The dispatcher: one active run for each pipeline that has a backlog, and never a second one.

It writes a record before it starts a run, and another one with the id of the run. A dispatcher that finds the first
record without the second starts the run again with the same token, and the service returns the same run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blizzard.config.published import PublishedPipeline
from blizzard.dispatch import decide
from blizzard.dispatch.backlog import Backlog, read_backlog
from blizzard.dispatch.decide import FailurePolicy, Hold
from blizzard.dispatch.run_records import Phase, RunLog, RunRecord, SourcePosition
from blizzard.dispatch.service import JobService, RunState, RunStatus, StartConflict, StartRefused
from blizzard.dispatch.topic_backlog import RunTimes
from blizzard.errors import AlreadyExists, BlizzardError
from blizzard.log import Log
from blizzard.storage.base import ObjectStore

MAX_TRANSITIONS = 24
"""Limit for one dispatch. Starting a run writes two records and its end one. Only races between dispatchers need
more."""


@dataclass(slots=True)
class DispatchResult:
    """What one dispatch of a pipeline found and did. `backlog`: None if it could not be read."""

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
    """Where the dispatcher's log events go, by severity."""

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
        policy: FailurePolicy,
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

    def dispatch(self) -> DispatchResult:
        """Check the pipeline's run, and start one if it is due. An error is returned in the result,
        with everything found before it."""
        result = DispatchResult(self._pipeline.name)
        try:
            if self._run_transitions(result):
                self._trim()
        except BlizzardError as error:
            result.error = error
            self._log.error(
                "dispatch_failed", pipeline=result.pipeline, error=str(error), error_kind=type(error).__name__
            )
            self._read_backlog_for_metrics(result)
        return result

    def is_newest_run(self, run_id: str) -> bool:
        """Whether the newest record has this run. False if the record cannot be read."""
        try:
            latest = self._runs.latest()
        except BlizzardError:
            return False  # the next dispatch of the pipeline reports the error
        return latest is not None and latest.run_id == run_id

    def _run_transitions(self, result: DispatchResult) -> bool:
        """Whether a record was written."""
        record, own, wrote = self._runs.latest(), False, False
        for _ in range(MAX_TRANSITIONS):
            _record_phase(result, record)
            try:
                following = self._next_transition(record, result, own=own)
            except AlreadyExists:
                record, own = self._runs.latest(), False
                continue
            if following is None:
                break
            record, own, wrote = following, True, True
        return wrote

    def _next_transition(self, record: RunRecord | None, result: DispatchResult, *, own: bool) -> RunRecord | None:
        """Write the next record and return it; None if there is nothing more to do. Raises AlreadyExists if another
        dispatcher wrote that record first. `own`: whether this dispatch wrote `record`."""
        if record is not None and record.phase is Phase.STARTING:
            return self._start_run(record, result, own=own)
        if record is not None and record.phase is Phase.RUNNING:
            return self._check_run(record, result)
        result.backlog = backlog = self._backlog(decide.examined_positions(record), record)
        result.hold = decide.hold_reason(record, self._service.fingerprint, self._clock())
        if not decide.should_start_run(backlog, result.hold):
            return None
        return self._adopt_active_run(record) or self._announce_start(record, backlog)

    def _announce_start(self, record: RunRecord | None, backlog: Backlog) -> RunRecord:
        now_ts = self._clock()
        announced = decide.starting_record(
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

    def _start_run(self, record: RunRecord, result: DispatchResult, *, own: bool) -> RunRecord:
        """Start the run that `record` announced. If another dispatcher announced it, the run may be active already."""
        adopted = None if own else self._adopt_active_run(record)
        if adopted is not None:
            return adopted
        try:
            run_id = self._service.start(self._pipeline.name, record.client_token)
        except StartRefused as error:
            return self._record_refusal(record, error, result, token_used=False)
        except StartConflict as error:
            if self._clock() - record.written_ts < decide.TOKEN_GRACE_SECS:
                raise
            return self._record_refusal(record, error, result, token_used=True)
        written = self._runs.append(
            decide.running_record(record, run_id, self._service.fingerprint), now_ts=self._clock()
        )
        result.started += 1
        self._log.info("run_started", pipeline=self._pipeline.name, run_id=run_id, attempt=record.attempt)
        return written

    def _record_refusal(
        self, record: RunRecord, error: BlizzardError, result: DispatchResult, *, token_used: bool
    ) -> RunRecord:
        now_ts = self._clock()
        failed = decide.refused_record(record, str(error), now_ts, self._policy, token_used=token_used)
        return self._log_failure(self._runs.append(failed, now_ts=now_ts), result)

    def _adopt_active_run(self, record: RunRecord | None) -> RunRecord | None:
        """Write a record for an active run that the newest record does not have; None if the service has none."""
        run_id = self._service.active(self._pipeline.name)
        if run_id is None:
            return None
        now_ts = self._clock()
        adopted = decide.adopted_record(
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

    def _check_run(self, record: RunRecord, result: DispatchResult) -> RunRecord | None:
        state = self._service.state(record.run_id or "")
        ended = self._has_ended(record, state)
        succeeded = state is not None and state.status is RunStatus.SUCCEEDED
        examined = record.positions if ended and succeeded else {}
        # Read after the state: files that the run consumed before its end must not count as pending.
        result.backlog = backlog = self._backlog(examined, record, active=not ended)
        if not ended:
            return None
        now_ts = self._clock()
        following = decide.ended_record(record, state, backlog, now_ts, self._policy)
        written = self._runs.append(following, now_ts=now_ts)
        if state is None:
            self._log.warning("run_unknown", pipeline=self._pipeline.name, run_id=record.run_id)
        elif written.phase is Phase.SUCCEEDED:
            self._log.info("run_succeeded", pipeline=self._pipeline.name, run_id=record.run_id)
        else:
            self._log_failure(written, result)
        return written

    def _has_ended(self, record: RunRecord, state: RunState | None) -> bool:
        if state is None:
            return self._clock() - record.written_ts >= decide.UNKNOWN_GRACE_SECS
        return state.status is not RunStatus.ACTIVE

    def _log_failure(self, record: RunRecord, result: DispatchResult) -> RunRecord:
        result.failed += 1
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
        except BlizzardError as error:  # old records do no harm; the next dispatch tries again
            self._log.warning("trim_failed", pipeline=self._pipeline.name, error=str(error))

    def _read_backlog_for_metrics(self, result: DispatchResult) -> None:
        """The age of the backlog matters most when runs cannot be started."""
        try:
            result.backlog = result.backlog or self._backlog({}, None)
        except BlizzardError:
            return  # the first error is logged already

    def _backlog(
        self, examined: Mapping[str, SourcePosition], record: RunRecord | None, *, active: bool = False
    ) -> Backlog:
        times = RunTimes(self._clock(), record.started_ts if record else None, active)
        return read_backlog(self._store, self._pipeline, examined, times)

    def _epoch(self, record: RunRecord | None) -> str:
        return record.epoch if record else self._new_id()


def _record_phase(result: DispatchResult, record: RunRecord | None) -> None:
    result.hold = None
    if record is not None:
        result.phase, result.run_id = record.phase, record.run_id
