"""A versioned bucket keeps a delete marker for each trimmed object. Listings of daily work must not pass them."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from blizzard.dispatch.run_records import RECORDS_KEPT, TRIM_SLACK, RunLog
from blizzard.manifest.pending_manifest import TRIM_LOOKBACK, Manifest
from blizzard.manifest.segments import Entry, FoundBy, Position
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from functions.collector.composition import SourceManifest
from tests.unit.strategies import SOURCE_ID, STATE_PREFIX
from tests.unit.test_run_records import RECORD

KEYS_PER_REQUEST = 1_000
SEGMENTS = 100_000
"""Of two weeks at a segment every ten seconds."""
FOLDER = f"{STATE_PREFIX}/pending/"
COPY = f"{STATE_PREFIX}_checkpoint.json"
ENTRY = Entry("a.txt", 1, "etag", 1.0, FoundBy.EVENT)


class VersionedStore(MemoryStore):
    """Counts the keys that its listings pass, deleted ones included, as S3 does for its answers of 1,000 keys."""

    def __init__(self) -> None:
        super().__init__(lambda: 1_000.0, "memory://lake/")
        self.deleted: set[str] = set()
        self.passed = 0

    def delete(self, keys: Iterator[str]) -> None:  # type: ignore[override]
        gone = [*keys]
        self.deleted.update(gone)
        super().delete(gone)

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        after = max(prefix, start_after)
        markers = sum(key > after for key in self.deleted if key.startswith(prefix))
        self.passed += markers
        for info in super().list(prefix, start_after=start_after, recursive=recursive):
            self.passed += 1
            yield info

    def requests(self) -> int:
        """LISTs since the last call, without the one that each listing needs anyway."""
        passed, self.passed = self.passed, 0
        return passed // KEYS_PER_REQUEST


@pytest.fixture
def store() -> VersionedStore:
    """A manifest of which all segments but the newest are trimmed, and the copy of the checkpoint that consumed it."""
    store = VersionedStore()
    store.deleted.update(f"{FOLDER}{number:020d}.json" for number in range(SEGMENTS - 1))
    newest = manifest(store).append([ENTRY], writer_id="w", now_ts=1.0, floor=SEGMENTS - 1)
    assert newest == SEGMENTS - 1
    store.put(COPY, json.dumps({"manifest": {"segment": SEGMENTS}}).encode())
    store.passed = 0
    return store


def manifest(store: MemoryStore) -> Manifest:
    return Manifest(store, STATE_PREFIX, SOURCE_ID)


def position(store: VersionedStore) -> Position:
    """Everything is consumed."""
    (newest,) = manifest(store).refs(SEGMENTS - 1)
    return Position(newest.number + 1, 0, newest.etag, newest.number, "chain")


def test_the_listing_of_everything_passes_all_markers(store: VersionedStore) -> None:
    assert len(manifest(store).refs()) == 1
    assert store.requests() == SEGMENTS // KEYS_PER_REQUEST


def test_a_new_collector_begins_where_the_job_is(store: VersionedStore) -> None:
    collector = SourceManifest(manifest(store), store, COPY)
    numbers = [collector.append([ENTRY], writer_id="w", now_ts=2.0) for _ in range(3)]
    assert numbers == [SEGMENTS, SEGMENTS + 1, SEGMENTS + 2]
    assert store.requests() == 0


@pytest.mark.parametrize("copy", [None, b"torn", b"{}", b'{"manifest": {"segment": -1}}'])
def test_without_a_copy_a_collector_looks_through_everything(store: VersionedStore, copy: bytes | None) -> None:
    store.delete(iter([COPY])) if copy is None else store.put(COPY, copy)
    assert SourceManifest(manifest(store), store, COPY).append([ENTRY], writer_id="w", now_ts=2.0) == SEGMENTS


def test_a_copy_of_a_manifest_that_was_deleted_loses_no_entry(store: VersionedStore) -> None:
    store.delete(iter([f"{FOLDER}{SEGMENTS - 1:020d}.json"]))
    number = SourceManifest(manifest(store), store, COPY).append([ENTRY], writer_id="w", now_ts=2.0)
    (unconsumed,) = manifest(store).unconsumed(Position(SEGMENTS, 0, "another", 0, "chain"))
    assert unconsumed.segment.number == number
    assert unconsumed.segment.entries == (ENTRY,)


def test_a_job_reads_and_trims_from_its_position_on(store: VersionedStore) -> None:
    job, at = manifest(store), position(store)
    store.requests()
    for _ in range(30):
        manifest(store).append([ENTRY], writer_id="w", now_ts=3.0, floor=SEGMENTS)
        (*_, newest) = job.unconsumed(at)
        at = newest.position_at(1)
        job.trim(at)
    assert [ref.number for ref in job.refs(SEGMENTS - 5)] == [at.last_touched]
    assert store.requests() <= TRIM_LOOKBACK // KEYS_PER_REQUEST


def test_what_a_killed_job_left_untrimmed_is_trimmed_by_the_next_one(store: VersionedStore) -> None:
    at = position(store)
    for _ in range(5):
        manifest(store).append([ENTRY], writer_id="w", now_ts=3.0, floor=SEGMENTS)
    (*_, newest) = manifest(store).unconsumed(at)
    assert manifest(store).trim(newest.position_at(1)) == 5


def test_run_records_are_listed_from_those_that_are_kept() -> None:
    store = VersionedStore()
    log = RunLog(store, "events", lambda: "id")
    for number in range(3 * (RECORDS_KEPT + TRIM_SLACK)):
        log.append(replace(RECORD, number=number), now_ts=1.0)
        log.trim()
    store.deleted.update(f"_blizzard/_runs/events/{number:020d}.json" for number in range(RECORDS_KEPT))
    before = store.passed
    latest = log.latest()
    assert latest is not None
    assert latest.number == 3 * (RECORDS_KEPT + TRIM_SLACK) - 1
    assert store.passed - before <= RECORDS_KEPT + TRIM_SLACK + 1


def test_run_records_that_were_deleted_and_begun_again_are_found() -> None:
    store = VersionedStore()
    log = RunLog(store, "events", lambda: "id")
    for number in range(RECORDS_KEPT + TRIM_SLACK + 2):
        log.append(replace(RECORD, number=number), now_ts=1.0)
        log.trim()
    store.delete(iter([info.key for info in store.list()]))
    assert log.latest() is None
    RunLog(store, "events", lambda: "id").append(replace(RECORD, number=0), now_ts=1.0)
    latest = log.latest()
    assert latest is not None
    assert latest.number == 0
