"""The pending manifest: an ordered log that nobody overwrites, and whose loss is noticed."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import AlreadyExists, StorageUnavailable, UnreadableState
from blizzard.manifest.segments import (
    MAX_RACES,
    Manifest,
    Position,
    Segment,
    SegmentRef,
    decode_segment,
    encode_segment,
)
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from tests.unit import strategies
from tests.unit.manifests import append, consumed, entry, filled, key, left, paths, walk, wipe
from tests.unit.strategies import PENDING, SOURCE_ID, STATE_PREFIX, manifest_on, memory_store

# The format


@given(strategies.segments)
def test_what_is_encoded_decodes_to_the_same_segment(segment: Segment) -> None:
    ref = SegmentRef(segment.number, segment.etag, 1)
    assert decode_segment(encode_segment(segment, SOURCE_ID), SOURCE_ID, ref) == segment


@given(strategies.segments)
def test_the_same_segment_always_gives_the_same_bytes(segment: Segment) -> None:
    twin = replace(segment, entries=tuple(replace(e) for e in segment.entries), etag="what storage says is not stored")
    assert encode_segment(segment, SOURCE_ID) == encode_segment(twin, SOURCE_ID)


def test_a_segment_is_stored_as_the_design_writes_it() -> None:
    store, _ = filled("ab")
    document = json.loads(store.get("_blizzard/events_landing/pending/00000000000000000000.json"))
    assert (document["source"], document["segment"], document["previous"]) == (SOURCE_ID, 0, None)
    first = {"path": "a", "size": 10, "etag": "etag-of-a", "event_ts": 1_706_450_400.0, "found_by": "event"}
    assert document["entries"][0] == first


@given(strategies.any_json)
def test_json_that_is_no_segment_is_unreadable_and_nothing_else(document: object) -> None:
    with pytest.raises(UnreadableState, match="segment 3 of events:landing"):
        decode_segment(json.dumps(document).encode(), SOURCE_ID, SegmentRef(3, "e", 1))


@given(strategies.segments, st.sampled_from(["entries", "sweep", "previous", "writer", "written_ts"]), st.data())
def test_a_segment_with_one_part_replaced_decodes_or_is_unreadable(
    segment: Segment, part: str, data: st.DataObject
) -> None:
    document = json.loads(encode_segment(segment, SOURCE_ID))
    document[part] = data.draw(strategies.any_json)
    try:
        decoded = decode_segment(json.dumps(document).encode(), SOURCE_ID, SegmentRef(segment.number, "e", 1))
    except UnreadableState:
        return
    assert decoded.number == segment.number


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"source": "events:other"},
        {"segment": 4},
        {"entries": {}},
        {"entries": ""},
        {"written_ts": float("inf")},
    ],
    ids=str,
)
def test_a_segment_of_another_format_source_number_or_shape_is_unreadable(change: dict[str, object]) -> None:
    document = json.loads(encode_segment(Segment(3, (entry("a"),), None, None, "w", 1.0), SOURCE_ID))
    with pytest.raises(UnreadableState):
        decode_segment(json.dumps(document | change).encode(), SOURCE_ID, SegmentRef(3, "e", 1))


# Appending


def test_numbers_begin_at_zero_and_none_is_skipped() -> None:
    manifest = manifest_on(memory_store())
    assert [append(manifest, path) for path in "abc"] == [0, 1, 2]


def test_each_segment_names_the_etag_of_the_one_before() -> None:
    _, manifest = filled("a", "b", "c")
    refs = manifest.refs()
    assert [manifest.read(ref).previous for ref in refs] == [None, refs[0].etag, refs[1].etag]


def test_eight_writers_at_once_fill_consecutive_numbers_and_overwrite_nothing() -> None:
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


def test_the_number_is_never_below_the_floor() -> None:
    _, manifest = filled("a")
    assert append(manifest, "b", floor=7) == 7
    assert append(manifest, "c", floor=3) == 8


def test_a_segment_behind_a_gap_names_nothing_before_it() -> None:
    _, manifest = filled("a")
    append(manifest, "b", floor=7)
    assert manifest.read(manifest.refs(7)[0]).previous is None


def test_a_writer_that_knew_a_manifest_goes_on_in_the_one_that_began_again() -> None:
    store, manifest = filled("a", "b", "c")
    wipe(store)
    append(manifest_on(store), "x")
    assert append(manifest, "y") == 1
    assert paths(walk(manifest)) == "xy"


def test_a_writer_that_loses_every_race_gives_up_with_an_error_that_invites_a_retry() -> None:
    class Crowded(MemoryStore):
        tries = 0

        def create(self, key: str, data: bytes) -> ObjectInfo:
            Crowded.tries += 1
            raise AlreadyExists(key)

    with pytest.raises(StorageUnavailable, match="MaximumConcurrency"):
        append(Manifest(Crowded(lambda: 0.0), STATE_PREFIX, SOURCE_ID), "a")
    assert Crowded.tries == MAX_RACES


class Interrupted(MemoryStore):
    """Somebody else works once before, and once after what is created next."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []

    def create(self, key: str, data: bytes) -> ObjectInfo:
        for others in (self.before.pop(),) if self.before else ():
            others()
        info = super().create(key, data)
        for others in (self.after.pop(),) if self.after else ():
            others()
        return info


