"""Runs the first part of Delta's checkpoint in the background while a job waits for input. Otherwise the first
checkpoint in a process would delay a commit by seconds, since the JVM has never run its queries."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from blizzard.log import Log


class CommitCount(Protocol):
    commits: int


class WarmedIngest(Protocol):
    """The part of `Ingest` that a warm-up needs."""

    @property
    def totals(self) -> CommitCount: ...


class WarmedSource(Protocol):
    """The part of `SourceJob` that a warm-up needs."""

    @property
    def source_id(self) -> str: ...

    @property
    def ingest(self) -> WarmedIngest: ...

    def warm_up(self) -> bool:
        """False if it skipped a table for which it would take long. Called on another thread; may raise any error."""
        ...


class WarmUp:
    """Wraps `wait`. The first wait after a source's first commit starts a warm-up of that source's table in the
    background. If that warm-up fails or skips the table, the next source with a commit gets one.

    `start` runs a function in the background and returns at once; `clock` is monotonic, in seconds. A warm-up is best
    effort: its error is only logged, by the waiting thread, with the text that `error_text` gives it.
    """

    def __init__(
        self,
        wait: Callable[[float], object],
        jobs: Sequence[WarmedSource],
        log: Log,
        *,
        stopping: Callable[[], bool],
        start: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
        error_text: Callable[[Exception], str],
    ) -> None:
        self._wait = wait
        self._untried = list(jobs)
        self._log = log
        self._stopping = stopping
        self._start = start
        self._clock = clock
        self._error_text = error_text
        self._running: tuple[str, Future[float | None]] | None = None
        """The source id, and the seconds that the warm-up took; None if it skipped the table."""
        self._done = False

    def __call__(self, secs: float) -> object:
        if self._running is not None and self._running[1].done():
            self._log_outcome(*self._running)
        if not (self._running or self._done or self._stopping()):
            self._start_next()
        return self._wait(secs)

    def _start_next(self) -> None:
        job = next((job for job in self._untried if job.ingest.totals.commits), None)
        if job is None:
            return
        self._untried.remove(job)
        took: Future[float | None] = Future()
        self._running = job.source_id, took
        try:
            self._start(lambda: self._warm_up(job, took))
        except Exception as error:  # noqa: BLE001 - no thread, or no Spark: other work will report that
            took.set_exception(error)

    def _warm_up(self, job: WarmedSource, took: "Future[float | None]") -> None:
        began = self._clock()
        try:
            took.set_result(self._clock() - began if job.warm_up() else None)
        except Exception as error:  # noqa: BLE001 - as above
            took.set_exception(error)

    def _log_outcome(self, source_id: str, took: "Future[float | None]") -> None:
        self._running = None
        if isinstance(failure := took.exception(), Exception):
            self._log("not_warmed_up", source=source_id, error=f"{type(failure).__name__}: {self._error_text(failure)}")
        elif (secs := took.result()) is not None:
            self._done = True
            self._log("warmed_up", source=source_id, secs=round(secs, 2))
