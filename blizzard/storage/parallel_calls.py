"""A few calls at the same time, for requests whose time is latency."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class ParallelCalls:
    """Calls in the background, no more than `at_once` of them; with 1 each is over when `run` returns.

    At the end of its `with` block all have ended, and what one of them raised is raised. Threads begin with the first
    call, and may be asked for again after `wait`.
    """

    def __init__(self, at_once: int, *, name: str) -> None:
        self._at_once = at_once
        self._name = name
        self._threads: ThreadPoolExecutor | None = None
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.wait()
        else:
            self.settle()

    def run(self, call: Callable[[], None]) -> None:
        """Waits while as many are under way. Raises what an earlier one raised."""
        if self._at_once == 1:
            call()
            return
        while len(self._pending) >= self._at_once:
            self._pending.popleft().result()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._at_once, thread_name_prefix=self._name)
        self._pending.append(self._threads.submit(call))

    def wait(self) -> None:
        """Until all have ended. Raises what the first of them raised."""
        pending = [*self._pending]
        self.settle()
        for call in pending:
            call.result()

    def settle(self) -> None:
        """Until all have ended, whatever became of them."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        self._threads = None
        self._pending.clear()
