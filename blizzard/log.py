"""Structured events: one JSON object a line. The event's name says what happened, the fields say to what."""

import json
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO, Protocol


class Log(Protocol):
    """Where events go."""

    def __call__(self, event: str, /, **fields: object) -> None: ...


class JsonLog:
    """Events as JSON lines on a text stream; every value is escaped, so no input can forge a line."""

    def __init__(self, stream: IO[str], clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()

    def __call__(self, event: str, /, **fields: object) -> None:
        when = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        own = {"ts": when, "event": event}
        line = json.dumps(own | fields | own, default=str)  # first in the line, and no field takes their place
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


def one_line(text: str) -> str:
    """For people's eyes: what ends a line, moves a terminal's cursor or turns the direction of writing is escaped, so
    that no name of a file can pretend to be a line of ours."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def first_line(text: str) -> str:
    """Of what a service of AWS answers: of a wrong signature the lines below it repeat the request, with the session's
    token."""
    return text.partition("\n")[0]


def stdout_log(clock: Callable[[], float]) -> JsonLog:
    return JsonLog(sys.stdout, clock)


def silent(event: str, /, **fields: object) -> None:
    """A log for those who do not listen."""
