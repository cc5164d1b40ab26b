"""A bounded number of concurrent calls, for requests that spend their time waiting."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class ParallelCalls:
    """Runs calls in background threads, at most `max_concurrency` concurrently. With 1, `submit` runs the call itself.

    At the end of the `with` block all calls have ended, and the error of the first failed one is raised. Threads start
    with the first call. After `wait` the object can be used again.
    """

    def __init__(self, max_concurrency: int, *, name: str) -> None:
        self._max_concurrency = max_concurrency
        self._name = name
        self._threads: ThreadPoolExecutor | None = None
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.wait()
        else:
            self.wait_ignoring_errors()

    def submit(self, call: Callable[[], None]) -> None:
        """Blocks while `max_concurrency` calls are running. Raises the error of an earlier call that failed."""
        if self._max_concurrency == 1:
            call()
            return
        while len(self._pending) >= self._max_concurrency:
            self._pending.popleft().result()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._max_concurrency, thread_name_prefix=self._name)
        self._pending.append(self._threads.submit(call))

    def wait(self) -> None:
        """Blocks until all calls have ended. Raises the error of the first one that failed."""
        pending = [*self._pending]
        self.wait_ignoring_errors()
        for call in pending:
            call.result()

    def wait_ignoring_errors(self) -> None:
        """Blocks until all calls have ended."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        self._threads = None
        self._pending.clear()
