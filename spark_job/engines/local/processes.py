"""The processes of this machine that read files: the job's own, and a pool beside it."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ReadingProcesses:
    """`count` processes. The job's own is one of them: it reads while the others start, which takes a quarter of a
    second. They start when they are first needed, and stay."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: _Pool | None = None

    def map(self, call: Callable[[str], str], parts: Sequence[str]) -> list[str]:
        """The answer of `call` for each part, in order. Raises what it raises, and BrokenProcessPool if a process ends
        or cannot be started. After an error nobody reads on, and the next call starts new processes."""
        work = _SharedWork(call, parts)
        for _ in range(min(self._count, len(parts)) - 1):
            work.give_to(self._started())
        try:
            return work.finish()
        except BaseException:
            self._abandon()
            raise

    def pids(self) -> list[int]:
        """Of the processes beside the job's own."""
        return [] if self._pool is None else self._pool.pids()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _started(self) -> "_Pool":
        if self._pool is None:
            self._pool = _Pool(self._count - 1)
        return self._pool

    def _abandon(self) -> None:
        if self._pool is not None:
            self._pool.abandon()
            self._pool = None


class _Pool:
    """Processes that end with their lifeline, a pipe that this process holds open: also if this one is killed."""

    def __init__(self, count: int) -> None:
        context = get_context("spawn")
        held, self._lifeline = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(held,))

    def submit(self, call: Callable[[str], str], part: str) -> "Future[str]":
        """Raises BrokenProcessPool if a process has ended or cannot be started."""
        try:
            with _blocked_signals():
                return self._executor.submit(call, part)
        except OSError as error:
            raise BrokenProcessPool(f"no process could be started: {error}") from error

    def pids(self) -> list[int]:
        return [*self._executor._processes]

    def close(self) -> None:
        """Waits until the parts that were begun are read."""
        self._executor.shutdown(cancel_futures=True)
        self._lifeline.close()

    def abandon(self) -> None:
        self._lifeline.close()
        self._executor.shutdown(cancel_futures=True)


class _SharedWork:
    """Parts that this process and those of a pool take one by one, in order. After a failure nobody takes another."""

    def __init__(self, call: Callable[[str], str], parts: Sequence[str]) -> None:
        self._call = call
        self._waiting = deque(enumerate(parts))
        self._answers: dict[int, str] = {}
        self._count = len(parts)
        self._ended: SimpleQueue[tuple[int, Future[str]]] = SimpleQueue()

    def give_to(self, pool: _Pool) -> None:
        """One part, and the next one when that is done. Raises nothing: what fails is raised by `finish`."""
        taken = self._take()
        if taken is None:
            return
        number, part = taken
        try:
            future = pool.submit(self._call, part)
        except Exception as error:  # noqa: BLE001 - of any type, it belongs to this part
            future = Future()
            future.set_exception(error)
        future.add_done_callback(partial(self._end, pool, number))

    def _end(self, pool: _Pool, number: int, future: "Future[str]") -> None:
        """Runs in the pool's thread."""
        if future.cancelled() or future.exception() is not None:
            self._waiting.clear()
        else:
            self.give_to(pool)
        self._ended.put((number, future))

    def _take(self) -> tuple[int, str] | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def finish(self) -> list[str]:
        """Takes parts as long as there are any, then waits for those that the pool has."""
        while (taken := self._take()) is not None:
            number, part = taken
            self._answers[number] = self._call(part)
        while len(self._answers) < self._count:
            number, future = self._ended.get()
            self._answers[number] = future.result()
        return [self._answers[number] for number in range(self._count)]


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """A process that starts meanwhile has them blocked, until it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(lifeline: Connection) -> None:
    """A terminal sends Ctrl-C to all processes, and a service manager SIGTERM: the job's own one ends its batch first,
    and then this one."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    """When the other end is closed, by the job or with it."""
    with suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)
