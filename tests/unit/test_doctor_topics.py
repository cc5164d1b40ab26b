"""Which checkpoint of a source of topics doctor looks at: that of the newest commit, as a run does."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from blizzard.config.load import parse_config
from blizzard.doctor.topics import SourceTopics, _state
from blizzard.errors import UnreadableState
from blizzard.state.delta_log import WHOLE_LOG, DeltaLogTail, commit_key
from blizzard.state.identity import SourceIdentity
from blizzard.state.newest_commit import TAIL_COMMITS
from blizzard.state.topic_checkpoint import TopicCheckpoint, TopicPosition, encode
from tests.unit.test_newest_commit import ReadLog, checkpoint

IDENTITY = SourceIdentity("p", "s", "_blizzard/p_s")
OTHER = "blizzard:p:other"
CONFIG = """\
pipelines:
  p:
    table_uri: lake
    sources:
      s:
        kafka: {bootstrap_servers: "127.0.0.1:1", topics: [t]}
        format: envelope
"""


def state(sequence: int) -> TopicCheckpoint:
    fresh = TopicCheckpoint("p", "s")
    return replace(fresh, sequence=sequence, cluster_id="c", topics={"t": TopicPosition("id", {0: sequence})})


def committed(store: ReadLog, *sequences: int | None) -> None:
    """The table's commits, each of the source, or None: of another one."""
    for version, sequence in enumerate(sequences):
        own = sequence is not None
        txn = {"appId": IDENTITY.app_id if own else OTHER, "version": sequence if own else version}
        info = {"userMetadata": encode(state(sequence))} if sequence is not None else {}
        actions: list[Mapping[str, object]] = [{"commitInfo": info}, {"txn": txn}]
        store.put(commit_key(version), "\n".join(json.dumps(each) for each in actions).encode())


def looked_at(store: ReadLog) -> SourceTopics:
    ((_, source),) = parse_config(CONFIG, {}, folder="/").sources()
    assert source.kafka is not None
    return SourceTopics(source, source.kafka, store, lambda: 0.0, deployed=False)


def copied(store: ReadLog, sequence: int) -> None:
    store.put(IDENTITY.copy_key, encode(state(sequence)).encode())


def test_a_commit_behind_many_of_others_counts_and_not_an_older_copy() -> None:
    store = ReadLog()
    committed(store, 0, 1, *[None] * 1_200)
    copied(store, 0)
    assert looked_at(store).checkpoint == state(1)


def test_the_copy_of_that_commit_saves_reading_the_whole_log() -> None:
    store = ReadLog()
    committed(store, 0, 1, *[None] * 1_200)
    checkpoint(store, 1_150, **{IDENTITY.app_id: 1, OTHER: 1_150})
    copied(store, 1)
    assert looked_at(store).checkpoint == state(1)
    assert len(store.read) == TAIL_COMMITS


def test_a_new_source_is_known_without_reading_the_whole_log() -> None:
    store = ReadLog()
    committed(store, *[None] * 1_200)
    checkpoint(store, 1_150, **{OTHER: 1_150})
    assert looked_at(store).checkpoint is None
    assert len(store.read) == TAIL_COMMITS


def test_a_copy_of_another_commit_than_the_table_names_is_not_believed() -> None:
    """A run takes the positions from the Txns then."""
    store = ReadLog()
    committed(store, 0, 1, *[None] * 30)
    checkpoint(store, 16, **{IDENTITY.app_id: 1, OTHER: 16})
    store.delete([commit_key(1)])
    assert [commit.version for commit in DeltaLogTail(store).commits(WHOLE_LOG)][-1] == 2
    copied(store, 0)
    topics = looked_at(store)
    with pytest.raises(UnreadableState, match="commit 1 of the source"):
        _ = topics.checkpoint
    assert (topics.known, _state(topics).verdict.value) == (None, "problem")


def test_what_is_committed_to_no_table_is_nothing() -> None:
    store = ReadLog()
    assert looked_at(store).checkpoint is None
    committed(store, None)
    copied(store, 3)
    assert looked_at(store).checkpoint is None
