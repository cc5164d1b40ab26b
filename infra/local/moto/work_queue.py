"""Work that the server hands to the process with the runners: functions to invoke, job runs to start and to cancel."""

import queue
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

RUNNER_GONE_SECS = 60.0
"""A running runner asks for work at least once a second; after this time without a request it counts as gone."""


class NoRunner(Exception):
    """No process takes work from this server."""


@dataclass(slots=True)
class _Question:
    answered: threading.Event = field(default_factory=threading.Event)
    answer: dict[str, Any] = field(default_factory=dict)


class WorkQueue:
    """A queue of JSON objects, each with a `kind` and an `id`. Thread-safe."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._questions: dict[str, _Question] = {}
        self._asked_at = 0.0

    def put(self, kind: str, **fields: Any) -> str:
        """Returns the item's id."""
        name = str(uuid.uuid4())
        self._items.put({"id": name, "kind": kind, **fields})
        return name

    def take(self, timeout_secs: float) -> dict[str, Any] | None:
        self._asked_at = time.monotonic()
        try:
            return self._items.get(timeout=timeout_secs)
        except queue.Empty:
            return None

    def ask(self, kind: str, timeout_secs: float, **fields: Any) -> dict[str, Any]:
        """Put work and wait for its answer. Raises NoRunner: at once where no runner is there, or after the timeout."""
        if time.monotonic() - self._asked_at > RUNNER_GONE_SECS:
            raise NoRunner("no process runs functions for this server; start the stack with `infra.local.aws`")
        name, question = str(uuid.uuid4()), _Question()
        self._questions[name] = question
        self._items.put({"id": name, "kind": kind, **fields})
        try:
            if not question.answered.wait(timeout_secs):
                raise NoRunner(f"no answer within {timeout_secs:g} s")
            return question.answer
        finally:
            del self._questions[name]

    def answer(self, name: str, answer: dict[str, Any]) -> None:
        """An answer that comes after the timeout is ignored."""
        question = self._questions.get(name)
        if question is not None:
            question.answer = answer
            question.answered.set()


WORK_QUEUE = WorkQueue()
"""One per process; a process is one server."""
