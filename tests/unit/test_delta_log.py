"""The newest commits of a Delta log, told from its files alone."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail, parse_commit
from blizzard.storage.memory import MemoryStore
from tests.unit import strategies
from tests.unit.strategies import memory_store

APP_ID = "blizzard:events:landing"
ADD = {"add": {"path": "part-0.parquet", "size": 1, "stats": '{"txn": 1}', "tags": None}}


def info(**fields: Any) -> dict[str, Any]:
    return {"commitInfo": {"timestamp": 1_706_450_400_250, "operation": "WRITE", **fields}}


def txn(version: int, app_id: str = APP_ID) -> dict[str, Any]:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": 1}}


def commit(*actions: dict[str, Any]) -> bytes:
    """As Delta writes it: one action a line, no space between tokens."""
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)


def log_of(*versions: int, checkpoint: Any = None) -> MemoryStore:
    """A log in which version v sets the Txn to v; `checkpoint` is the content of `_last_checkpoint`."""
    store = memory_store()
    for version in versions:
        store.put(f"_delta_log/{version:020d}.json", commit(info(userMetadata=str(version)), txn(version), ADD))
    if checkpoint is not None:
        data = checkpoint if isinstance(checkpoint, bytes) else json.dumps(checkpoint).encode()
        store.put("_delta_log/_last_checkpoint", data)
    return store


def versions(store: MemoryStore, limit: int = 100, **where: int) -> list[int]:
    return [found.version for found in DeltaLogTail(store).commits(limit, **where)]


# One commit


def test_a_commit_has_its_txns_metadata_and_time() -> None:
    data = commit(info(userMetadata="state", engineInfo="Spark"), {"protocol": {}}, txn(42), txn(7, "other"), ADD)
    assert parse_commit(117, data) == Commit(
        117, {APP_ID: 42, "other": 7}, "state", 1_706_450_400.25, operation="WRITE"
    )


def test_a_commit_that_changes_table_properties_has_them() -> None:
    changed = {"metaData": {"id": "x", "configuration": {"delta.appendOnly": "true"}}}
    assert parse_commit(3, commit(changed)).properties == {"delta.appendOnly": "true"}
    assert parse_commit(3, commit({"metaData": {"id": "x", "configuration": {}}})).properties == {}
    assert parse_commit(3, commit(ADD)).properties is None
    assert parse_commit(3, commit({"metaData": {"schemaString": "{}", "configuration": {}}})).schema == "{}"
    assert parse_commit(3, commit(ADD)).schema is None


def test_metadata_with_newlines_quotes_and_braces_is_unchanged() -> None:
    text = '{"a":\n"b\\"\r\n","add":{"txn":{}}}\u2028é😀'
    assert parse_commit(1, commit(info(userMetadata=text))).user_metadata == text


def test_an_add_action_is_never_read_as_a_txn() -> None:
    forged = {"add": {"path": '"}}\n{"txn":{"appId":"x","version":9}}', "txn": {"appId": "x", "version": 9}}}
    assert parse_commit(1, commit(forged, {"remove": forged["add"]})).txns == {}


@pytest.mark.parametrize("data", [b"", commit({"metaData": {"id": "x"}}), commit({"commitInfo": {}}), commit(ADD)])
def test_a_commit_of_another_program_has_no_txn_and_no_metadata(data: bytes) -> None:
    assert parse_commit(3, data) == Commit(3, {}, None, None)


@pytest.mark.parametrize(
    "data",
    [
        b"torn",
        commit(info())[:-9],
        b'{"commitInfo"',
        b"\xff\xfe",
        b"[]",
        b"1",
        b'"txn"',
        commit({"txn": {"appId": APP_ID}}),
        commit({"txn": {"appId": APP_ID, "version": "42"}}),
        commit({"txn": None}),
        commit(info(userMetadata={"state": 1})),
        commit(info(timestamp="yesterday")),
        b"[" * 100_000,
    ],
    ids=range(13),
)
def test_a_truncated_commit_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableState, match="commit 3 of the Delta log"):
        parse_commit(3, data)


@given(strategies.any_json)
def test_json_other_than_an_object_is_unreadable(document: object) -> None:
    assume(not isinstance(document, dict))
    with pytest.raises(UnreadableState):
        parse_commit(3, json.dumps(document).encode())


@given(st.dictionaries(st.sampled_from(["txn", "commitInfo", "protocol"]), strategies.any_json))
def test_any_object_is_unreadable_or_an_action(document: dict[str, object]) -> None:
    with suppress(UnreadableState):
        assert parse_commit(3, json.dumps(document).encode()).version == 3


# The log


def test_the_newest_commits_come_first() -> None:
    assert versions(log_of(*range(5))) == [4, 3, 2, 1, 0]
    assert DeltaLogTail(log_of(*range(5))).newest_version() == 4


def test_a_commit_is_found_by_its_version() -> None:
    tail = DeltaLogTail(log_of(3, 4))
    assert tail.commit_at(4) == Commit(4, {APP_ID: 4}, "4", 1_706_450_400.25, operation="WRITE")
    assert (tail.commit_at(2), tail.commit_at(5)) == (None, None)


@pytest.mark.parametrize("checkpoint", [None, {"version": 2}])
def test_the_newest_version_is_found_after_every_change(checkpoint: object) -> None:
    store = log_of(*range(4), checkpoint=checkpoint)
    tail = DeltaLogTail(store)

    def after(*more: int, without: Iterable[int] = ()) -> int | None:
        for version in more:
            store.put(f"_delta_log/{version:020d}.json", commit(info(), txn(version)))
        store.delete([f"_delta_log/{version:020d}.json" for version in without])
        return tail.newest_version()

    assert [after(), after(), after(4, 5), after(6, without=range(6))] == [3, 3, 5, 6]
    assert after(without=[6]) is None
    assert [after(0), after(1)] == [0, 1]


def test_without_a_log_there_is_no_table() -> None:
    assert DeltaLogTail(memory_store()).newest_version() is None
    assert versions(memory_store()) == []


@pytest.mark.parametrize(
    ("limit", "above", "expected"), [(2, -1, [4, 3]), (9, 2, [4, 3]), (1, 2, [4]), (0, -1, []), (9, 4, [])]
)
def test_a_limit_and_a_lower_bound_exclude_older_commits(limit: int, above: int, expected: list[int]) -> None:
    assert versions(log_of(*range(5)), limit, above=above) == expected


@pytest.mark.parametrize("newest", [99, 100, 150, 1000])
def test_at_most_the_newest_hundred_commits_are_returned(newest: int) -> None:
    assert versions(log_of(*range(newest + 1)), 100) == list(range(newest, newest - 100, -1))


def test_a_delta_checkpoint_hides_no_commit_within_the_limit() -> None:
    store = log_of(*range(1001), checkpoint={"version": 1000, "size": 9})
    assert versions(store, 500) == list(range(1000, 500, -1))
    assert versions(store, 5000, above=700) == list(range(1000, 700, -1))


def test_commits_before_the_checkpoint_and_the_limit_are_not_listed() -> None:
    class Listing(MemoryStore):
        seen = 0

        def list(self, *args: Any, **kwargs: Any) -> Any:
            for info in super().list(*args, **kwargs):
                self.seen += 1
                yield info

    store = Listing(lambda: 0.0)
    for found in (source := log_of(*range(301), checkpoint={"version": 300})).list():
        store.put(found.key, source.get(found.key))
    assert versions(store, 10) == list(range(300, 290, -1))
    assert store.seen < 20


@pytest.mark.parametrize(
    "pointer",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        {"version": "9"},
        {"version": None},
        {},
        {"version": -7},
        {"version": 6},
        {"version": 9999},
        {"version": 10**25},
    ],
    ids=str,
)
def test_a_damaged_or_wrong_checkpoint_pointer_hides_no_commit(pointer: Any) -> None:
    store = log_of(*range(5), checkpoint=pointer)
    assert versions(store, 3) == [4, 3, 2]
    assert DeltaLogTail(store).newest_version() == 4


@pytest.mark.parametrize("count", [8, 9, 24, 25, 70])
def test_a_whole_log_is_read_to_its_end(count: int) -> None:
    store = log_of(*range(count), checkpoint={"version": count // 10 * 10})
    assert versions(store, WHOLE_LOG) == [*reversed(range(count))]
    store.delete([f"_delta_log/{1:020d}.json"])
    assert versions(store, WHOLE_LOG) == [*reversed(range(2, count))]


def test_an_unreadable_commit_is_an_error_only_for_those_who_get_there() -> None:
    store = log_of(*range(40))
    store.put(f"_delta_log/{20:020d}.json", b"{torn")
    walk = DeltaLogTail(store).commits(WHOLE_LOG)
    assert [next(walk).version for _ in range(19)] == [*range(39, 20, -1)]
    with pytest.raises(UnreadableState, match="commit 20 "):
        next(walk)


def test_no_commits_before_a_missing_version_are_returned() -> None:
    assert versions(log_of(0, 1, 2, 4, 5)) == [5, 4]
    assert DeltaLogTail(log_of(0, 1, 2, 4, 5)).newest_version() == 5


def test_a_log_without_its_oldest_commits_starts_at_the_first_one_left() -> None:
    assert versions(log_of(10, 11, 12, checkpoint={"version": 10})) == [12, 11, 10]


def test_a_log_with_only_a_checkpoint_is_a_table_of_that_version() -> None:
    store = log_of(checkpoint={"version": 10})
    store.put("_delta_log/00000000000000000010.checkpoint.parquet", b"PAR1")
    assert DeltaLogTail(store).newest_version() == 10
    assert versions(store) == []


def test_a_commit_deleted_during_reading_ends_the_list() -> None:
    store = log_of(*range(5))
    walk = DeltaLogTail(store).commits(9)
    assert next(walk).version == 4
    store.delete(["_delta_log/00000000000000000002.json"])
    assert [found.version for found in walk] == [3]


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000002.checkpoint.parquet",
        "00000000000000000002.checkpoint.0c1f.json",
        "00000000000000000001.00000000000000000009.compacted.json",
        "00000000000000000009.crc",
        "00000000000000000009.json.tmp",
        "0000000000000000009.json",
        "²0000000000000000009.json",
        "_staged_commits/00000000000000000009.0c1f.json",
        "_sidecars/00000000000000000009.json",
        ".00000000000000000009.json.crc",
        "latest.json",
    ],
)
def test_files_with_other_names_are_not_read_as_commits(name: str) -> None:
    store = log_of(*range(3))
    store.put(f"_delta_log/{name}", b"something else")
    assert versions(store) == [2, 1, 0]
    assert DeltaLogTail(store).newest_version() == 2
