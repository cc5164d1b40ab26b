"""A few concurrent calls: the limit holds, none is forgotten, no error is lost."""

import threading
from functools import partial

import pytest

from blizzard.storage.parallel_calls import ParallelCalls


class Gate:
    """Calls that wait until as many as expected are under way."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties, timeout=120)
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.done = 0

    def call(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._barrier.wait()
        with self._lock:
            self._now -= 1
            self.done += 1


def fail(text: str) -> None:
    raise ValueError(text)


def test_the_limit_of_concurrent_calls_is_used_and_not_exceeded() -> None:
    gate = Gate(4)
    with ParallelCalls(4, name="test") as calls:
        for _ in range(40):
            calls.submit(gate.call)
    assert (gate.most, gate.done) == (4, 40)


def test_with_a_limit_of_one_calls_run_in_order_on_the_calling_thread() -> None:
    found: list[tuple[int, str]] = []
    with ParallelCalls(1, name="test") as calls:
        for n in range(5):
            calls.submit(partial(lambda n: found.append((n, threading.current_thread().name)), n))
            assert len(found) == n + 1
    assert found == [(n, threading.current_thread().name) for n in range(5)]


@pytest.mark.parametrize("max_concurrency", [1, 3])
def test_the_first_error_is_raised_by_the_end_of_the_block(max_concurrency: int) -> None:
    def work() -> None:
        with ParallelCalls(max_concurrency, name="test") as calls:
            calls.submit(partial(fail, "first"))
            calls.submit(partial(fail, "second"))

    with pytest.raises(ValueError, match="first"):
        work()


def test_an_error_of_the_block_is_raised_after_all_calls_have_ended() -> None:
    done: list[int] = []
    release = threading.Event()

    def slow(n: int) -> None:
        release.wait(120)
        done.append(n)

    def work() -> None:
        with ParallelCalls(3, name="test") as calls:
            for n in range(3):
                calls.submit(partial(slow, n))
            release.set()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        work()
    assert sorted(done) == [0, 1, 2]


def test_calls_can_be_submitted_after_waiting() -> None:
    calls, found = ParallelCalls(2, name="test"), list[int]()
    for n in range(4):
        calls.submit(partial(found.append, n))
        if n % 2:
            calls.wait()
            assert sorted(found) == [*range(n + 1)]
