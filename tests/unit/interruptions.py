"""What interrupts a run: a stop after some commits, a crash, and a storage that refuses a write."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from unittest.mock import patch

from blizzard.errors import StorageUnavailable
from blizzard.storage.local import LocalStore


class StopsAfter:
    """A run that ends in order after so many commits; 0: at its end."""

    def __init__(self, commits: int) -> None:
        self.event = threading.Event()
        self._left = commits

    def log(self, event: str, /, **fields: object) -> None:
        self._left -= event == "batch_committed"
        if self._left == 0 and event == "batch_committed":
            self.event.set()


class HasEvents(Protocol):
    """A lake that tells each event of a run."""

    on_event: Callable[[str], None]


def crash_at(lake: HasEvents, when: str) -> None:
    """The run that first tells this event ends there, by SystemExit."""

    def crash(event: str) -> None:
        if event == when:
            lake.on_event = lambda event: None
            raise SystemExit(when)

    lake.on_event = crash


@contextmanager
def unavailable(at: int) -> Iterator[None]:
    """One write to storage fails, counted from 1."""
    calls = Counter[str]()

    def failing(whole: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **named: Any) -> Any:
            calls["writes"] += 1
            if calls["writes"] == at:
                raise StorageUnavailable("planted: storage does not answer")
            return whole(*arguments, **named)

        return write

    with (
        patch.object(LocalStore, "put", failing(LocalStore.put)),
        patch.object(LocalStore, "create", failing(LocalStore.create)),
        patch.object(LocalStore, "writer", failing(LocalStore.writer)),
    ):
        yield
