"""Work that the server hands to the process with the runners: functions to invoke, job runs to start and to cancel."""

import queue
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

RUNNER_GONE_SECS = 60.0
"""A runner takes work at least once a second; after this time without a request it counts as stopped."""


class NoRunner(Exception):
    """No process takes work from this server."""


@dataclass(slots=True)
class _PendingCall:
    done: threading.Event = field(default_factory=threading.Event)
    result: dict[str, Any] = field(default_factory=dict)


class WorkQueue:
    """A queue of JSON objects, each with a `kind` and an `id`. Thread-safe."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._pending: dict[str, _PendingCall] = {}
        self._last_take = 0.0

    def put(self, kind: str, **fields: Any) -> str:
        """Returns the item's id."""
        name = str(uuid.uuid4())
        self._items.put({"id": name, "kind": kind, **fields})
        return name

    def take(self, timeout_secs: float) -> dict[str, Any] | None:
        self._last_take = time.monotonic()
        try:
            return self._items.get(timeout=timeout_secs)
        except queue.Empty:
            return None

    def call(self, kind: str, timeout_secs: float, **fields: Any) -> dict[str, Any]:
        """Put work and wait for its result. Raises NoRunner at once if no runner takes work, or after the timeout."""
        if time.monotonic() - self._last_take > RUNNER_GONE_SECS:
            raise NoRunner("no process runs functions for this server; start a stack with `make local-aws`")
        name, pending = str(uuid.uuid4()), _PendingCall()
        self._pending[name] = pending
        self._items.put({"id": name, "kind": kind, **fields})
        try:
            if not pending.done.wait(timeout_secs):
                raise NoRunner(f"no result within {timeout_secs:g} s; see local-aws.log in the folder of the stack")
            return pending.result
        finally:
            del self._pending[name]

    def complete(self, name: str, result: dict[str, Any]) -> None:
        """A result that comes after the timeout is ignored."""
        pending = self._pending.get(name)
        if pending is not None:
            pending.result = result
            pending.done.set()


WORK_QUEUE = WorkQueue()
"""One per process; a process is one server."""
