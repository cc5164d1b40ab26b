"""Delta's first checkpoint in a process keeps files waiting for seconds, since the JVM has never run its queries.
A job that has to wait anyway has Delta run the first half of them beforehand."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Protocol

from pyspark import InheritableThread

from blizzard.log import Log
from spark_job.table.spark_errors import error_text


class CommitCount(Protocol):
    commits: int


class WarmedIngest(Protocol):
    """The ingest loop of a source, as far as a warm-up looks at it (`Ingest`)."""

    @property
    def totals(self) -> CommitCount: ...


class WarmedSource(Protocol):
    """What a warm-up needs of a source (`SourceJob`)."""

    @property
    def source_id(self) -> str: ...

    @property
    def ingest(self) -> WarmedIngest: ...

    def warm_up(self) -> bool:
        """Whether it did: not for a table on which it would take long. From any thread; may raise anything."""
        ...


def in_a_thread(work: Callable[[], None]) -> None:
    """One that a run which ends does not wait for, with a thread of the JVM's to itself."""
    thread: Thread = InheritableThread(target=work, name="warm-up", daemon=True)
    thread.start()


class WarmUp:
    """The wait of a run. The first one after a source's first commit has a warm-up with its table beside it; if that
    comes to nothing, another source's first commit may have one.

    `start` begins it and returns at once; `clock` gives seconds and never goes back. Nothing rests on a warm-up:
    whatever it fails with is said in the log, by the thread that waits, and no more.
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
    ) -> None:
        self._wait = wait
        self._untried = list(jobs)
        self._log = log
        self._stopping = stopping
        self._start = start
        self._clock = clock
        self._under_way: tuple[str, Future[float | None]] | None = None
        """Whose warm-up, and how many seconds it took; None if the table is left alone."""
        self._done = False

    def __call__(self, secs: float) -> object:
        if self._under_way is not None and self._under_way[1].done():
            self._conclude(*self._under_way)
        if not (self._under_way or self._done or self._stopping()):
            self._begin()
        return self._wait(secs)

    def _begin(self) -> None:
        job = next((job for job in self._untried if job.ingest.totals.commits), None)
        if job is None:
            return
        self._untried.remove(job)
        took: Future[float | None] = Future()
        self._under_way = job.source_id, took
        try:
            self._start(lambda: self._warm_up(job, took))
        except Exception as error:  # noqa: BLE001 - no thread, or no engine: what needs them will say so
            took.set_exception(error)

    def _warm_up(self, job: WarmedSource, took: "Future[float | None]") -> None:
        began = self._clock()
        try:
            took.set_result(self._clock() - began if job.warm_up() else None)
        except Exception as error:  # noqa: BLE001 - as above
            took.set_exception(error)

    def _conclude(self, source_id: str, took: "Future[float | None]") -> None:
        self._under_way = None
        if isinstance(failure := took.exception(), Exception):
            self._log("not_warmed_up", source=source_id, error=f"{type(failure).__name__}: {error_text(failure)}")
        elif (secs := took.result()) is not None:
            self._done = True
            self._log("warmed_up", source=source_id, secs=round(secs, 2))
