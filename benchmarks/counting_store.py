"""An object store that counts the requests to another one, and their bytes."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore, ObjectWriter


class CountingStore:
    """`requests` counts calls that read; a listing counts once. `written_bytes` has what `put`, `create` and `writer`
    wrote, by the folder of the key."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.requests = 0
        self.read_bytes = 0
        self.written_bytes: dict[str, int] = {}

    @property
    def uri(self) -> str:
        return self._store.uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        self._count(0)
        return self._store.list(prefix, start_after=start_after, recursive=recursive)

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self._count(0)
        return self._store.list_folders(prefix, start_after=start_after)

    def head(self, key: str) -> ObjectInfo | None:
        self._count(0)
        return self._store.head(key)

    def get(self, key: str) -> bytes:
        data = self._store.get(key)
        self._count(len(data))
        return data

    def get_range(self, key: str, start: int, size: int) -> bytes:
        data = self._store.get_range(key, start, size)
        self._count(len(data))
        return data

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        self._count(0)
        return self._store.open(key)

    def create(self, key: str, data: bytes) -> ObjectInfo:
        self._wrote(key, len(data))
        return self._store.create(key, data)

    def put(self, key: str, data: bytes) -> ObjectInfo:
        self._wrote(key, len(data))
        return self._store.put(key, data)

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        with self._store.writer(key) as writer:
            yield writer
        info = self._store.head(key)
        self._wrote(key, info.size if info else 0)

    def delete(self, keys: Iterable[str]) -> None:
        self._store.delete(keys)

    def _count(self, size: int) -> None:
        with self._lock:
            self.requests += 1
            self.read_bytes += size

    def _wrote(self, key: str, size: int) -> None:
        folder = key.rpartition("/")[0]
        with self._lock:
            self.written_bytes[folder] = self.written_bytes.get(folder, 0) + size
