"""A clock, and counted calls, so that a test can make something happen just before any of them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore, ObjectWriter


class Clock:
    """Unix seconds. They advance by `advance`, and by `tick_secs` with each reading."""

    def __init__(self, now_ts: float = 100_000.0, tick_secs: float = 0.0) -> None:
        self.now_ts = now_ts
        self.tick_secs = tick_secs

    def __call__(self) -> float:
        self.now_ts += self.tick_secs
        return self.now_ts

    def advance(self, secs: float) -> None:
        self.now_ts += secs


class Crash(BaseException):
    """The process dies here."""


class Calls:
    """Counts calls to storage, table and reader. A test may plan an action just before the n-th call from now."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []
        self.created: list[tuple[str, bytes]] = []
        """Key and content of every object that was ever created."""
        self.bases: dict[str, bytes] = {}
        """Content by key of every base of a checkpoint that was ever written."""
        self._planned: dict[int, Callable[[], object]] = {}
        self._named: dict[str, Callable[[], object]] = {}
        self._limit: int | None = None

    def at_most(self, n: int | None) -> None:
        """Fail after n calls from now (None: never): the work does not come to an end."""
        self._limit = None if n is None else self.count + n

    def before(self, n: int, action: Callable[[], object]) -> None:
        self._planned[self.count + n] = action

    def before_named(self, name: str, action: Callable[[], object]) -> None:
        """Just before the next call of this name."""
        self._named[name] = action

    def forget(self) -> None:
        self._planned.clear()
        self._named.clear()

    def __call__(self, name: str) -> None:
        self.count += 1
        self.names.append(name)
        assert self._limit is None or self.count <= self._limit, f"no end in sight: {self.names[-40:]}"
        action = self._planned.pop(self.count, None) or self._named.pop(name, None)
        if action is not None:
            action()


def crash() -> None:
    raise Crash


class WatchedStore:
    """A store that counts every call, and every object of a listing."""

    def __init__(self, store: ObjectStore, calls: Calls) -> None:
        self._store = store
        self._calls = calls

    @property
    def uri(self) -> str:
        return self._store.uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        self._calls(f"list {prefix}")
        for info in self._store.list(prefix, start_after=start_after, recursive=recursive):
            self._calls(f"listed {info.key}")
            yield info

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self._calls(f"list_folders {prefix}")
        return self._store.list_folders(prefix, start_after=start_after)

    def head(self, key: str) -> ObjectInfo | None:
        self._calls(f"head {key}")
        return self._store.head(key)

    def get(self, key: str) -> bytes:
        self._calls(f"get {key}")
        return self._store.get(key)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        self._calls(f"get_range {key}")
        return self._store.get_range(key, start, size)

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        self._calls(f"open {key}")
        return self._store.open(key)

    def create(self, key: str, data: bytes) -> ObjectInfo:
        self._calls(f"create {key}")
        info = self._store.create(key, data)
        self._calls.created.append((key, data))
        return info

    def put(self, key: str, data: bytes) -> ObjectInfo:
        self._calls(f"put {key}")
        if "/bases/" in key:
            self._calls.bases[key] = data
        return self._store.put(key, data)

    def writer(self, key: str) -> AbstractContextManager[ObjectWriter]:
        self._calls(f"writer {key}")
        return self._store.writer(key)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._calls(f"delete {key}")
            self._store.delete([key])
