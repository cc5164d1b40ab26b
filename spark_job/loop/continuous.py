"""A continuous run, which ends at a signal: the sources take turns, and look for new input if that is due."""

from collections.abc import Callable, Sequence
from typing import Protocol

from blizzard.log import Log
from spark_job.loop.drain import POLL_SECS
from spark_job.loop.ingest import Step
from spark_job.loop.retry_pause import Retrying, RetryPause, catch_failure
from spark_job.ports.source import InputDiscovery

SECS_A_SOURCE = 0.01
"""A round without work takes a source less than a millisecond, so idle sources together take less than a tenth of a
core."""


class ContinuousIngest(Retrying, Protocol):
    """The ingest loop of a source, as far as a continuous run uses it (`Ingest`)."""

    def step(self, *, draining: bool) -> Step: ...

    def forget(self) -> None: ...


class ContinuousSource(Protocol):
    """What a continuous run needs of a source (`SourceJob`)."""

    @property
    def source_id(self) -> str: ...

    @property
    def ingest(self) -> ContinuousIngest: ...

    @property
    def discovery(self) -> InputDiscovery: ...

    @property
    def failed_pause_secs(self) -> float:
        """Pause of a source that has failed, before its first new attempt."""
        ...

    @property
    def poll_secs(self) -> float:
        """How often an idle source looks for new input: a LIST of its manifest."""
        ...


class _Schedule:
    """When one source has its next turn."""

    def __init__(
        self, job: ContinuousSource, *, discover: bool, log: Log, clock: Callable[[], float], round_secs: float
    ) -> None:
        """`round_secs`: from a round without work to the next one."""
        self._job = job
        self._idle_secs = max(0.0, job.poll_secs - round_secs)
        self._discover = discover
        self._log = log
        self._clock = clock
        self._pause = RetryPause(job.ingest, clock, clock(), draining=False)
        self.failed = False
        """Whether its attempts were used up, and no step has succeeded since."""

    def turn(self) -> bool:
        """Discover input if that is due, and take one step. Returns whether there may be more to do at once."""
        if self._clock() < self._pause.resume_ts:
            return False
        self._busy = False
        if catch_failure(self._job.source_id, self._log, self._work) is not None:
            self.failed, self._pause.failures = True, 0
            self._job.ingest.forget()
            self._pause.resume_ts = self._clock() + self._job.failed_pause_secs
        return self._busy

    def _work(self) -> None:
        step = self._pause.attempt(self._discover_and_step)
        if step is None:
            return
        self.failed = False
        self._busy = step in (Step.COMMITTED, Step.MOVED)
        if not self._busy and self._idle_secs:
            self._pause.resume_ts = self._clock() + self._idle_secs

    def _discover_and_step(self) -> Step:
        if self._discover:
            self._job.discovery.discover_due(self._clock())
        return self._job.ingest.step(draining=False)


def run_continuously(
    jobs: Sequence[ContinuousSource],
    *,
    discover: bool,
    log: Log,
    stopping: Callable[[], bool],
    clock: Callable[[], float],
    wait: Callable[[float], object],
) -> bool:
    """Ingest until `stopping`; a step in progress is finished first. Returns whether any source had failed by then,
    with no successful step since. `discover`: whether the sources run their input discovery. `clock` gives seconds and
    never goes back; `wait` waits for seconds, and returns early if the run should stop.

    A transient failure and a lost race are retried after a pause. Once the attempts are used up, the source has failed;
    it starts over after `failed_pause_secs`.
    """
    round_secs = max(min((job.poll_secs for job in jobs), default=POLL_SECS), len(jobs) * SECS_A_SOURCE)
    schedules = [_Schedule(job, discover=discover, log=log, clock=clock, round_secs=round_secs) for job in jobs]
    while not stopping():
        busy = [not stopping() and schedule.turn() for schedule in schedules]
        if not any(busy):
            wait(round_secs)
    log("stopped")
    return any(schedule.failed for schedule in schedules)
