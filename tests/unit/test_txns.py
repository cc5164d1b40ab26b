"""All Txns of a table, read from its log without an engine."""

import json

import pytest

from blizzard.errors import LogDamaged
from blizzard.state.delta_log import commit_key
from blizzard.state.txns import Txn, txns_of
from blizzard.storage.memory import MemoryStore


def store_of(*commits: bytes) -> MemoryStore:
    store = MemoryStore(lambda: 0.0)
    for version, commit in enumerate(commits):
        store.put(commit_key(version), commit)
    return store


def commit(**txns: int) -> bytes:
    actions = [
        {"commitInfo": {}},
        *({"txn": {"appId": name, "version": version, "lastUpdated": 2000}} for name, version in txns.items()),
        {"add": {"path": "a"}},
    ]
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()


def test_the_newest_txn_of_each_app_id_counts() -> None:
    found = txns_of(store_of(commit(a=0, b=7), commit(a=1), commit()))
    assert {txn.app_id: txn for txn in found} == {"a": Txn("a", 1, 2.0), "b": Txn("b", 7, 2.0)}
    assert txns_of(store_of()) == []


@pytest.mark.parametrize("torn", [b"torn", b'{"commitInfo":{}}\n{"tx', b"[1]", commit(a=1)[:40]])
def test_a_commit_that_cannot_be_read_may_have_a_txn(torn: bytes) -> None:
    with pytest.raises(LogDamaged, match="the log cannot be read"):
        txns_of(store_of(commit(a=0), torn))


@pytest.mark.parametrize(("lost", "named", "newest"), [([1], 1, 2), ([0], 0, 2), ([0, 1], 0, 2)])
def test_a_missing_commit_may_have_a_txn(lost: list[int], named: int, newest: int) -> None:
    """And the error names it, with what to do."""
    store = store_of(commit(a=0), commit(a=1), commit(a=2))
    store.delete(map(commit_key, lost))
    with pytest.raises(LogDamaged) as raised:
        txns_of(store)
    assert str(raised.value) == (
        f"the log lacks version {named}, although it has version {newest}. Restore the file {commit_key(named)} from a "
        "copy, or the table to a version before it."
    )
    assert txns_of(store, through=-1) == []
