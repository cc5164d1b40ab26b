"""Reading the pending manifest from a position, trimming it, and skipping unreadable segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
from blizzard.manifest.segment_codec import encode_segment
from blizzard.manifest.segments import Position, Segment
from tests.unit.manifests import (
    append,
    consumed,
    entry,
    filled,
    key,
    lettered,
    paths,
    remaining,
    sizes_of_segments,
    walk,
    wipe,
)
from tests.unit.strategies import PENDING, manifest_on


@given(sizes_of_segments, st.data())
def test_reading_from_a_position_yields_exactly_the_remaining_entries(sizes: list[int], data: st.DataObject) -> None:
    texts = list(lettered(sizes))
    _, manifest = filled(*texts)
    everything = "".join(texts)
    count = data.draw(st.integers(0, len(everything)))
    position = consumed(manifest, count)
    assert paths(walk(manifest, position)) == everything[count:]
    assert all(item.unbroken_since == 0 for item in walk(manifest, position))


@given(sizes_of_segments, st.data())
def test_trimming_keeps_the_newest_segment_and_all_unconsumed_entries(sizes: list[int], data: st.DataObject) -> None:
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


def test_the_position_before_the_first_entry_is_the_position_after_the_previous_segment() -> None:
    _, manifest = filled("ab", "c")
    first, second = walk(manifest)
    assert second.position_at(0) == first.position_at(2)


def test_a_segment_without_entries_is_skipped() -> None:
    _, manifest = filled("", "a")
    assert walk(manifest)[0].position_at(0).segment == 1


def test_nothing_is_read_when_there_are_no_new_segments() -> None:
    store, manifest = filled("a", "b")
    position = consumed(manifest, 2)
    manifest.trim(position)
    store.put(key(1), store.get(key(1)))
    assert walk(manifest, position) == []


def test_a_segment_trimmed_during_reading_is_skipped_and_breaks_the_chain() -> None:
    store, manifest = filled("a", "b", "c")
    items = manifest.unconsumed(Position())
    assert remaining(next(items)) == "a"
    wipe(store, 1)
    assert [(remaining(item), item.unbroken_since) for item in items] == [("c", 2)]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"format": 1}', b"[" * 5000, b"1" * 5000],
    ids=lambda content: repr(content[:12]),
)
def test_an_unreadable_segment_is_skipped_and_reported_and_breaks_the_chain(content: bytes) -> None:
    store, manifest = filled("a", "b", "c")
    store.put(key(1), content)
    errors: list[UnreadableState] = []
    items = list(manifest.unconsumed(Position(), errors))
    assert [(remaining(item), item.unbroken_since) for item in items] == [("a", 0), ("c", 2)]
    assert "segment 1 of events:landing" in str(errors[0])
    assert len(errors) == 1


def test_an_unreadable_segment_at_the_position_is_reported_once_and_skipped() -> None:
    store, manifest = filled("a", "b", "c")
    position = consumed(manifest, 1)
    wipe(store, 0)
    store.put(key(1), b"torn")
    errors: list[UnreadableState] = []
    items = list(manifest.unconsumed(position, errors))
    assert [(remaining(item), item.unbroken_since) for item in items] == [("c", 2)]
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
def test_objects_with_other_names_are_ignored_and_kept(name: str) -> None:
    store, manifest = filled("a")
    store.put(PENDING + name, b"another program's file")
    assert append(manifest_on(store), "b") == 1
    assert paths(walk(manifest)) == "ab"
    manifest.trim(consumed(manifest, 2))
    assert store.get(PENDING + name) == b"another program's file"
