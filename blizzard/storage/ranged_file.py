"""An object as a file that pyarrow reads, of which only the wanted ranges are fetched."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

from blizzard.storage.base import ObjectStore


class RangedFile(io.RawIOBase):
    """Each read is a request, except within the last `tail_bytes` and what is `held`. Used by one thread."""

    def __init__(self, store: ObjectStore, key: str, size: int, *, tail_bytes: int) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._position = 0
        start = max(0, size - tail_bytes)
        self._blocks = [(start, store.get_range(key, start, size - start))]

    @contextmanager
    def held(self, start: int, end: int) -> Iterator[None]:
        """Has this range in memory, by one request or none, until the block ends."""
        if self._find(start, end) is not None:
            yield
            return
        self._blocks.append((start, self._store.get_range(self._key, start, end - start)))
        try:
            yield
        finally:
            self._blocks.pop()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = begin + offset
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        start = self._position
        end = self._size if size < 0 else min(start + size, self._size)
        if start >= end:
            return b""
        found = self._find(start, end)
        data = self._store.get_range(self._key, start, end - start) if found is None else found
        self._position += len(data)
        return data

    def _find(self, start: int, end: int) -> bytes | None:
        for begin, data in self._blocks:
            if begin <= start and end <= begin + len(data):
                return data[start - begin : end - begin]
        return None
