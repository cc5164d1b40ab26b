"""What the server asks of those who run things for it: functions to invoke, job runs to start and to end."""

import queue
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

RUNNER_GONE_SECS = 60.0
"""Whoever runs things asks at least once a second; after this long without, nobody does."""


class NobodyRuns(Exception):
    """No process takes work from this server."""


@dataclass(slots=True)
class _Question:
    answered: threading.Event = field(default_factory=threading.Event)
    answer: dict[str, Any] = field(default_factory=dict)


class Work:
    """A queue of requests as JSON objects, each with a `kind` and an `id`. Safe for threads."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._questions: dict[str, _Question] = {}
        self._asked_at = 0.0

    def put(self, kind: str, **fields: Any) -> str:
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
        """Put work and wait for its answer. Raises NobodyRuns at once when nobody takes work, or after the timeout."""
        if time.monotonic() - self._asked_at > RUNNER_GONE_SECS:
            raise NobodyRuns("nothing runs functions for this server; `infra.local.aws` starts what does")
        name, question = str(uuid.uuid4()), _Question()
        self._questions[name] = question
        self._items.put({"id": name, "kind": kind, **fields})
        try:
            if not question.answered.wait(timeout_secs):
                raise NobodyRuns(f"no answer within {timeout_secs:g} s")
            return question.answer
        finally:
            del self._questions[name]

    def answer(self, name: str, answer: dict[str, Any]) -> None:
        """Nothing happens where nobody waits for it any more."""
        question = self._questions.get(name)
        if question is not None:
            question.answer = answer
            question.answered.set()


WORK = Work()
"""Of this process, which is one server."""
