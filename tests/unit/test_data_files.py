"""Which data files may have values of others, by the commits of a log."""

import json
from typing import Any

import pytest

from blizzard.errors import UnreadableState
from blizzard.state.data_files import files_of_others
from blizzard.state.delta_log import commit_key
from blizzard.storage.memory import MemoryStore

OURS: dict[str, Any] = {"txn": {"appId": "blizzard:orders:shop", "version": 1}}


def add(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "dataChange": True, **more}}


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, **more}}


def others_of(*commits: list[dict[str, Any]], active: set[str], first: int = 0, version: int = 99) -> frozenset[str]:
    store = MemoryStore(lambda: 0.0)
    for number, actions in enumerate(commits, first):
        store.put(commit_key(number), "\n".join(map(json.dumps, actions)).encode())
    return files_of_others(store, version, active)


def test_a_log_of_our_own_commits_has_none() -> None:
    assert others_of([OURS, add("a")], [OURS, add("b")], active={"a", "b"}) == set()


def test_files_that_were_only_rewritten_have_none() -> None:
    compacted = [remove("a", dataChange=False), add("c", dataChange=False)]
    assert others_of([OURS, add("a")], compacted, active={"c"}) == set()


@pytest.mark.parametrize("changing", [[remove("a"), add("c")], [add("c")], [{"add": {"path": "c"}}]])
def test_a_file_of_another_writer(changing: list[dict[str, Any]]) -> None:
    assert others_of([OURS, add("a")], [OURS, add("b")], changing, active={"b", "c"}) == {"c"}


def test_a_file_that_was_rewritten_after_another_writers_change() -> None:
    compacted = [remove("c", dataChange=False), add("d", dataChange=False)]
    assert others_of([OURS, add("a")], [remove("a"), add("c")], compacted, active={"d"}) == {"d"}


def test_a_file_whose_rows_a_commit_of_our_own_has_copied() -> None:
    """As when the rows of one of its files are replaced."""
    replaced = [OURS, remove("c"), add("d")]
    assert others_of([OURS, add("a")], [remove("a"), add("c")], replaced, active={"d"}) == {"d"}


def test_a_file_of_our_own_of_which_others_have_deleted_rows() -> None:
    deleted = [remove("a"), add("a", deletionVector={"storageType": "u"})]
    assert others_of([OURS, add("a")], deleted, active={"a"}) == set()


def test_without_the_beginning_of_the_log_only_files_that_it_names_are_ours() -> None:
    assert others_of([OURS, add("b")], active={"a", "b"}, first=7) == {"a"}


def test_commits_after_the_version_do_not_count() -> None:
    assert others_of([OURS, add("a")], [remove("a"), add("c")], active={"a"}, version=0) == set()


def test_a_path_is_as_in_a_url() -> None:
    assert others_of([OURS, add("day=a%20b/a")], [add("c")], active={"day=a b/a", "c"}) == {"c"}


def test_a_commit_that_cannot_be_read() -> None:
    with pytest.raises(UnreadableState, match="commit 0"):
        others_of([{"add": "text"}], active={"a"})
