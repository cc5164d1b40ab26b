"""Which commits are of a part of a file, as the proof counts them."""

from typing import Any

import pytest

from blizzard.state.checkpoint import FINISHED, Checkpoint, encode
from blizzard.state.checkpoint_codec import BaseSettings, CheckpointCodec
from blizzard.state.identity import SourceIdentity
from blizzard.storage.memory import MemoryStore
from tests.proof import large_file
from tests.proof.large_file import RECORDS


def commit_of(**files: int) -> list[dict[str, Any]]:
    state = encode(Checkpoint("events", "landing", sequence=3, files=files))
    return [{"commitInfo": {"userMetadata": state}}, {"txn": {}}]


@pytest.mark.parametrize(
    ("actions", "parts"),
    [
        pytest.param(commit_of(a=260, b=FINISHED), 1, id="some of its records"),
        pytest.param(commit_of(a=RECORDS), 0, id="all of them, and not seen to end"),
        pytest.param(commit_of(a=FINISHED), 0, id="finished"),
        pytest.param([{"commitInfo": {"operation": "VACUUM START"}}], 0, id="somebody else's"),
    ],
)
def test_a_commit_holds_a_part_of_a_file_if_records_are_left(actions: list[dict[str, Any]], parts: int) -> None:
    assert large_file.parts_in([(0, actions)], MemoryStore(lambda: 0.0)) == parts


def test_each_commit_of_a_part_counts_once() -> None:
    log = [*enumerate([commit_of(a=1, b=2), commit_of(a=5), commit_of(a=FINISHED)])]
    assert large_file.parts_in(log, MemoryStore(lambda: 0.0)) == 2


def test_a_commit_that_names_bases_counts_as_long_as_they_are_there() -> None:
    table, identity = MemoryStore(lambda: 0.0), SourceIdentity("events", "landing", "_blizzard/events_landing")
    codec = CheckpointCodec(table, identity, BaseSettings(max_commit_bytes=0))
    state = Checkpoint("events", "landing", sequence=3, partition_watermarks={"p": "a"}, files={"p/b": 260})
    named = codec.with_base(state, sequence=3, new_id=lambda: "new")
    log = [(0, [{"commitInfo": {"userMetadata": codec.encode(named)}}])]
    assert named.bases
    assert large_file.parts_in(log, table) == 1
    table.delete([info.key for info in table.list(identity.bases_folder)])
    assert large_file.parts_in(log, table) == 0
