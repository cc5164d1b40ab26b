"""A continuous run, which ends at a signal: the sources take turns, and each is swept when that is due."""

from collections.abc import Callable, Sequence
from typing import Protocol

from blizzard.config.model import Source
from blizzard.log import Log
from spark_job.loop.drain import POLL_SECS
from spark_job.loop.ingest import Step
from spark_job.loop.retry_pause import Retrying, RetryPause, catch_failure


class ContinuousIngest(Retrying, Protocol):
    """The ingest loop of a source, as far as a continuous run uses it (`Ingest`)."""

    def step(self, *, draining: bool) -> Step: ...

    def forget(self) -> None: ...


class ContinuousSource(Protocol):
    """What a continuous run needs of a source (`SourceJob`)."""

    @property
    def source(self) -> Source: ...

    @property
    def source_id(self) -> str: ...

    @property
    def ingest(self) -> ContinuousIngest: ...

    def late_sweep_is_due(self) -> bool: ...

    def sweep(self, *, late: bool, record_if_empty: bool) -> object:
        """Raises BlizzardError."""
        ...


class _Schedule:
    """When one source has its next turn and its next sweeps. After a failure it is paused for a sweep's interval."""

    def __init__(self, job: ContinuousSource, *, sweep: bool, log: Log, clock: Callable[[], float]) -> None:
        self._job = job
        self._sweeps = sweep
        self._log = log
        self._clock = clock
        self._sweep_ts = self._late_ts = now_ts = clock()
        self._pause = RetryPause(job.ingest, clock, now_ts)
        self.failed = False
        """Whether its work was given up, and no step has succeeded since."""

    def turn(self) -> bool:
        """Sweep if that is due, and take one step. Says whether there may be more to do at once."""
        if self._clock() < self._pause.resume_ts:
            return False
        self._busy = False
        if catch_failure(self._job.source_id, self._log, self._work) is not None:
            self.failed, self._pause.failures = True, 0
            self._job.ingest.forget()
            self._pause.resume_ts = self._clock() + self._job.source.sweep.interval_secs
        return self._busy

    def _work(self) -> None:
        step = self._pause.attempt(self._sweep_and_step)
        if step is None:
            return
        self.failed = False
        self._busy = step in (Step.COMMITTED, Step.MOVED)

    def _sweep_and_step(self) -> Step:
        if self._sweeps and self._clock() >= self._sweep_ts:
            self._sweep()
        return self._job.ingest.step(draining=False)

    def _sweep(self) -> None:
        now_ts, settings = self._clock(), self._job.source.sweep
        self._job.sweep(late=False, record_if_empty=True)
        self._sweep_ts = now_ts + settings.interval_secs
        if now_ts >= self._late_ts and self._job.late_sweep_is_due():
            self._job.sweep(late=True, record_if_empty=True)
            self._late_ts = now_ts + settings.late_interval_secs


def run_continuously(
    jobs: Sequence[ContinuousSource],
    *,
    sweep: bool,
    log: Log,
    stopping: Callable[[], bool],
    clock: Callable[[], float],
    wait: Callable[[float], object],
) -> bool:
    """Ingest until `stopping`; a step in progress is finished first. Returns whether any source had failed by then,
    with no successful step since. `clock` gives seconds and never goes back; `wait` for seconds returns early when the
    run is to stop.

    A transient failure and a lost race are retried after a pause. Once the attempts are used up, the source has failed.
    """
    schedules = [_Schedule(job, sweep=sweep, log=log, clock=clock) for job in jobs]
    while not stopping():
        busy = [not stopping() and schedule.turn() for schedule in schedules]
        if not any(busy):
            wait(POLL_SECS)
    log("stopped")
    return any(schedule.failed for schedule in schedules)
