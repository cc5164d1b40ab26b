"""Appending to the pending manifest: consecutive numbers, and nothing is overwritten."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from blizzard.errors import AlreadyExists, StorageUnavailable
from blizzard.manifest.pending_manifest import MAX_RACES, Manifest
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from tests.unit.manifests import append, consumed, filled, paths, remaining, walk, wipe
from tests.unit.strategies import SOURCE_ID, STATE_PREFIX, manifest_on, memory_store


def test_segment_numbers_start_at_zero_without_gaps() -> None:
    manifest = manifest_on(memory_store())
    assert [append(manifest, path) for path in "abc"] == [0, 1, 2]


def test_each_segment_names_the_etag_of_the_previous_one() -> None:
    _, manifest = filled("a", "b", "c")
    refs = manifest.refs()
    assert [manifest.read(ref).previous for ref in refs] == [None, refs[0].etag, refs[1].etag]


def test_eight_concurrent_writers_fill_consecutive_numbers_and_overwrite_nothing() -> None:
    store = memory_store()

    def write(writer: int) -> list[int]:
        manifest = manifest_on(store)
        return [append(manifest, f"{writer}-{n}", writer=str(writer)) for n in range(10)]

    with ThreadPoolExecutor(8) as pool:
        numbers = sorted(n for written in pool.map(write, range(8)) for n in written)
    assert numbers == list(range(80))
    items = walk(manifest_on(store))
    written = sorted(f"{writer}-{n}" for writer in range(8) for n in range(10))
    assert sorted(e.path for item in items for e in item.segment.entries) == written
    assert {item.unbroken_since for item in items} == {0}


def test_a_segment_number_is_never_below_the_floor() -> None:
    _, manifest = filled("a")
    assert append(manifest, "b", floor=7) == 7
    assert append(manifest, "c", floor=3) == 8


def test_a_segment_after_a_gap_names_no_previous_segment() -> None:
    _, manifest = filled("a")
    append(manifest, "b", floor=7)
    assert manifest.read(manifest.refs(7)[0]).previous is None


def test_a_writer_continues_in_a_manifest_that_was_deleted_and_restarted() -> None:
    store, manifest = filled("a", "b", "c")
    wipe(store)
    append(manifest_on(store), "x")
    assert append(manifest, "y") == 1
    assert paths(walk(manifest)) == "xy"


def test_a_writer_that_loses_every_race_raises_a_retryable_error() -> None:
    class Crowded(MemoryStore):
        tries = 0

        def create(self, key: str, data: bytes) -> ObjectInfo:
            Crowded.tries += 1
            raise AlreadyExists(key)

    with pytest.raises(StorageUnavailable, match="MaximumConcurrency"):
        append(Manifest(Crowded(lambda: 0.0), STATE_PREFIX, SOURCE_ID), "a")
    assert Crowded.tries == MAX_RACES


class InterruptedStore(MemoryStore):
    """Runs one callback before the next create and one after it."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []

    def create(self, key: str, data: bytes) -> ObjectInfo:
        for callback in (self.before.pop(),) if self.before else ():
            callback()
        info = super().create(key, data)
        for callback in (self.after.pop(),) if self.after else ():
            callback()
        return info


def test_entries_at_a_number_that_was_trimmed_meanwhile_are_appended_again() -> None:
    store = InterruptedStore()
    manifest = manifest_on(store)
    for path in "ab":
        append(manifest, path)

    def other_writers() -> None:
        for path in "cd":
            append(manifest, path)
        manifest.trim(consumed(manifest, 4))

    store.before.append(other_writers)
    assert append(manifest_on(store), "x") == 4
    assert not store.before
    assert [ref.number for ref in manifest.refs(4)] == [4]
    assert remaining(walk(manifest)[-1]) == "x"


def test_a_writer_followed_by_another_one_does_not_append_twice() -> None:
    store = InterruptedStore()
    manifest = manifest_on(store)
    append(manifest, "a")
    store.after.append(lambda: append(manifest, "c"))
    assert append(manifest_on(store), "b") == 1
    assert paths(walk(manifest)) == "abc"
