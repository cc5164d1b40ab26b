"""Fetches the objects of one task in the order of its files.

Small objects are fetched ahead, up to a total number of bytes. A large object is streamed: its next piece is fetched
while the previous one is processed.
"""

import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore

MAX_FILES_AHEAD = 256
WHOLE_BYTES = 16 << 20
"""Objects up to this size are fetched whole; larger ones are streamed when their turn comes."""
PIECE_BYTES = 1 << 20
"""Size of one piece of a streamed object. It arrives in less time than its records take to parse."""


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
    """Why the whole file is refused, if its path alone shows it. The file is then opened only for its etag."""
    records: tuple[int, ...] | None = None
    given: tuple[tuple[int, str], ...] = ()
    modified_ts: float = 0.0
    """These three are as in PlannedFile."""

    @property
    def known_info(self) -> ObjectInfo:
        """What is known of it without opening it."""
        return ObjectInfo(self.path, self.size, self.expected_etag or "", self.modified_ts)


@dataclass(frozen=True, slots=True)
class _Whole:
    """An object in memory."""

    info: ObjectInfo
    body: io.BytesIO

    def read(self, size: int = -1, /) -> bytes:
        return self.body.read(size)


class StreamedAhead:
    """Reads `reader` in another thread, one piece ahead of the caller. Call `stop` before closing `reader`."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stream")
        self._next_piece = self._fetch()
        self._piece = memoryview(b"")

    @property
    def info(self) -> ObjectInfo:
        return self._reader.info

    def read(self, size: int = -1, /) -> bytes:
        """Exactly `size` bytes, fewer only at the end. Raises what the reader raises."""
        pieces = []
        while size and self._more():
            piece = self._piece if size < 0 else self._piece[:size]
            self._piece = self._piece[len(piece) :]
            size -= len(piece) if size > 0 else 0
            pieces.append(piece)
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def stop(self) -> None:
        """Returns once the thread no longer uses the reader."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _more(self) -> bool:
        if not self._piece and (data := self._next_piece.result()):
            self._piece = memoryview(data)
            self._next_piece = self._fetch()
        return len(self._piece) > 0

    def _fetch(self) -> "Future[bytes]":
        return self._thread.submit(self._reader.read, PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class FileFetch:
    """Opens one file's object when its turn comes."""

    file: TaskFile
    _store: ObjectStore
    _fetched: "Future[_Whole | None] | None" = field(default=None)
    _remote: bool = field(default=False)

    @property
    def ahead_bytes(self) -> int:
        """Bytes that are fetched ahead; 0 for a file that will be streamed."""
        return self.file.size if self._fetched is not None else 0

    def enter(self, stack: ExitStack) -> ObjectReader:
        """Raises what storage raises."""
        if self.file.given:
            return _Whole(self.file.known_info, io.BytesIO())
        whole = self._fetched.result() if self._fetched is not None else None
        if whole is not None:
            return whole
        reader = stack.enter_context(self._store.open(self.file.path))
        if not self._remote:
            return reader
        streamed = StreamedAhead(reader)
        stack.callback(streamed.stop)
        return streamed


@dataclass(frozen=True, slots=True)
class FetchAhead:
    """How much is fetched ahead. With 0 threads nothing is: a local file opens faster than a thread starts."""

    threads: int
    bytes: int


def fetch_files(store: ObjectStore, files: Sequence[TaskFile], ahead: FetchAhead) -> Iterator[FileFetch]:
    """The files in order; each is fetched as early as `ahead` allows."""
    if not ahead.threads:
        yield from (FileFetch(file, store) for file in files)
        return
    with ThreadPoolExecutor(ahead.threads, thread_name_prefix="fetch") as pool:
        yield from _prefetch(store, files, ahead, pool)


def _prefetch(
    store: ObjectStore, files: Sequence[TaskFile], ahead: FetchAhead, pool: ThreadPoolExecutor
) -> Iterator[FileFetch]:
    waiting: deque[FileFetch] = deque()
    waiting_bytes = 0
    try:
        for file in files:
            waiting.append(FileFetch(file, store, _start_fetch(store, file, ahead, pool.submit), _remote=True))
            waiting_bytes += waiting[-1].ahead_bytes
            while waiting and (waiting_bytes > ahead.bytes or len(waiting) > MAX_FILES_AHEAD):
                waiting_bytes -= waiting[0].ahead_bytes
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _start_fetch(
    store: ObjectStore, file: TaskFile, ahead: FetchAhead, submit: Callable[..., "Future[_Whole | None]"]
) -> "Future[_Whole | None] | None":
    whole = file.size <= min(WHOLE_BYTES, ahead.bytes) and file.slice_bytes is None and not file.given
    return submit(_fetch, store, file.path, file.size) if whole else None


def _fetch(store: ObjectStore, path: str, most: int) -> _Whole | None:
    """None if the object is larger than its entry said; it is streamed instead."""
    with store.open(path) as reader:
        body = reader.read(most + 1) if reader.info.size <= most else None
        return _Whole(reader.info, io.BytesIO(body)) if body is not None and len(body) <= most else None