def test_entries_at_a_number_that_was_consumed_and_trimmed_meanwhile_are_appended_once_more() -> None:
    store = Interrupted()
    manifest = manifest_on(store)
    for path in "ab":
        append(manifest, path)

    def others() -> None:
        for path in "cd":
            append(manifest, path)
        manifest.trim(consumed(manifest, 4))

    store.before.append(others)
    assert append(manifest_on(store), "x") == 4
    assert not store.before
    assert [ref.number for ref in manifest.refs(4)] == [4]
    assert left(walk(manifest)[-1]) == "x"


def test_a_writer_that_is_followed_at_once_does_not_append_twice() -> None:
    store = Interrupted()
    manifest = manifest_on(store)
    append(manifest, "a")
    store.after.append(lambda: append(manifest, "c"))
    assert append(manifest_on(store), "b") == 1
    assert paths(walk(manifest)) == "abc"


# Reading

words = st.lists(st.integers(0, 4), max_size=6)


def lettered(sizes: Sequence[int]) -> Iterator[str]:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    return ("".join(next(letters) for _ in range(size)) for size in sizes)


@given(words, st.data())
def test_reading_from_a_position_yields_exactly_the_rest(sizes: list[int], data: st.DataObject) -> None:
    texts = list(lettered(sizes))
    _, manifest = filled(*texts)
    everything = "".join(texts)
    count = data.draw(st.integers(0, len(everything)))
    position = consumed(manifest, count)
    assert paths(walk(manifest, position)) == everything[count:]
    assert all(item.unbroken_since == 0 for item in walk(manifest, position))


@given(words, st.data())
def test_trimming_changes_nothing_for_who_reads_on_and_keeps_the_newest(sizes: list[int], data: st.DataObject) -> None:
    texts = list(lettered(sizes))
    _, manifest = filled(*texts)
    count = data.draw(st.integers(0, sum(sizes)))
    position = consumed(manifest, count)
    before, refs = walk(manifest, position), manifest.refs()
    gone = manifest.trim(position)
    assert walk(manifest, position) == before
    assert manifest.refs() == refs[gone:]
    assert manifest.refs()[-1:] == refs[-1:]
    assert not any(ref.number < position.segment for ref in manifest.refs()[:-1])


def test_the_position_after_the_last_entry_is_the_start_of_the_next_segment() -> None:
    _, manifest = filled("ab", "c")
    first, second = walk(manifest)
    etag = first.segment.etag
    assert first.position_at(1) == Position(0, 1, etag, 0, first.chain)
    assert first.position_at(2) == Position(1, 0, etag, 0, first.chain)
    assert second.position_at(1) == Position(2, 0, second.segment.etag, 0, first.chain)


