"""A run that goes on until a signal: every source in turn, swept when it is due, and left alone for a while after
trouble."""

from collections.abc import Callable, Sequence
from typing import Protocol

from blizzard.config.model import Source
from blizzard.log import Log
from spark_job.loop.drain import POLL_SECS, Patience, Steps, guarded
from spark_job.loop.ingest import Step


class LoopingSteps(Steps, Protocol):
    """The ingest loop of a source, as far as a run that goes on turns it (`Ingest`)."""

    def forget(self) -> None: ...


class LoopingSource(Protocol):
    """What such a run needs of a source (`SourceJob`)."""

    @property
    def source(self) -> Source: ...

    @property
    def source_id(self) -> str: ...

    @property
    def ingest(self) -> LoopingSteps: ...

    def late_sweep_is_due(self) -> bool: ...

    def sweep(self, *, late: bool, announce: bool) -> object:
        """Raises BlizzardError."""
        ...


class _Schedule:
    """When a source has its next turn and its next sweeps. One that failed is left alone until a sweep later."""

    def __init__(self, job: LoopingSource, *, sweep: bool, log: Log, clock: Callable[[], float]) -> None:
        self._job = job
        self._sweeps = sweep
        self._log = log
        self._clock = clock
        self._sweep_ts = self._late_ts = now_ts = clock()
        self._patience = Patience(job.ingest, clock, now_ts)
        self.failed = False
        """Whether its work was given up and has not got on since."""

    def turn(self) -> bool:
        """Sweep if that is due, and take one step. Whether there may be more to do at once."""
        if self._clock() < self._patience.resume_ts:
            return False
        self._busy = False
        if guarded(self._job.source_id, self._log, self._work) is not None:
            self.failed, self._patience.failures = True, 0
            self._job.ingest.forget()
            self._patience.resume_ts = self._clock() + self._job.source.sweep.interval_secs
        return self._busy

    def _work(self) -> None:
        step = self._patience.attempt(self._sweep_and_step)
        if step is None:
            return
        self.failed = False
        self._busy = step in (Step.COMMITTED, Step.MOVED)

    def _sweep_and_step(self) -> Step:
        if self._sweeps and self._clock() >= self._sweep_ts:
            self._sweep()
        return self._job.ingest.step(draining=False)

    def _sweep(self) -> None:
        now_ts, every = self._clock(), self._job.source.sweep
        self._job.sweep(late=False, announce=True)
        self._sweep_ts = now_ts + every.interval_secs
        if now_ts >= self._late_ts and self._job.late_sweep_is_due():
            self._job.sweep(late=True, announce=True)
            self._late_ts = now_ts + every.late_interval_secs


def run_continuously(
    jobs: Sequence[LoopingSource],
    *,
    sweep: bool,
    log: Log,
    stopping: Callable[[], bool],
    clock: Callable[[], float],
    wait: Callable[[float], object],
) -> bool:
    """Go on until `stopping`; the step in hand is finished first. Says whether a source had failed by then, and not
    got on since. `clock` gives seconds and never goes back; `wait` for seconds returns early when the run is to stop.

    A transient failure and a lost race are retried after a pause. Once the attempts are used up, the source has failed.
    """
    schedules = [_Schedule(job, sweep=sweep, log=log, clock=clock) for job in jobs]
    while not stopping():
        busy = [not stopping() and schedule.turn() for schedule in schedules]
        if not any(busy):
            wait(POLL_SECS)
    log("stopped")
    return any(schedule.failed for schedule in schedules)
