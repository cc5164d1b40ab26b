"""Structured log: one JSON object per line, with the event's name and its fields."""

import json
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO, Protocol


class Log(Protocol):
    def __call__(self, event: str, /, **fields: object) -> None: ...


class JsonLog:
    """Writes JSON lines to a text stream. Every value is escaped, so no input can forge a line."""

    def __init__(self, stream: IO[str], clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()

    def __call__(self, event: str, /, **fields: object) -> None:
        when = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        own = {"ts": when, "event": event}
        line = json.dumps(own | fields | own, default=str)  # first in the line, and no field replaces them
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


def one_line(text: str) -> str:
    """For terminals: escapes line ends, control characters and changes of writing direction, so that no file name can
    look like a line of this program's output."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def first_line(text: str) -> str:
    """Of an AWS error message. After a wrong signature, the other lines contain the request with the session token."""
    return text.partition("\n")[0]


def stdout_log(clock: Callable[[], float]) -> JsonLog:
    return JsonLog(sys.stdout, clock)


def silent(event: str, /, **fields: object) -> None:
    """A log that drops every event."""
