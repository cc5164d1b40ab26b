"""A draining run: the sources take turns until their backlog is gone, and longer if their pipeline lingers.

The run may have a time limit, after which it ends even if there is a backlog.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Protocol

from blizzard.errors import BlizzardError, PermanentError, RetryableError
from blizzard.log import Log
from spark_job.loop.ingest import Step, Totals
from spark_job.loop.retry_pause import Retrying, RetryPause, catch_failure, log_failure
from spark_job.ports.source import InputDiscovery

POLL_SECS = 1.0
"""How often an idle source on S3 looks for new input: one LIST of its manifest, and a GET only for new segments."""


class DrainedIngest(Retrying, Protocol):
    """The ingest loop of a source, as far as a draining run uses it (`Ingest`)."""

    totals: Totals

    def step(self, *, draining: bool) -> Step: ...


class DrainedSource(Protocol):
    """What a draining run needs of a source (`SourceJob`)."""

    @property
    def source_id(self) -> str: ...

    @property
    def pipeline(self) -> str: ...

    @property
    def linger_secs(self) -> float: ...

    @property
    def poll_secs(self) -> float: ...

    @property
    def ingest(self) -> DrainedIngest: ...

    @property
    def discovery(self) -> InputDiscovery: ...


class _Turns:
    """The turns of one source. They end when it fails, when its backlog is gone, or when the run is stopped."""

    def __init__(self, job: DrainedSource, *, discover: bool, log: Log, clock: Callable[[], float]) -> None:
        self.job = job
        self.last_commit_ts = clock()
        self.idle = self.waiting = self.ended = self.failed = False
        self.served = False
        """Whether the source has committed, or was found idle. Skipping duplicates is neither."""
        self._discovery_is_due = discover
        self._discovery_error: BlizzardError | None = None
        self._log = log
        self._clock = clock
        self._pause = RetryPause(job.ingest, clock, 0.0, draining=True)

    def take(self) -> bool:
        """One step, unless the source is paused. Returns whether there may be more to do at once."""
        if self.ended or self._clock() < self._pause.resume_ts:
            return False
        if self._discovery_is_due:
            self._discovery_is_due = False
            discover = self.job.discovery.discover_all
            self._discovery_error = catch_failure(self.job.source_id, self._log, discover)
        if catch_failure(self.job.source_id, self._log, self._step) is not None:
            self.ended = self.failed = True
        return not (self.ended or self.idle or self.waiting)

    def end(self, *, stopped: bool, time_is_up: bool = False) -> None:
        self.ended = True
        totals = {"source": self.job.source_id, **asdict(self.job.ingest.totals)}
        if time_is_up:
            self._log("time_is_up", **totals)
        else:
            self._log("stopped" if stopped else "drained", **totals)
        if self._discovery_error is not None:
            self.failed = True
            kind = RetryableError if isinstance(self._discovery_error, RetryableError) else PermanentError
            missing = "the source could not be swept; files that no event announced may be missing"
            log_failure(self.job.source_id, self._log, kind(missing))

    def _step(self) -> None:
        self.idle = self.waiting = False
        step = self._pause.attempt(partial(self.job.ingest.step, draining=True))
        if step is None:
            return
        self.served = self.served or step in (Step.IDLE, Step.WAITING, Step.COMMITTED)
        self.idle, self.waiting = step is Step.IDLE, step is Step.WAITING
        if self.idle or self.waiting:
            self._pause.resume_ts = self._clock() + self.job.poll_secs
        elif step is Step.COMMITTED:  # not by entries that need no commit, such as records of sweeps
            self.last_commit_ts = self._clock()


def drain_all(
    jobs: Sequence[DrainedSource],
    *,
    discover: bool,
    log: Log,
    stopping: Callable[[], bool],
    clock: Callable[[], float],
    wait: Callable[[float], object],
    max_secs: float = math.inf,
) -> tuple[bool, bool]:
    """The sources take turns, so that none waits for the steady traffic or the linger of another. A source that fails
    does not stop the others. Returns whether any source failed, and whether any was stopped before its backlog was
    gone.

    `discover`: whether the sources run their input discovery first. `clock` gives seconds and never goes back; `wait`
    waits for seconds, and returns early if the run should stop. After `max_secs` no step is started, except for a
    source that has neither committed nor been found idle yet: long steps of one source do not shut out the others. A
    source that ends at the limit counts neither as failed nor as stopped.
    """
    until_ts = clock() + max_secs
    round_secs = min((job.poll_secs for job in jobs), default=POLL_SECS)
    sources = [_Turns(job, discover=discover, log=log, clock=clock) for job in jobs]
    while not stopping() and not all(source.ended for source in sources):
        busy = False
        for source in sources:
            due = clock() < until_ts or not source.served
            busy = (due and not stopping() and source.take()) or busy
        _end_drained(sources, clock())
        if clock() >= until_ts and all(source.served or source.ended for source in sources):
            _end_at_limit(sources)
        elif not busy and not all(source.ended for source in sources):
            wait(round_secs)
    unfinished = [source for source in sources if not source.ended]
    for source in unfinished:
        source.end(stopped=not source.idle)
    return any(source.failed for source in sources), any(not source.idle for source in unfinished)


def _end_at_limit(sources: Sequence[_Turns]) -> None:
    for source in sources:
        if not source.ended:
            source.end(stopped=False, time_is_up=True)


def _end_drained(sources: Sequence[_Turns], now_ts: float) -> None:
    """A pipeline lingers as a whole: until none of its sources has committed for `linger_secs`."""
    for pipeline in {source.job.pipeline for source in sources}:
        open_sources = [source for source in sources if source.job.pipeline == pipeline and not source.ended]
        last_commit_ts = max((source.last_commit_ts for source in open_sources), default=now_ts)
        for source in open_sources:
            linger_secs = source.job.linger_secs
            all_idle = all(other.idle for other in open_sources)
            quiet = linger_secs == 0 or (all_idle and now_ts - last_commit_ts >= linger_secs)
            if source.idle and quiet:
                source.end(stopped=False)
