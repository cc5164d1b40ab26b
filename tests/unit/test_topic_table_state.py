"""How far a source of topics is: version and checkpoint are of one moment, also while another job commits; and how much
of the table's log is read for that does not grow with it."""

import json
from collections.abc import Callable

import pytest

from blizzard.errors import PermanentError, UnreadableState
from blizzard.kafka.table_state import TopicState, topic_state
from blizzard.state.delta_log import LAST_CHECKPOINT, commit_key
from blizzard.state.identity import SourceIdentity
from blizzard.state.newest_commit import TAIL_COMMITS
from blizzard.state.topic_checkpoint import TopicCheckpoint, TopicPosition, encode
from blizzard.storage.memory import MemoryStore
from tests.unit.test_newest_commit import ReadLog
from tests.unit.test_newest_commit import checkpoint as delta_checkpoint
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


BEHIND_CHECKPOINT = 7
MOST = TAIL_COMMITS + BEHIND_CHECKPOINT


def log_of(age: int, *own: tuple[int, int]) -> ReadLog:
    """So many commits, with a Delta checkpoint shortly before the newest one. `own`: version and sequence of those of
    the source."""
    store, sequences = ReadLog(), dict(own)
    for version in range(age):
        commit(store, version, sequences.get(version))
    known = {IDENTITY.app_id: max(sequences.values())} if own else {}
    delta_checkpoint(store, age - 1 - BEHIND_CHECKPOINT, **known, other=1)
    store.put(LAST_CHECKPOINT, json.dumps({"version": age - 1 - BEHIND_CHECKPOINT, "size": 1}).encode())
    return store


def reads_of(store: ReadLog, expected: TopicState) -> tuple[int, int]:
    """How many commits were read, and how many bytes of Delta checkpoints."""
    store.read.clear()
    assert topic_state(store, IDENTITY) == expected
    return len(store.read), store.ranges


@pytest.mark.parametrize("known", [False, True])
def test_what_is_read_of_the_log_does_not_grow_with_the_table(known: bool) -> None:
    """Of a source that is new, and of one whose last commit is long ago and in the copy."""
    own = [(3, 5)] if known else []
    young, old = (
        reads_of(log_of(age, *own), TopicState(age - 1, checkpoint(5) if known else None)) for age in (300, 3_000)
    )
    assert young == old
    assert young[0] <= MOST


def test_a_source_that_is_new_in_a_table_without_delta_checkpoints() -> None:
    store = ReadLog()
    for version in range(150):
        commit(store, version, None)
    assert reads_of(store, TopicState(149)) == (150, 0)


def test_an_old_commit_is_found_in_the_log_if_the_copy_is_of_another_one_or_lost() -> None:
    store = log_of(300, (3, 5))
    store.put(IDENTITY.copy_key, encode(checkpoint(6)).encode())
    assert topic_state(store, IDENTITY) == TopicState(299, checkpoint(5))
    store.delete([IDENTITY.copy_key])
    assert topic_state(store, IDENTITY) == TopicState(299, checkpoint(5))
    store.delete([commit_key(3)])
    with pytest.raises(UnreadableState, match="no longer has the commit 5"):
        topic_state(store, IDENTITY)


def test_a_commit_that_only_a_delta_checkpoint_tells_is_in_the_copy() -> None:
    """Nor does the state get ahead of the version, if there is a newer one by the time that the Txns are read."""
    store, calls = log_of(20, (3, 5)), Calls()
    store.delete([commit_key(version) for version in range(20)])
    assert topic_state(store, IDENTITY) == TopicState(12, checkpoint(5))

    def land() -> None:
        commit(store, 13, 6)

    calls.before_named(f"get {IDENTITY.copy_key}", land)
    with pytest.raises(UnreadableState, match="no longer has the commit 5"):
        topic_state(WatchedStore(store, calls), IDENTITY)
    assert topic_state(store, IDENTITY) == TopicState(13, checkpoint(6))


def test_the_state_of_a_source_of_files_is_refused_however_old_it_is() -> None:
    store = log_of(300, (3, 5))
    of_files = encode(checkpoint(5)).replace('"kind":"topics"', '"kind":"files"')
    actions = [{"commitInfo": {"userMetadata": of_files}}, {"txn": {"appId": IDENTITY.app_id, "version": 5}}]
    store.put(commit_key(3), "\n".join(map(json.dumps, actions)).encode())
    store.put(IDENTITY.copy_key, of_files.encode())
    with pytest.raises(PermanentError, match="as one of files"):
        topic_state(store, IDENTITY)
