"""Reading the pending manifest fetches each segment once, on request or ahead of time."""

from collections import Counter
from threading import Barrier, Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Position
from blizzard.storage.memory import MemoryStore
from tests.unit.manifests import (
    append,
    consumed,
    filled,
    key,
    lettered,
    paths,
    remaining,
    sizes_of_segments,
    walk,
    wipe,
)
from tests.unit.strategies import SOURCE_ID, STATE_PREFIX, manifest_on


class CountingStore(MemoryStore):
    """Counts the reads of each key."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.read: Counter[str] = Counter()

    def get(self, key: str) -> bytes:
        self.read[key] += 1
        return super().get(key)


def filled_and_counting(*words: str, prefetch: int = 0) -> tuple[CountingStore, Manifest]:
    store = CountingStore()
    for word in words:
        append(manifest_on(store), word)
    store.read.clear()
    return store, Manifest(store, STATE_PREFIX, SOURCE_ID, prefetch=prefetch)


def test_reading_is_lazy() -> None:
    store, manifest = filled_and_counting(*"abcde")
    for _ in range(2):
        next(iter(manifest.unconsumed(Position(2, 0, manifest.refs()[1].etag))))
        assert store.read.total() == 1


@pytest.mark.parametrize("prefetch", [0, 4])
def test_reading_again_fetches_only_new_segments(prefetch: int) -> None:
    store, manifest = filled_and_counting(*"abc" * 20, prefetch=prefetch)
    for _ in range(3):
        assert paths(walk(manifest)) == "abc" * 20
    append(manifest_on(store), "d")
    assert paths(walk(manifest)) == "abc" * 20 + "d"
    assert store.read == Counter(dict.fromkeys(map(key, range(61)), 1))


def test_the_cache_keeps_the_first_segments_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    store, manifest = filled_and_counting(*"abcdefgh")
    monkeypatch.setattr("blizzard.manifest.pending_manifest.CACHE_BYTES", sum(ref.size for ref in manifest.refs()[1:4]))
    for _ in range(4):
        assert paths(walk(manifest)) == "abcdefgh"
    assert [store.read[key(number)] for number in range(8)] == [1, 1, 1, 4, 4, 4, 4, 4]
    position = consumed(manifest_on(store), 3)
    store.read.clear()
    for _ in range(4):
        assert paths(walk(manifest, position)) == "defgh"
    assert [store.read[key(number)] for number in range(8)] == [0, 0, 0, 1, 1, 1, 4, 4]


def test_a_segment_with_the_number_of_a_deleted_one_is_fetched() -> None:
    store, manifest = filled_and_counting("a", "b")
    assert paths(walk(manifest)) == "ab"
    wipe(store, 0)
    wipe(store, 1)
    append(manifest_on(store), "c")
    assert paths(walk(manifest)) == "c"


class ConcurrentGets(MemoryStore):
    """A get returns once `parties` gets are running. Records the keys."""

    def __init__(self, parties: int) -> None:
        super().__init__(lambda: 0.0)
        self.asked: list[str] = []
        self._barrier = Barrier(parties)

    def get(self, key: str) -> bytes:
        self.asked.append(key)
        self._barrier.wait(timeout=120)
        return super().get(key)


def test_segments_are_prefetched_concurrently() -> None:
    store = ConcurrentGets(4)
    for path in "abcdefgh":
        append(Manifest(store, STATE_PREFIX, SOURCE_ID), path)
    assert paths(walk(Manifest(store, STATE_PREFIX, SOURCE_ID, prefetch=4))) == "abcdefgh"


def test_no_more_segments_are_prefetched_than_configured() -> None:
    store = ConcurrentGets(1)
    for path in "abcdefgh":
        append(Manifest(store, STATE_PREFIX, SOURCE_ID), path)
    prefetching = Manifest(store, STATE_PREFIX, SOURCE_ID, prefetch=2)
    items = prefetching.unconsumed(Position())
    assert remaining(next(items)) == "a"
    items.close()
    assert {*store.asked} <= {key(number) for number in range(3)}
    store.asked.clear()
    assert remaining(next(prefetching.unconsumed(Position()))) == "a"
    assert key(0) not in store.asked  # it is in the cache


def test_a_reader_that_stops_does_not_wait_for_requests_in_flight() -> None:
    asked, answer = Event(), Event()

    class Slow(MemoryStore):
        def get(self, name: str) -> bytes:
            if name != key(0):
                asked.set()
                assert answer.wait(timeout=60)
            return super().get(name)

    store = Slow(lambda: 0.0)
    for path in "abc":
        append(Manifest(store, STATE_PREFIX, SOURCE_ID), path)
    items = Manifest(store, STATE_PREFIX, SOURCE_ID, prefetch=2).unconsumed(Position())
    assert remaining(next(items)) == "a"
    assert asked.wait(timeout=60)
    items.close()
    assert not answer.is_set()
    answer.set()


@given(sizes_of_segments, st.data())
def test_prefetching_reads_the_same_segments(sizes: list[int], data: st.DataObject) -> None:
    store, manifest = filled(*lettered(sizes))
    prefetching = Manifest(store, STATE_PREFIX, SOURCE_ID, prefetch=data.draw(st.integers(1, 4)))
    position = consumed(manifest, data.draw(st.integers(0, sum(sizes))))
    torn = data.draw(st.sets(st.integers(0, len(sizes))))
    for number in {*range(len(sizes))} & torn:
        store.put(key(number), b"torn") if number % 2 else wipe(store, number)
    read = [(list[UnreadableState](), one) for one in (manifest_on(store), prefetching)]
    expected, found = ([*one.unconsumed(position, errors)] for errors, one in read)
    assert found == expected
    assert [*map(str, read[0][0])] == [*map(str, read[1][0])]
