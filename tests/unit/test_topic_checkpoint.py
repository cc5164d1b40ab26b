"""The checkpoint of a source that reads topics."""

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import PermanentError, UnreadableState
from blizzard.state import checkpoint as of_files
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import (
    TopicCheckpoint,
    TopicPosition,
    decode,
    encode,
    further_txns,
    next_offsets_of_txns,
    partition_app_id,
    partition_of_app_id,
    partition_of_path,
    path_of,
)

IDENTITY = SourceIdentity("p", "clicks", "_blizzard/p_clicks")
TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,30}", fullmatch=True)
OFFSETS = st.integers(0, 2**62)
BY_NUMBER = st.dictionaries(st.integers(0, 10_000), OFFSETS).map(MappingProxyType)
POSITIONS = st.builds(TopicPosition, st.text(), BY_NUMBER, BY_NUMBER, BY_NUMBER)
CHECKPOINTS = st.builds(
    TopicCheckpoint,
    st.just("p"),
    st.just("clicks"),
    st.integers(0, 2**62),
    st.integers(-1, 2**62),
    st.none() | st.text(),
    st.dictionaries(TOPICS, POSITIONS).map(MappingProxyType),
    st.none() | st.text(),
    st.none() | st.text(),
    st.none() | st.floats(0, 2**40),
    taken_over=st.none() | st.text(),
)
GOOD = TopicCheckpoint("p", "clicks", 3, 7, "cluster", {"t": TopicPosition("id", {0: 5})}, "receipt")


@given(CHECKPOINTS)
def test_it_is_read_as_it_was_written(checkpoint: TopicCheckpoint) -> None:
    assert decode(encode(checkpoint), pipeline="p", source="clicks") == checkpoint


def test_one_of_a_version_without_epochs_is_read() -> None:
    document = json.loads(encode(GOOD))
    del document["topics"]["t"]["leader_epochs"]
    assert decode(json.dumps(document), pipeline="p", source="clicks") == GOOD


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"schema_version": 2}, "schema version 2"),
        ({"pipeline": "other"}, "belongs to"),
        ({"topics": {"t": {"id": "x", "next_offsets": {"0": -1}, "first_offsets": {}}}}, "cannot be read"),
        ({"topics": {"t": {"id": "x", "next_offsets": {"zero": 1}, "first_offsets": {}}}}, "cannot be read"),
        ({"topics": []}, "cannot be read"),
        ({"sequence": -1}, "cannot be read"),
        ({"sequence": True}, "cannot be read"),
        ({"cluster_id": 3}, "cannot be read"),
    ],
)
def test_a_checkpoint_that_is_none_is_refused(change: dict[str, Any], error: str) -> None:
    with pytest.raises(UnreadableState, match=error):
        decode(json.dumps(json.loads(encode(GOOD)) | change), pipeline="p", source="clicks")


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", "null", b"\xff"])
def test_what_is_no_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(UnreadableState):
        decode(text, pipeline="p", source="clicks")


def test_files_and_topics_are_not_taken_for_each_other() -> None:
    files = of_files.encode(of_files.Checkpoint("p", "clicks"))
    with pytest.raises(PermanentError, match="as one of files"):
        decode(files, pipeline="p", source="clicks")
    with pytest.raises(PermanentError, match="as one that reads topics"):
        of_files.decode(encode(GOOD), pipeline="p", source="clicks")


@given(TOPICS, st.integers(0, 10_000))
def test_the_app_id_of_a_partition_names_it(topic: str, number: int) -> None:
    assert partition_of_app_id(IDENTITY, partition_app_id(IDENTITY, (topic, number))) == (topic, number)
    assert partition_of_path(path_of((topic, number))) == (topic, number)


@pytest.mark.parametrize(
    "app_id",
    [
        "blizzard:p:clicks",
        "blizzard:p:clicks:t",
        "blizzard:p:clicks::0",
        "blizzard:p:clicks:t:x",
        "blizzard:p:clicks:t:-1",
        "blizzard:p:clicks:a:b:0",
        "blizzard:p:clicks2:t:0",
        "other:p:clicks:t:0",
    ],
)
def test_other_app_ids_name_no_partition(app_id: str) -> None:
    assert partition_of_app_id(IDENTITY, app_id) is None


def test_txns_have_the_last_offset_of_what_moved_and_tell_the_next() -> None:
    moved = TopicCheckpoint("p", "clicks", moved=MappingProxyType({("t", 0): 5, ("t", 1): 0, ("u", 2): 1}))
    txns = further_txns(IDENTITY, moved)
    assert txns == {"blizzard:p:clicks:t:0": 4, "blizzard:p:clicks:u:2": 0}
    found = dict(next_offsets_of_txns(IDENTITY, [*txns.items(), ("blizzard:p:clicks", 9)]))
    assert found == {("t", 0): 5, ("u", 2): 1}
