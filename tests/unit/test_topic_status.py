"""`blizzard status` of a source of topics whose last commit is older than a hundred of others. No broker is asked."""

import json
import sys
from dataclasses import replace

import pytest

from blizzard.cli.topic_status import TopicStatus, topic_status
from blizzard.config.kafka_options import KafkaOptions
from blizzard.state.delta_log import LOG_FOLDER, commit_key
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import TopicCheckpoint, TopicPosition, encode
from blizzard.storage.memory import MemoryStore

IDENTITY = SourceIdentity("p", "clicks", "_blizzard/p_clicks")
NEWEST = TopicCheckpoint("p", "clicks", 3, 3, "cluster", {"t": TopicPosition("id", {0: 5})})
NOT_ASKED = "the brokers were not asked"


@pytest.fixture(autouse=True)
def without_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blizzard.kafka.client", None)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(lambda: 0.0)
    own = [
        {"commitInfo": {"userMetadata": encode(NEWEST)}},
        {"txn": {"appId": IDENTITY.app_id, "version": NEWEST.sequence}},
    ]
    made.put(commit_key(0), "\n".join(map(json.dumps, own)).encode())
    for version in range(1, 106):
        made.put(commit_key(version), b'{"commitInfo": {}}')
    return made


def keep_copy(store: MemoryStore, sequence: int) -> None:
    store.put(IDENTITY.copy_key, encode(replace(NEWEST, sequence=sequence)).encode())


def clean_up_log(store: MemoryStore) -> None:
    """The Txn is only in a Delta checkpoint."""
    txn = {"txn": {"appId": IDENTITY.app_id, "version": NEWEST.sequence}}
    store.put(f"{LOG_FOLDER}{50:020d}.checkpoint.80a0-81.json", json.dumps(txn).encode())
    store.delete([commit_key(version) for version in range(50)])


def status(store: MemoryStore) -> TopicStatus:
    options = KafkaOptions(bootstrap_servers="127.0.0.1:1", topics=["t"])
    return topic_status(store, IDENTITY, options, table_uri="lake", now_ts=0.0)


@pytest.mark.parametrize("copy", [None, 2, 3, 9])
def test_its_commit_is_found_whatever_the_copy_is_of(store: MemoryStore, copy: int | None) -> None:
    if copy is not None:
        keep_copy(store, copy)
    found = status(store)
    assert (found.sequence, found.table_version, NOT_ASKED in (found.problem or "")) == (3, 105, True)


@pytest.mark.parametrize("copy", [None, 2, 9])
def test_a_state_that_is_nowhere_is_a_problem(store: MemoryStore, copy: int | None) -> None:
    clean_up_log(store)
    if copy is not None:
        keep_copy(store, copy)
    found = status(store)
    assert (found.sequence, "neither in the log nor in the copy" in (found.problem or "")) == (None, True)


def test_a_copy_of_the_commit_that_the_log_no_longer_has_is_its_state(store: MemoryStore) -> None:
    clean_up_log(store)
    keep_copy(store, 3)
    found = status(store)
    assert (found.sequence, NOT_ASKED in (found.problem or "")) == (3, True)


@pytest.mark.parametrize(("copy", "said"), [(None, NOT_ASKED), (3, "the table has no commit of this source")])
def test_without_a_txn_nothing_is_committed(store: MemoryStore, copy: int | None, said: str) -> None:
    store.put(commit_key(0), b'{"commitInfo": {}}')
    if copy is not None:
        keep_copy(store, copy)
    found = status(store)
    assert (found.sequence, said in (found.problem or "")) == (None, True)


def test_a_copy_without_a_table_is_shown() -> None:
    store = MemoryStore(lambda: 0.0)
    keep_copy(store, 3)
    assert (status(store).sequence, status(store).table_version) == (3, None)
