"""The newest commit of a source is found by the Txn that the table has, with as few reads of its log as that takes."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.errors import UnreadableState
from blizzard.state.delta_log import LOG_FOLDER, Commit, DeltaLogTail, commit_key, commit_version
from blizzard.state.newest_commit import NewestCommit, newest_commit_of
from blizzard.state.txns import txns_of
from blizzard.storage.memory import MemoryStore

OWN, OTHER = "blizzard:p:s", "blizzard:p:other"
TAIL = 10


class ReadLog(MemoryStore):
    """`read`: the versions of commits, as often as they were read; `ranges`: how many bytes of other files."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.read = list[int]()
        self.ranges = 0

    def get(self, key: str) -> bytes:
        version = commit_version(key)
        self.read += [] if version is None else [version]
        return super().get(key)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        data = super().get_range(key, start, size)
        self.ranges += len(data)
        return data


def log_of(*app_ids: str | None) -> ReadLog:
    """A commit for each; its Txn has the version of the table."""
    store = ReadLog()
    for version, app_id in enumerate(app_ids):
        actions = [{"commitInfo": {}}, *([] if app_id is None else [{"txn": {"appId": app_id, "version": version}}])]
        store.put(commit_key(version), "\n".join(json.dumps(each) for each in actions).encode())
    return store


def checkpoint(store: ReadLog, version: int, **txns: int) -> None:
    """As a table of many data files has it: nearly all of it is about these."""
    rows = [{"txn": {"appId": name, "version": number}, "add": None} for name, number in txns.items()]
    rows += [{"txn": None, "add": {"path": f"{number:064x}"}} for number in range(20_000)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink, use_dictionary=False, compression="none")
    store.put(f"{LOG_FOLDER}{version:020d}.checkpoint.parquet", sink.getvalue().to_pybytes())


def newest(store: ReadLog, *, copy: int | None = None, asked: list[int] | None = None) -> NewestCommit:
    def copy_sequence() -> int | None:
        if asked is not None:
            asked.append(1)
        return copy

    return newest_commit_of(store, OWN, DeltaLogTail(store).commits(TAIL), copy_sequence)


def test_a_commit_among_the_newest_ends_the_search() -> None:
    store, asked = log_of(*[OWN] * 50), list[int]()
    found = newest(store, asked=asked)
    assert (found.sequence, found.commit and found.commit.version) == (49, 49)
    assert (store.read, asked) == ([49], [])


def quiet() -> ReadLog:
    """Its last commit is 1; others have made 30 since, and Delta has a checkpoint of half of them."""
    store = log_of(OWN, OWN, *[OTHER] * 30)
    checkpoint(store, 16, **{OWN: 1, OTHER: 16})
    return store


def test_a_copy_of_the_commit_that_the_txn_names_ends_the_search() -> None:
    store = quiet()
    assert newest(store, copy=1) == NewestCommit(1)
    assert sorted(store.read) == [*range(17, 32)]
    assert store.ranges < 200_000


@pytest.mark.parametrize("copy", [None, 0, 7])
def test_without_that_copy_the_whole_log_is_searched(copy: int | None) -> None:
    found = newest(quiet(), copy=copy)
    assert (found.sequence, found.commit and found.commit.version) == (1, 1)


@pytest.mark.parametrize("copy", [None, 0, 7])
def test_a_commit_that_the_log_no_longer_has_is_known_by_its_txn(copy: int | None) -> None:
    store = quiet()
    store.delete([commit_key(version) for version in range(16)])
    assert newest(store, copy=copy) == NewestCommit(1)


def test_a_checkpoint_alone_tells_the_txn() -> None:
    store = quiet()
    store.delete([commit_key(version) for version in range(32)])
    assert newest(store) == NewestCommit(1)


@pytest.mark.parametrize("copy", [None, 7])
def test_without_a_txn_nothing_is_committed_and_the_log_is_not_searched(copy: int | None) -> None:
    store = log_of(*[OTHER] * 40)
    checkpoint(store, 25, **{OTHER: 25})
    assert newest(store, copy=copy) == NewestCommit()
    assert sorted(store.read) == [*range(26, 40)]
    assert newest(ReadLog()) == NewestCommit()


def test_what_is_committed_after_the_newest_commits_were_read_does_not_count() -> None:
    """The table would have an older version than its state."""
    store = quiet()

    def overtaken() -> Iterator[Commit]:
        yield from [*DeltaLogTail(store).commits(TAIL)]
        store.put(commit_key(32), json.dumps({"txn": {"appId": OWN, "version": 2}}).encode())
        checkpoint(store, 32, **{OWN: 2})

    found = newest_commit_of(store, OWN, overtaken(), lambda: 2)
    assert (found.sequence, found.commit and found.commit.version) == (1, 1)


def test_a_damaged_checkpoint_may_have_the_txn() -> None:
    store = quiet()
    store.put(f"{LOG_FOLDER}{16:020d}.checkpoint.parquet", b"PAR1")
    with pytest.raises(UnreadableState, match="the log cannot be read"):
        newest(store)
    store.put(f"{LOG_FOLDER}{16:020d}.checkpoint.parquet", b"")
    with pytest.raises(UnreadableState, match="the log cannot be read"):
        newest(store)


def test_the_txns_of_an_older_version() -> None:
    store = quiet()
    assert {txn.app_id: txn.version for txn in txns_of(store)} == {OWN: 1, OTHER: 31}
    assert {txn.app_id: txn.version for txn in txns_of(store, through=20)} == {OWN: 1, OTHER: 20}
    assert {txn.app_id: txn.version for txn in txns_of(store, through=0)} == {OWN: 0}
    assert {txn.app_id: txn.version for txn in txns_of(store, without={31, 30})} == {OWN: 1, OTHER: 29}
