"""Objects for one task, in the order of its files; small ones are fetched ahead, within a number of bytes."""

import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore

MOST_FILES_AHEAD = 256
WHOLE_BYTES = 16 << 20
"""Objects up to this size are fetched whole; larger ones are streamed when their turn comes."""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One file to read. `partitions` are the values of the source's partition columns, as text."""

    path: str
    size: int
    skip_records: int = 0
    slice_bytes: int | None = None
    expected_etag: str | None = None
    partitions: tuple[str | None, ...] = ()
    refusal: str | None = None
    """Why none of it can be a row of the table, where its path says so; it is opened for its etag alone."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """An object that was fetched whole."""

    info: ObjectInfo
    body: io.BytesIO

    def read(self, size: int = -1, /) -> bytes:
        return self.body.read(size)


@dataclass(frozen=True, slots=True)
class Opening:
    """How to get at one file's object when its turn comes."""

    file: TaskFile
    _store: ObjectStore
    _fetched: "Future[_Whole | None] | None" = field(default=None)

    @property
    def ahead_bytes(self) -> int:
        """What waits of it before its turn: nothing of a file that is streamed then."""
        return self.file.size if self._fetched is not None else 0

    def enter(self, stack: ExitStack) -> ObjectReader:
        """Raises what storage raises."""
        whole = self._fetched.result() if self._fetched is not None else None
        return whole if whole is not None else stack.enter_context(self._store.open(self.file.path))


@dataclass(frozen=True, slots=True)
class FetchAhead:
    """How much is fetched before its turn. No threads: nothing is, as where a file is opened faster than a thread."""

    threads: int
    bytes: int


def openings(store: ObjectStore, files: Sequence[TaskFile], ahead: FetchAhead) -> Iterator[Opening]:
    """Each file in its order, its fetch begun as early as `ahead` allows."""
    if not ahead.threads:
        yield from (Opening(file, store) for file in files)
        return
    with ThreadPoolExecutor(ahead.threads, thread_name_prefix="fetch") as pool:
        yield from _ahead(store, files, ahead, pool)


def _ahead(
    store: ObjectStore, files: Sequence[TaskFile], ahead: FetchAhead, pool: ThreadPoolExecutor
) -> Iterator[Opening]:
    waiting: deque[Opening] = deque()
    waiting_bytes = 0
    try:
        for file in files:
            waiting.append(Opening(file, store, _begun(store, file, ahead, pool.submit)))
            waiting_bytes += waiting[-1].ahead_bytes
            while waiting and (waiting_bytes > ahead.bytes or len(waiting) > MOST_FILES_AHEAD):
                waiting_bytes -= waiting[0].ahead_bytes
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begun(
    store: ObjectStore, file: TaskFile, ahead: FetchAhead, submit: Callable[..., "Future[_Whole | None]"]
) -> "Future[_Whole | None] | None":
    whole = file.size <= min(WHOLE_BYTES, ahead.bytes) and file.slice_bytes is None
    return submit(_fetch, store, file.path, file.size) if whole else None


def _fetch(store: ObjectStore, path: str, most: int) -> _Whole | None:
    """None when the object turns out to be larger than its entry said: it is streamed instead."""
    with store.open(path) as reader:
        body = reader.read(most + 1) if reader.info.size <= most else None
        return _Whole(reader.info, io.BytesIO(body)) if body is not None and len(body) <= most else None
