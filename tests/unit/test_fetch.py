"""A large object is fetched piece by piece, the next piece while the one before is read."""

import io
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import StorageUnavailable
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from spark_job.tasks import fetch
from spark_job.tasks.fetch import FetchAhead, StreamedAhead, TaskFile, fetch_files

INFO = ObjectInfo("a.ndjson", 10, "e", 1.0)
PATIENCE_SECS = 60


@dataclass
class Watched:
    """Hands out `body`; a read that is not let go on waits. `fails_at`: the number of the read that fails."""

    body: bytes
    fails_at: int = -1
    info: ObjectInfo = INFO
    reads: list[int] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    go_on: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self._stream = io.BytesIO(self.body)

    def read(self, size: int = -1, /) -> bytes:
        self.reads.append(size)
        self.threads.add(threading.current_thread().name)
        self.asked.release()
        assert self.go_on.acquire(timeout=PATIENCE_SECS)
        if len(self.reads) - 1 == self.fails_at:
            raise StorageUnavailable("no answer")
        return self._stream.read(size)


def let_go(reader: Watched, reads: int = 1000) -> Watched:
    for _ in range(reads):
        reader.go_on.release()
    return reader


@given(st.binary(max_size=200), st.integers(1, 50), st.lists(st.integers(0, 70), max_size=8))
def test_the_piece_size_does_not_change_what_is_read(body: bytes, piece_bytes: int, sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "PIECE_BYTES", piece_bytes)
        streamed, whole = StreamedAhead(let_go(Watched(body))), io.BytesIO(body)
        try:
            for size in sizes:
                assert streamed.read(size) == whole.read(size)
            assert streamed.read() == whole.read()
            assert streamed.read() == streamed.read(3) == b""
        finally:
            streamed.stop()


def test_the_next_piece_is_fetched_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PIECE_BYTES", 4)
    reader = let_go(Watched(b"0123456789"), 1)
    streamed = StreamedAhead(reader)
    assert streamed.read(2) == b"01"
    assert reader.asked.acquire(timeout=PATIENCE_SECS)
    assert reader.asked.acquire(timeout=PATIENCE_SECS), "the second piece is under way"
    assert reader.reads == [4, 4]
    assert streamed.read(2) == b"23"
    let_go(reader)
    assert streamed.read() == b"456789"
    streamed.stop()
    assert threading.current_thread().name not in reader.threads


def test_a_storage_error_is_raised_when_its_piece_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PIECE_BYTES", 4)
    streamed = StreamedAhead(let_go(Watched(b"0123456789", fails_at=1)))
    assert streamed.read(4) == b"0123"
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="no answer"):
            streamed.read(1)
    streamed.stop()


def test_nothing_is_read_after_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PIECE_BYTES", 4)
    reader = Watched(b"0123456789")
    streamed = StreamedAhead(reader)
    assert reader.asked.acquire(timeout=PATIENCE_SECS)
    stopping = threading.Thread(target=streamed.stop)
    stopping.start()
    assert stopping.is_alive(), "the first piece is still on its way"
    let_go(reader)
    stopping.join(PATIENCE_SECS)
    assert not stopping.is_alive()
    assert reader.reads == [4]


@pytest.mark.parametrize(("threads", "kind"), [(2, StreamedAhead), (0, object)])
def test_large_objects_of_a_remote_store_are_streamed_ahead(threads: int, kind: type) -> None:
    store = MemoryStore(lambda: 1.0)
    store.put("large", b"x" * 100)
    with ExitStack() as stack:
        [fetch] = fetch_files(store, [TaskFile("large", 100)], FetchAhead(threads, 10))
        reader = fetch.enter(stack)
        assert isinstance(reader, kind)
        assert isinstance(reader, StreamedAhead) == bool(threads)
        assert reader.read() == b"x" * 100
