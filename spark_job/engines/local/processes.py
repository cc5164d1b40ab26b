"""The processes of this machine that read files: the job's own, and a pool beside it."""

import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from queue import SimpleQueue
from threading import Thread


class ReadingProcesses:
    """`count` processes. The job's own is one of them: it reads while the others start, which takes a quarter of a
    second. They start when they are first needed, and stay."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def map(self, call: Callable[[str], str], parts: Sequence[str]) -> list[str]:
        """The answer of `call` for each part, in order. Raises what it raises, and BrokenProcessPool if a process
        ends; the next call starts new ones."""
        work = _SharedWork(call, parts)
        for _ in range(min(self._count, len(parts)) - 1):
            work.give_to(self.pool())
        try:
            return work.finish()
        except BrokenProcessPool:
            self._pool = None
            raise

    def pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._count - 1, mp_context=get_context("spawn"), initializer=_begin)
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


class _SharedWork:
    """Parts that this process and those of a pool take one by one, in order. After a failure nobody takes another."""

    def __init__(self, call: Callable[[str], str], parts: Sequence[str]) -> None:
        self._call = call
        self._waiting = deque(enumerate(parts))
        self._answers: dict[int, str] = {}
        self._count = len(parts)
        self._ended: SimpleQueue[tuple[int, Future[str]]] = SimpleQueue()

    def give_to(self, pool: ProcessPoolExecutor) -> None:
        """One part, and the next one when that is done. Raises nothing: what fails is raised by `finish`."""
        taken = self._take()
        if taken is None:
            return
        number, part = taken
        try:
            future = pool.submit(self._call, part)
        except RuntimeError as error:  # the pool has just broken, or is closed
            future = Future()
            future.set_exception(error)
        future.add_done_callback(partial(self._end, pool, number))

    def _end(self, pool: ProcessPoolExecutor, number: int, future: "Future[str]") -> None:
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
            try:
                self._answers[number] = self._call(part)
            except BaseException:
                self._waiting.clear()
                raise
        while len(self._answers) < self._count:
            number, future = self._ended.get()
            self._answers[number] = future.result()
        return [self._answers[number] for number in range(self._count)]


def _begin() -> None:
    """A terminal sends Ctrl-C to all processes: the job's own one ends its batch first, and then this one. If that one
    is killed, this one ends at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
