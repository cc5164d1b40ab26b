"""The calls of one process, at each of which it may be killed."""

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore, ObjectWriter

T = TypeVar("T")


class Steps:
    """Counts the calls of one process, and kills it at the `nth` call, or at the `nth` call named `at`, before or after
    its effect; 0: never. It waits up to `pause_secs` before each call, so that other processes come in between."""

    def __init__(
        self, nth: int = 0, *, at: str = "", after: bool = False, pause_secs: float = 0.0, seed: str = ""
    ) -> None:
        self.count = 0
        self.names: set[str] = set()
        """Names of the calls that were made."""
        self._named = 0
        self._at = at
        self._pause_secs = pause_secs
        self._rng = random.Random(seed)
        self._nth = nth
        self._after = after

    def __call__(self, name: str, effect: Callable[[], T]) -> T:
        self.count += 1
        self.names.add(name)
        if self._pause_secs:
            time.sleep(self._rng.uniform(0, self._pause_secs))
        self._named += name == self._at
        due = (self._named if self._at else self.count) == self._nth and self._at in ("", name)
        if due and not self._after:
            self._kill_at(name)
        answer = effect()
        if due:
            self._kill_at(name)
        return answer

    def _kill_at(self, name: str) -> None:
        where = f"{'after' if self._after else 'before'} {name}"
        print(json.dumps({"event": "died", "where": where, "at": name, "after": self._after}), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


class SteppedStore:
    """A store each of whose calls is a step; a listing is one."""

    def __init__(self, store: ObjectStore, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    @property
    def uri(self) -> str:
        return self._store.uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        found = self._store.list(prefix, start_after=start_after, recursive=recursive)
        return iter(self._steps(f"list {_kind(prefix)}", lambda: [*found]))

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        found = self._store.list_folders(prefix, start_after=start_after)
        return iter(self._steps("list_folders", lambda: [*found]))

    def head(self, key: str) -> ObjectInfo | None:
        return self._steps(f"head {_kind(key)}", lambda: self._store.head(key))

    def get(self, key: str) -> bytes:
        return self._steps(f"get {_kind(key)}", lambda: self._store.get(key))

    def get_range(self, key: str, start: int, size: int) -> bytes:
        return self._steps(f"get_range {_kind(key)}", lambda: self._store.get_range(key, start, size))

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        return self._steps(f"open {_kind(key)}", lambda: self._store.open(key))

    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self._steps(f"create {_kind(key)}", lambda: self._store.create(key, data))

    def put(self, key: str, data: bytes) -> ObjectInfo:
        return self._steps(f"put {_kind(key)}", lambda: self._store.put(key, data))

    def writer(self, key: str) -> AbstractContextManager[ObjectWriter]:
        return self._steps(f"writer {_kind(key)}", lambda: self._store.writer(key))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._steps(f"delete {_kind(key)}", lambda key=key: self._store.delete([key]))  # type: ignore[misc]


def _kind(key: str) -> str:
    """What an object is, without its number or name."""
    found = re.search(r"_blizzard/(?:events_landing[/_])?([a-z_]+)", key)
    return found[1] if found else "commit" if key.endswith(".commit") else "file"
