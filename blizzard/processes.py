"""The processes of this machine that read files: the job's own, and others beside it."""

import atexit
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from threading import Thread

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLOSE_SECS = 10.0
"""A process that has nothing to read ends at once."""

Call = Callable[[str], str]


class ProcessEnded(Exception):
    """A process that was reading has ended, or could not be started."""


class ReadingProcesses:
    """`count` processes. The job's own is one of them: it reads while the others start, which takes a quarter of a
    second. They start when they are first needed, and stay. Used by one thread."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._children: list[_Child] = []

    def map(self, call: Call, parts: Sequence[str], answered: Callable[[str], None] | None = None) -> list[str]:
        """The answer of `call` for each part, in order. Raises what it raises, and ProcessEnded. After an error nobody
        begins another part, and this returns when those that were begun are read. `answered` gets each answer as it
        comes, from several threads."""
        work = _SharedWork(call, parts, answered)
        helpers = max(0, min(self._count, len(parts)) - 1)
        try:
            self._start(helpers)
        except OSError as error:
            raise ProcessEnded(f"no process could be started: {error}") from error
        threads = [Thread(target=work.give_to, args=(child,), name="reading") for child in self._children[:helpers]]
        for thread in threads:
            thread.start()
        try:
            work.help()
        finally:
            for thread in threads:
                thread.join()
        return work.answers()

    def pids(self) -> list[int]:
        """Of the processes beside the job's own."""
        return [child.pid for child in self._children]

    def close(self) -> None:
        atexit.unregister(self.close)
        for child in self._children:
            child.close()
        self._children = []

    def _start(self, count: int) -> None:
        """So many, less those that are there. Raises OSError."""
        self._children = [child for child in self._children if child.is_alive]
        while len(self._children) < count:
            if not self._children:
                # Python waits for its children when it ends.
                atexit.register(self.close)
            self._children.append(_Child())


class _SharedWork:
    """Parts that this process and others take one by one, in order. After a failure nobody takes another."""

    def __init__(self, call: Call, parts: Sequence[str], answered: Callable[[str], None] | None) -> None:
        self._call = call
        self._answered = answered
        self._waiting = deque(enumerate(parts))
        self._answers: list[str | None] = [None] * len(parts)
        self._failures: list[Exception] = []

    def help(self) -> None:
        """Reads in this process. If it is interrupted, nobody begins another part."""
        try:
            self._take_all(self._call)
        except BaseException:
            self._waiting.clear()
            raise

    def give_to(self, child: "_Child") -> None:
        """Returns when there is nothing left to take, and the child has read what it got."""
        self._take_all(lambda part: child.answer(self._call, part))

    def _take_all(self, read: Call) -> None:
        try:
            while True:
                try:
                    number, part = self._waiting.popleft()
                except IndexError:
                    return
                answer = self._answers[number] = read(part)
                if self._answered is not None:
                    self._answered(answer)
        except Exception as error:  # noqa: BLE001 - raised by `answers`
            self._waiting.clear()
            self._failures.append(error)

    def answers(self) -> list[str]:
        if self._failures:
            raise self._failures[0]
        return [answer for answer in self._answers if answer is not None]


class _Child:
    """One process, which reads a part at a time. Raises OSError if it cannot be started."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._call: Call | None = None
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name="reading")
        resource_tracker.ensure_running()  # its start unblocks signals, so it must not come within the block
        with _blocked_signals():
            self._process.start()
        theirs.close()  # so that the end of the process is seen, even in the middle of an answer

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def answer(self, call: Call, part: str) -> str:
        """Raises what `call` raises, and ProcessEnded. A call travels once, before its first part."""
        try:
            if call is not self._call:
                self._ours.send(call)
                self._call = call
            self._ours.send(part)
            answer, failure = self._ours.recv()
            error = None if failure is None else self._received(failure)
        except (EOFError, ConnectionError) as broken:
            self._process.join(CLOSE_SECS)
            raise ProcessEnded(f"process {self.pid} has ended with exit code {self._process.exitcode}") from broken
        if error is not None:
            raise error from _InChild(failure)
        return str(answer)

    def _received(self, failure: str) -> Exception:
        """The error that follows, or its text where an object of its type cannot be made again."""
        try:
            error = self._ours.recv()
        except (EOFError, ConnectionError):
            raise
        except Exception:  # noqa: BLE001 - any type may refuse in its own way
            error = None
        return error if isinstance(error, Exception) else RuntimeError(failure.splitlines()[-1])

    def close(self) -> None:
        self._ours.close()
        self._process.join(CLOSE_SECS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class _InChild(Exception):
    """The traceback of an error of a child, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """A process that starts meanwhile has them blocked, until it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(theirs: Connection) -> None:
    """Until the other end is closed. A terminal sends Ctrl-C to all processes, and a service manager SIGTERM: the job's
    own one ends its batch first, and then this one. If that one is killed, this one ends at once."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    Thread(target=_end_with_parent, name="parent", daemon=True).start()
    call: Call = str
    with suppress(EOFError, ConnectionError):
        while True:
            received: Call | str = theirs.recv()
            if not isinstance(received, str):
                call = received
                continue
            try:
                answer = call(received)
            except Exception as error:  # noqa: BLE001 - raised in the job
                _tell(error, theirs)
            else:
                theirs.send((answer, None))


def _tell(error: Exception, theirs: Connection) -> None:
    """First its traceback as text, since not every error can travel."""
    theirs.send((None, traceback.format_exc()))
    try:
        theirs.send(error)
    except ConnectionError:
        raise
    except Exception:  # noqa: BLE001 - any type may refuse in its own way
        theirs.send(None)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
