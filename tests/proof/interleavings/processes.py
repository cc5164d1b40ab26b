"""What a process does next, known from what it was answered so far.

A process runs on a thread of its own and stops before each call to what others use, too. It is told the answer and goes
on to the next call. It must do the same whenever it gets the same answers; then it is run but once for each sequence of
answers, however many states of the world there are in which it gets them.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

PARKED = 64
"""Threads of one process that wait for their next answer; others are run again from the beginning."""


class Killed(BaseException):
    """The thread is not needed any more. Whatever it still tries to do has no effect."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call to what others use, too. Two of the same `key` have the same effect and answer in the same world.

    `reads` and `writes` are the areas (bits that the world has chosen) whose content decides the answer, and that it
    may change. Whoever changes something reads it, too, if the answer or what becomes of it depends on it.
    """

    text: str
    key: Hashable
    do: Callable[[Any], Any] = field(compare=False)
    """Does it in a world; returns the answer, or raises it."""
    reads: int = -1
    writes: int = -1
    lasts: Callable[[Any], bool] = field(default=lambda world: False, compare=False)
    """Whether in this world it changes nothing, and nobody can ever change what it answers."""
    unanswered: Exception | None = field(default=None, compare=False)
    """What its caller gets where no answer comes, whether or not it was done; None: an answer always comes."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Who works in a world. All that it will ever call reads and writes nothing but these areas."""

    name: str
    work: Callable[["Process"], object]
    reads: int = -1
    writes: int = -1


@dataclass(frozen=True, slots=True)
class Answer:
    value: Any = None
    error: Exception | None = None
    lost: bool = False
    """Whether this is what comes instead of one."""

    def take(self) -> Any:
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.value


class Process:
    """Moves from one call to the next when it is answered."""

    def __init__(self, worker: Worker) -> None:
        self.name = worker.name
        self.call: Call | None = None
        """What it is about to do; None once it has ended."""
        self.did: list[Call] = []
        """What it has done by itself since the last answer, in a place that nobody else uses."""
        self.error: Exception | None = None
        self._worker = worker
        self._answer: Answer | None = None
        self._go, self._there = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._there.acquire()
        threading.Thread(target=self._run, daemon=True).start()
        self._there.acquire()

    def go_on(self, answer: Answer | None) -> None:
        """To the next call, or to its end. None: it is not needed any more."""
        self._answer, self.did = answer, []
        self._go.release()
        self._there.acquire()

    def stop(self) -> None:
        while self.call is not None:
            self.go_on(None)

    def shares(self, call: Call) -> Any:
        """Called by the process itself: a call to what others use, too."""
        if (call.reads & ~self._worker.reads) | (call.writes & ~self._worker.writes):
            raise Killed(f"{self.name}: {call.text} reads or writes where its worker has said it does not")
        self.call = call
        self._there.release()
        self._go.acquire()
        if self._answer is None:
            raise Killed
        return self._answer.take()

    def does(self, call: Call) -> None:
        """Called by the process itself: an effect in a place of its own, together with the call before."""
        self.did.append(call)

    def _run(self) -> None:
        try:
            self._worker.work(self)
        except Killed as killed:
            self.error = RuntimeError(str(killed)) if str(killed) else None
        except Exception as error:  # noqa: BLE001 - whatever it is, the process has ended with it
            self.error = error
        self.call = None
        self._there.release()


@dataclass(eq=False, slots=True)
class Local:
    """Where a process is after a sequence of answers."""

    number: int
    """0 once it has ended, whatever it was answered: there is nothing to come."""
    call: Call | None
    """None: it has ended."""
    did: Sequence[Call]
    error: Exception | None
    answered: tuple["Local", Answer] | None
    """Where it was before, and what it was answered there."""
    lost: int = 0
    """Answers that it did not get."""
    after: dict[int, "Local"] = field(default_factory=dict)
    """By number of the answer."""
    call_number: int = -1
    """Of the call, and of what it did, among those of all processes; -1: not known yet."""
    did_number: int = -1


class Actor:
    """One worker, wherever it has come so far."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._last = 0
        self._parked: dict[int, Process] = {}
        self.first = self._note(Process(worker), None)

    def go_on(self, local: Local, number: int, answer: Answer) -> Local:
        """Where it comes from `local` with an answer that it did not get there before."""
        process = self._parked.pop(local.number, None) or self._again(local)
        process.go_on(answer)
        found = local.after[number] = self._note(process, (local, answer))
        return found

    def close(self) -> None:
        for process in self._parked.values():
            process.stop()
        self._parked.clear()

    def _again(self, local: Local) -> Process:
        answers: list[tuple[Local, Answer]] = []
        at = local
        while at.answered is not None:
            answers.append(at.answered)
            at = at.answered[0]
        process = Process(self.worker)
        for before, answer in reversed(answers):
            if process.call is None or before.call is None or process.call.key != before.call.key:
                raise RuntimeError(f"{self.worker.name} does something else when it is answered the same")
            process.go_on(answer)
        return process

    def _note(self, process: Process, answered: tuple[Local, Answer] | None) -> Local:
        self._last += process.call is not None
        number = 0 if process.call is None else self._last
        lost = answered[0].lost + answered[1].lost if answered is not None else 0
        local = Local(number, process.call, tuple(process.did), process.error, answered, lost)
        if process.call is not None:
            self._parked[local.number] = process
            if len(self._parked) > PARKED:
                self._parked.pop(next(iter(self._parked))).stop()
        return local
