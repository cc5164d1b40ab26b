"""An object store in memory with the semantics of the real ones; for tests."""

import bisect
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO

from blizzard.errors import AlreadyExists, NoSuchBytes, NotFound
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectWriter
from blizzard.storage.keys import check_key

_NEXT = "\0"
_AFTER_FOLDER = chr(ord("/") + 1)


class MemoryReader:
    """Reads the content at the time of opening."""

    def __init__(self, info: ObjectInfo, data: bytes) -> None:
        self._info = info
        self._body = BytesIO(data)

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def read(self, size: int = -1, /) -> bytes:
        return self._body.read(size)


class MemoryStore:
    """`clock` gives `modified_ts` (Unix seconds); an etag is the MD5 of the content, as on S3."""

    def __init__(self, clock: Callable[[], float], uri: str = "memory://store/") -> None:
        self._clock = clock
        self._uri = uri
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[ObjectInfo, bytes]] = {}
        self._keys: list[str] = []

    @property
    def uri(self) -> str:
        return self._uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        key = self._first(max(prefix, start_after + _NEXT))
        while key is not None and key.startswith(prefix):
            too_deep = not recursive and "/" in key[len(prefix) :]
            info = None if too_deep or key.endswith("/") else self.head(key)
            if info is not None:
                yield info
            key = self._first(key + _NEXT)

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        key = self._first(prefix)
        while key is not None and key.startswith(prefix):
            name, slash, _ = key[len(prefix) :].partition("/")
            folder = prefix + name + slash
            if slash and folder > start_after:
                yield folder
            key = self._first(prefix + name + _AFTER_FOLDER if slash else key + _NEXT)

    def head(self, key: str) -> ObjectInfo | None:
        check_key(key, self._uri)
        found = self._objects.get(key)
        return found[0] if found else None

    def get(self, key: str) -> bytes:
        return self._found(key)[1]

    def get_range(self, key: str, start: int, size: int) -> bytes:
        data = self._found(key)[1]
        if start >= len(data):
            raise NoSuchBytes(f"get {self._uri}{key}: expected more than {start} bytes, found {len(data)}")
        return data[start : start + size]

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        yield MemoryReader(*self._found(key))

    def create(self, key: str, data: bytes) -> ObjectInfo:
        check_key(key, self._uri)
        with self._lock:
            found = self._objects.get(key)
            if found is None:
                return self._write(key, data)
        if found[1] == data:
            return found[0]
        raise AlreadyExists(f"create {self._uri}{key}: another writer created this object first")

    def put(self, key: str, data: bytes) -> ObjectInfo:
        check_key(key, self._uri)
        with self._lock:
            return self._write(key, data)

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        check_key(key, self._uri)
        with BytesIO() as body:
            yield body
            self.put(key, body.getvalue())

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._lock:
                if self._objects.pop(key, None) is not None:
                    del self._keys[bisect.bisect_left(self._keys, key)]

    def _write(self, key: str, data: bytes) -> ObjectInfo:
        if key not in self._objects:
            bisect.insort(self._keys, key)
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        info = ObjectInfo(key, len(data), etag, self._clock())
        self._objects[key] = (info, bytes(data))
        return info

    def _found(self, key: str) -> tuple[ObjectInfo, bytes]:
        check_key(key, self._uri)
        found = self._objects.get(key)
        if found is None:
            raise NotFound(f"get {self._uri}{key}: there is no such object")
        return found

    def _first(self, key: str) -> str | None:
        """The first key at or after `key`. Looked up each time, so that concurrent writers do no harm."""
        with self._lock:
            at = bisect.bisect_left(self._keys, key)
            return self._keys[at] if at < len(self._keys) else None
