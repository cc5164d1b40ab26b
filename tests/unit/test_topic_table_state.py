"""How far a source of topics is, while another job commits: version and checkpoint are of one moment."""

import json
from collections.abc import Callable

import pytest

from blizzard.kafka.table_state import TopicState, topic_state
from blizzard.state.delta_log import LAST_CHECKPOINT, commit_key
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import TopicCheckpoint, TopicPosition, encode
from blizzard.storage.memory import MemoryStore
from tests.unit.watched_calls import Calls, WatchedStore

IDENTITY = SourceIdentity("p", "clicks", "_blizzard/p_clicks")
Meanwhile = Callable[[Calls, Callable[[], object]], None]


def checkpoint(sequence: int) -> TopicCheckpoint:
    return TopicCheckpoint("p", "clicks", sequence, 0, "cluster", {"t": TopicPosition("id", {0: sequence})})


def commit(store: MemoryStore, version: int, sequence: int | None) -> None:
    """`sequence`: None: of another source."""
    own = [
        {"commitInfo": {"userMetadata": encode(checkpoint(sequence or 0))}},
        {"txn": {"appId": IDENTITY.app_id, "version": sequence}},
    ]
    actions = [{"commitInfo": {}}] if sequence is None else own
    store.put(commit_key(version), "\n".join(map(json.dumps, actions)).encode())
    if sequence is not None:
        store.put(IDENTITY.copy_key, encode(checkpoint(sequence)).encode())


def before_the_log_is_listed_again(calls: Calls, action: Callable[[], object]) -> None:
    name = f"get {LAST_CHECKPOINT}"
    calls.before_named(name, lambda: calls.before_named(name, action))


def before_a_commit_is_read(calls: Calls, action: Callable[[], object]) -> None:
    calls.before_named(f"get {commit_key(0)}", action)


MOMENTS = [before_the_log_is_listed_again, before_a_commit_is_read]


@pytest.mark.parametrize("before", [0, None])
@pytest.mark.parametrize("meanwhile", MOMENTS)
def test_a_commit_meanwhile_is_there_with_its_version_or_not_at_all(meanwhile: Meanwhile, before: int | None) -> None:
    store, calls, landed = MemoryStore(lambda: 0.0), Calls(), list[int]()
    commit(store, 0, before)

    def land() -> None:
        commit(store, 1, 1)
        landed.append(1)

    meanwhile(calls, land)
    found = topic_state(WatchedStore(store, calls), IDENTITY)
    old = TopicState(0, None if before is None else checkpoint(before))
    is_seen = meanwhile is before_the_log_is_listed_again
    assert (landed, found) == ([1], TopicState(1, checkpoint(1)) if is_seen else old)