def test_the_position_before_the_first_entry_is_the_position_behind_the_segment_before() -> None:
    _, manifest = filled("ab", "c")
    first, second = walk(manifest)
    assert second.position_at(0) == first.position_at(2)


def test_a_segment_without_entries_is_passed_by_consuming_nothing() -> None:
    _, manifest = filled("", "a")
    assert walk(manifest)[0].position_at(0).segment == 1


class Counting(MemoryStore):
    """Counts what is read of each segment."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.read: Counter[str] = Counter()

    def get(self, key: str) -> bytes:
        self.read[key] += 1
        return super().get(key)


def filled_and_counted(*words: str, ahead: int = 0) -> tuple[Counting, Manifest]:
    store = Counting()
    for word in words:
        append(manifest_on(store), word)
    store.read.clear()
    return store, Manifest(store, STATE_PREFIX, SOURCE_ID, ahead=ahead)


def test_reading_is_lazy() -> None:
    store, manifest = filled_and_counted(*"abcde")
    for _ in range(2):
        next(iter(manifest.unconsumed(Position(2, 0, manifest.refs()[1].etag))))
        assert store.read.total() == 1


@pytest.mark.parametrize("ahead", [0, 4])
def test_who_looks_again_reads_only_what_is_new_however_many_segments_wait(ahead: int) -> None:
    store, manifest = filled_and_counted(*"abc" * 20, ahead=ahead)
    for _ in range(3):
        assert paths(walk(manifest)) == "abc" * 20
    append(manifest_on(store), "d")
    assert paths(walk(manifest)) == "abc" * 20 + "d"
    assert store.read == Counter(dict.fromkeys(map(key, range(61)), 1))


def test_what_is_kept_has_a_limit_and_is_what_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    store, manifest = filled_and_counted(*"abcdefgh")
    monkeypatch.setattr("blizzard.manifest.segments.KEPT_BYTES", sum(ref.size for ref in manifest.refs()[1:4]))
    for _ in range(4):
        assert paths(walk(manifest)) == "abcdefgh"
    assert [store.read[key(number)] for number in range(8)] == [1, 1, 1, 4, 4, 4, 4, 4]
    position = consumed(manifest_on(store), 3)
    store.read.clear()
    for _ in range(4):
        assert paths(walk(manifest, position)) == "defgh"
    assert [store.read[key(number)] for number in range(8)] == [0, 0, 0, 1, 1, 1, 4, 4]


def test_a_segment_that_came_in_the_place_of_another_is_read() -> None:
    store, manifest = filled_and_counted("a", "b")
    assert paths(walk(manifest)) == "ab"
    wipe(store, 0)
    wipe(store, 1)
    append(manifest_on(store), "c")
    assert paths(walk(manifest)) == "c"


class Together(MemoryStore):
    """Answers once so many are asked for at the same time, and counts."""

    def __init__(self, parties: int) -> None:
        super().__init__(lambda: 0.0)
        self.asked: list[str] = []
        self._barrier = Barrier(parties)

    def get(self, key: str) -> bytes:
        self.asked.append(key)
        self._barrier.wait(timeout=120)
        return super().get(key)


def test_segments_are_fetched_ahead_at_the_same_time() -> None:
    store = Together(4)
    for path in "abcdefgh":
        append(Manifest(store, STATE_PREFIX, SOURCE_ID), path)
    assert paths(walk(Manifest(store, STATE_PREFIX, SOURCE_ID, ahead=4))) == "abcdefgh"


def test_no_more_is_fetched_ahead_than_was_said() -> None:
    store = Together(1)
    for path in "abcdefgh":
        append(Manifest(store, STATE_PREFIX, SOURCE_ID), path)
    ahead = Manifest(store, STATE_PREFIX, SOURCE_ID, ahead=2)
    items = ahead.unconsumed(Position())
    assert left(next(items)) == "a"
    items.close()
    assert {*store.asked} <= {key(number) for number in range(3)}
    store.asked.clear()
    assert left(next(ahead.unconsumed(Position()))) == "a"
    assert key(0) not in store.asked  # it was read before


def test_who_needs_no_more_does_not_wait_for_what_is_under_way() -> None:
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
    items = Manifest(store, STATE_PREFIX, SOURCE_ID, ahead=2).unconsumed(Position())
    assert left(next(items)) == "a"
    assert asked.wait(timeout=60)
    items.close()
    assert not answer.is_set()
    answer.set()


@given(words, st.data())
def test_who_fetches_ahead_reads_the_same(sizes: list[int], data: st.DataObject) -> None:
    store, manifest = filled(*lettered(sizes))
    ahead = Manifest(store, STATE_PREFIX, SOURCE_ID, ahead=data.draw(st.integers(1, 4)))
    position = consumed(manifest, data.draw(st.integers(0, sum(sizes))))
    torn = data.draw(st.sets(st.integers(0, len(sizes))))
    for number in {*range(len(sizes))} & torn:
        store.put(key(number), b"torn") if number % 2 else wipe(store, number)
    read = [(list[UnreadableState](), one) for one in (manifest_on(store), ahead)]
    expected, found = ([*one.unconsumed(position, errors)] for errors, one in read)
    assert found == expected
    assert [*map(str, read[0][0])] == [*map(str, read[1][0])]


def test_nothing_is_read_when_nothing_is_new() -> None:
    store, manifest = filled("a", "b")
    position = consumed(manifest, 2)
    manifest.trim(position)
    store.put(key(1), store.get(key(1)))
    assert walk(manifest, position) == []


def test_a_segment_that_is_trimmed_while_it_is_read_is_passed_over_and_breaks_the_chain() -> None:
    store, manifest = filled("a", "b", "c")
    items = manifest.unconsumed(Position())
    assert left(next(items)) == "a"
    wipe(store, 1)
    assert [(left(item), item.unbroken_since) for item in items] == [("c", 2)]


# What should not be there


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"format": 1}', b"[" * 5000, b"1" * 5000],
    ids=lambda content: repr(content[:12]),
)
def test_a_segment_that_cannot_be_read_is_skipped_and_reported_and_breaks_the_chain(content: bytes) -> None:
    store, manifest = filled("a", "b", "c")
    store.put(key(1), content)
    errors: list[UnreadableState] = []
    items = list(manifest.unconsumed(Position(), errors))
    assert [(left(item), item.unbroken_since) for item in items] == [("a", 0), ("c", 2)]
    assert "segment 1 of events:landing" in str(errors[0])
    assert len(errors) == 1


def test_an_unreadable_segment_at_the_position_is_reported_once_and_waited_behind() -> None:
    store, manifest = filled("a", "b", "c")
    position = consumed(manifest, 1)
    wipe(store, 0)
    store.put(key(1), b"torn")
    errors: list[UnreadableState] = []
    items = list(manifest.unconsumed(position, errors))
    assert [(left(item), item.unbroken_since) for item in items] == [("c", 2)]
    assert len(errors) == 1


def test_the_segment_of_another_source_is_skipped_and_reported() -> None:
    store, manifest = filled("a")
    store.put(key(1), encode_segment(Segment(1, (entry("b"),), None, None, "w", 1.0), "events:other"))
    errors: list[UnreadableState] = []
    assert paths(list(manifest.unconsumed(Position(), errors))) == "a"
    assert "events:other" in str(errors[0])


@pytest.mark.parametrize(
    "name",
    [
        "README",
        "7.json",
        "000000000000000000007.json",
        "00000000000000000007",
        "x/00000000000000000007.json",
        "²".zfill(20) + ".json",
    ],
)
def test_objects_that_are_no_segments_are_left_alone(name: str) -> None:
    store, manifest = filled("a")
    store.put(PENDING + name, b"somebody's note")
    assert append(manifest_on(store), "b") == 1
    assert paths(walk(manifest)) == "ab"
    manifest.trim(consumed(manifest, 2))
    assert store.get(PENDING + name) == b"somebody's note"
