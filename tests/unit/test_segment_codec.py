"""The stored form of a segment: what is encoded decodes, and anything else is unreadable."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
from blizzard.manifest.segment_codec import decode_segment, encode_segment
from blizzard.manifest.segments import Segment, SegmentRef
from tests.unit import strategies
from tests.unit.manifests import entry, filled
from tests.unit.strategies import SOURCE_ID


@given(strategies.segments)
def test_an_encoded_segment_decodes_to_the_same_segment(segment: Segment) -> None:
    ref = SegmentRef(segment.number, segment.etag, 1)
    assert decode_segment(encode_segment(segment, SOURCE_ID), SOURCE_ID, ref) == segment


@given(strategies.segments)
def test_the_same_segment_always_gives_the_same_bytes(segment: Segment) -> None:
    twin = replace(segment, entries=tuple(replace(e) for e in segment.entries), etag="what storage says is not stored")
    assert encode_segment(segment, SOURCE_ID) == encode_segment(twin, SOURCE_ID)


def test_the_stored_json_has_the_documented_fields() -> None:
    store, _ = filled("ab")
    document = json.loads(store.get("_blizzard/events_landing/pending/00000000000000000000.json"))
    assert (document["source"], document["segment"], document["previous"]) == (SOURCE_ID, 0, None)
    first = {"path": "a", "size": 10, "etag": "etag-of-a", "event_ts": 1_706_450_400.0, "found_by": "event"}
    assert document["entries"][0] == first


@given(strategies.any_json)
def test_any_other_json_raises_unreadable_state(document: object) -> None:
    with pytest.raises(UnreadableState, match="segment 3 of events:landing"):
        decode_segment(json.dumps(document).encode(), SOURCE_ID, SegmentRef(3, "e", 1))


@given(strategies.segments, st.sampled_from(["entries", "sweep", "previous", "writer", "written_ts"]), st.data())
def test_a_segment_with_one_replaced_field_decodes_or_is_unreadable(
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
