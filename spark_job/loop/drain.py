"""A run that drains: every source in turn until nothing is left, and for a while longer where its pipeline lingers.

It may have a time after which it ends, whatever is left.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Protocol

from blizzard.errors import BlizzardError, PermanentError, RetryableError
from blizzard.log import Log
from spark_job.loop.ingest import Step, Totals

POLL_SECS = 1.0
"""How often an idle source is looked at: one LIST of its manifest, and a GET only for what is new."""


class Steps(Protocol):
    """The ingest loop of a source, as far as draining turns it (`Ingest`)."""

    totals: Totals

    def step(self, *, draining: bool) -> Step: ...

    def retry_after_secs(self, error: RetryableError | None, failures: int) -> float: ...


class DrainedSource(Protocol):
    """What draining needs of a source (`SourceJob`)."""

    @property
    def source_id(self) -> str: ...

    @property
    def pipeline(self) -> str: ...

    @property
    def linger_secs(self) -> float: ...

    @property
    def ingest(self) -> Steps: ...

    def sweep_all(self) -> None:
        """Both sweeps. Raises BlizzardError."""
        ...


class Patience:
    """Leaves a source alone for a while after trouble that may pass or a lost race, longer after more in a row."""

    def __init__(self, ingest: Steps, clock: Callable[[], float], resume_ts: float) -> None:
        self.resume_ts = resume_ts
        """Before it, the source is to be left alone."""
        self.failures = 0
        self._ingest = ingest
        self._clock = clock

    def attempt(self, work: Callable[[], Step]) -> Step | None:
        """What the work came to; None: it is to be tried again. Raises BlizzardError, once the attempts are used up."""
        trouble: RetryableError | None = None
        try:
            step = work()
        except RetryableError as error:
            step, trouble = Step.LOST, error
        if step is Step.LOST:
            self.failures += 1
            self.resume_ts = self._clock() + self._ingest.retry_after_secs(trouble, self.failures)
            return None
        self.failures = 0
        return step


class _Turn:
    """One source of the run. It ends when it fails, when it has no more to do, or when the run is stopped."""

    def __init__(self, job: DrainedSource, *, sweep: bool, log: Log, clock: Callable[[], float]) -> None:
        self.job = job
        self.news_ts = clock()
        self.idle = self.ended = self.failed = False
        self.served = False
        """Whether it got on, or was found to have nothing to do. Duplicates that were passed over are neither."""
        self._to_be_swept = sweep
        self._unswept: BlizzardError | None = None
        self._log = log
        self._clock = clock
        self._patience = Patience(job.ingest, clock, 0.0)

    def take(self) -> bool:
        """One step, unless the source is to be left alone for now. Whether there may be more to do at once."""
        if self.ended or self._clock() < self._patience.resume_ts:
            return False
        if self._to_be_swept:
            self._to_be_swept = False
            self._unswept = guarded(self.job.source_id, self._log, self.job.sweep_all)
        if guarded(self.job.source_id, self._log, self._step) is not None:
            self.ended = self.failed = True
        return not (self.ended or self.idle)

    def end(self, *, stopped: bool, time_is_up: bool = False) -> None:
        self.ended = True
        said = {"source": self.job.source_id, **asdict(self.job.ingest.totals)}
        if time_is_up:
            self._log("time_is_up", **said)
        else:
            self._log("stopped" if stopped else "drained", **said)
        if self._unswept is not None:
            self.failed = True
            kind = RetryableError if isinstance(self._unswept, RetryableError) else PermanentError
            missing = "the source could not be swept; files that no event announced may be missing"
            _say_failed(self.job.source_id, self._log, kind(missing))

    def _step(self) -> None:
        self.idle = False
        step = self._patience.attempt(partial(self.job.ingest.step, draining=True))
        if step is None:
            return
        self.served = self.served or step in (Step.IDLE, Step.COMMITTED)
        self.idle = step is Step.IDLE
        if self.idle:
            self._patience.resume_ts = self._clock() + POLL_SECS
        elif step is Step.COMMITTED:  # what needs no commit, such as a sweep's marks, is no traffic to linger for
            self.news_ts = self._clock()


def guarded(source_id: str, log: Log, work: Callable[[], object]) -> BlizzardError | None:
    """What the source's work failed with, if it did: the log says so, and the other sources go on."""
    try:
        work()
    except BlizzardError as error:
        _say_failed(source_id, log, error)
        return error
    return None


def _say_failed(source_id: str, log: Log, error: BlizzardError) -> None:
    log("source_failed", source=source_id, kind=type(error).__name__, error=str(error))


def drain_all(
    jobs: Sequence[DrainedSource],
    *,
    sweep: bool,
    log: Log,
    stopping: Callable[[], bool],
    clock: Callable[[], float],
    wait: Callable[[float], object],
    max_secs: float = math.inf,
) -> tuple[bool, bool]:
    """Turn by turn, so that no source waits for another's steady traffic or linger. One that fails does not keep the
    others from being drained. Says whether any source failed, and whether one was stopped before its backlog was gone.

    `wait` for seconds returns early when the run is to stop. After `max_secs` no step is begun, except for a
    source that has not got on yet: however long the others' steps are, each source moves or is seen to have nothing to
    do. To end so is neither to fail nor to be stopped.
    """
    until_ts = clock() + max_secs
    turns = [_Turn(job, sweep=sweep, log=log, clock=clock) for job in jobs]
    while not stopping() and not all(turn.ended for turn in turns):
        busy = False
        for turn in turns:
            due = clock() < until_ts or not turn.served
            busy = (due and not stopping() and turn.take()) or busy
        _end_those_that_are_done(turns, clock())
        if clock() >= until_ts and all(turn.served or turn.ended for turn in turns):
            _end_by_time(turns)
        elif not busy and not all(turn.ended for turn in turns):
            wait(POLL_SECS)
    unfinished = [turn for turn in turns if not turn.ended]
    for turn in unfinished:
        turn.end(stopped=not turn.idle)
    return any(turn.failed for turn in turns), any(not turn.idle for turn in unfinished)


def _end_by_time(turns: Sequence[_Turn]) -> None:
    for turn in turns:
        if not turn.ended:
            turn.end(stopped=False, time_is_up=True)


def _end_those_that_are_done(turns: Sequence[_Turn], now_ts: float) -> None:
    """A pipeline lingers as a whole: until nothing came for any of its sources for so long."""
    for pipeline in {turn.job.pipeline for turn in turns}:
        mine = [turn for turn in turns if turn.job.pipeline == pipeline and not turn.ended]
        news_ts = max((turn.news_ts for turn in mine), default=now_ts)
        for turn in mine:
            linger_secs = turn.job.linger_secs
            quiet = linger_secs == 0 or (all(other.idle for other in mine) and now_ts - news_ts >= linger_secs)
            if turn.idle and quiet:
                turn.end(stopped=False)
