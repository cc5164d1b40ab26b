"""A store whose changes wait in memory until they are released."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter

from blizzard.errors import NotFound
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore, ObjectWriter
from blizzard.storage.memory import MemoryStore


class StagedStore:
    """Implements `ObjectStore`. Until `release`, what is written or deleted is only seen here, held in memory; after
    it this is the store below. Used where an operator decides whether the changes are wanted.

    `create` does not exclude other processes before `release`. `list_folders` may name folders of which all objects are
    staged for deletion. `clock` gives Unix seconds.
    """

    def __init__(self, store: ObjectStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._written = MemoryStore(clock, store.uri)
        self._deleted = set[str]()
        self._is_released = False

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def written(self) -> list[str]:
        """The keys of staged objects."""
        return [info.key for info in self._written.list()]

    @property
    def deleted(self) -> list[str]:
        return sorted(self._deleted)

    def release(self) -> None:
        """Writes, then deletes, below, once. If it fails or is killed in between, a part of it is done."""
        if self._is_released:
            return
        for key in self.written:
            self._store.put(key, self._written.get(key))
        self._store.delete(self.deleted)
        self._is_released = True

    # -- reading

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        below = self._store.list(prefix, start_after=start_after, recursive=recursive)
        if self._is_released:
            return below
        staged = self._written.list(prefix, start_after=start_after, recursive=recursive)
        kept = (info for info in below if info.key not in self._deleted and self._written.head(info.key) is None)
        return heapq.merge(kept, staged, key=attrgetter("key"))

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        below = self._store.list_folders(prefix, start_after=start_after)
        if self._is_released:
            return below
        return iter(sorted({*below, *self._written.list_folders(prefix, start_after=start_after)}))

    def head(self, key: str) -> ObjectInfo | None:
        return None if self._is_gone(key) else self._of(key).head(key)

    def get(self, key: str) -> bytes:
        return self._found(key).get(key)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        return self._found(key).get_range(key, start, size)

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        return self._found(key).open(key)

    def _is_gone(self, key: str) -> bool:
        return not self._is_released and key in self._deleted

    def _of(self, key: str) -> ObjectStore:
        is_staged = not self._is_released and self._written.head(key) is not None
        return self._written if is_staged else self._store

    def _found(self, key: str) -> ObjectStore:
        if self._is_gone(key):
            raise NotFound(f"{self.uri}{key} is staged for deletion")
        return self._of(key)

    # -- writing

    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self._changed(key).create(key, data)

    def put(self, key: str, data: bytes) -> ObjectInfo:
        return self._changed(key).put(key, data)

    def writer(self, key: str) -> AbstractContextManager[ObjectWriter]:
        return self._store.writer(key) if self._is_released else self._staging_writer(key)

    @contextmanager
    def _staging_writer(self, key: str) -> Iterator[ObjectWriter]:
        with self._written.writer(key) as writer:
            yield writer
        self._deleted.discard(key)

    def delete(self, keys: Iterable[str]) -> None:
        if self._is_released:
            self._store.delete(keys)
            return
        for key in keys:
            self._written.delete([key])
            if self._store.head(key) is not None:
                self._deleted.add(key)

    def _changed(self, key: str) -> ObjectStore:
        if self._is_released:
            return self._store
        self._deleted.discard(key)
        return self._written
