"""The chain of receipts: which commits a checkpoint reaches, and which only the table knows."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import StorageUnavailable
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import STATE_PREFIX, memory_store

FOLDER = f"{STATE_PREFIX}/receipts/"


def commits(store: MemoryStore, count: int) -> list[str]:
    """The names of the receipts of `count` commits. Each sequence also has a receipt of a lost attempt."""
    receipts, names, newest = Receipts(store, STATE_PREFIX), list[str](), None
    for n in range(count):
        lines = [ReceiptLine(f"f{n}", "e1", 10, 3, 0, 1.0)]
        receipts.put(sequence=n, attempt="lost", previous=newest, now_ts=float(n), lines=lines)
        newest = receipts.put(sequence=n, attempt="won", previous=newest, now_ts=float(n), lines=lines).name
        names.append(newest)
    return names


def walked(
    store: MemoryStore,
    name: str | None,
    first: int,
    last: int,
    *,
    parallel: int = 1,
    named: Callable[[int], str | None] = lambda sequence: None,
) -> list[str | tuple[int, int]]:
    """Names of the receipts, and the ranges that are missing."""
    chain = ReceiptChain(Receipts(store, STATE_PREFIX), parallel=parallel, named_by_commits=named)
    found = chain.back_from(name, SequenceRange(first, last))
    return [(f.sequences.first, f.sequences.last) if isinstance(f, MissingReceipts) else f.name for f in found]


@pytest.mark.parametrize("parallel", [1, 8])
def test_receipts_come_from_the_newest_to_the_first_without_those_of_lost_attempts(parallel: int) -> None:
    store = memory_store()
    names = commits(store, 70)
    assert walked(store, names[-1], 0, 69, parallel=parallel) == names[::-1]
    assert walked(store, names[-1], 60, 69, parallel=parallel) == names[:59:-1]


def test_without_a_name_all_are_missing() -> None:
    store = memory_store()
    commits(store, 3)
    assert walked(store, None, 0, 2) == [(0, 2)]


@pytest.mark.parametrize("content", [None, b"", b"no gzip"])
def test_a_lost_or_torn_receipt_hides_those_before_it(content: bytes | None) -> None:
    store = memory_store()
    names = commits(store, 5)
    store.delete([FOLDER + names[2]])
    if content is not None:
        store.put(FOLDER + names[2], content)
    assert walked(store, names[4], 0, 4) == [names[4], names[3], (0, 2)]


@pytest.mark.parametrize("lost", [{4}, {0}, {1, 2}, {4, 2, 0}, {0, 1, 2, 3, 4}])
def test_where_the_log_names_receipts_only_the_lost_ones_are_missing(lost: set[int]) -> None:
    store = memory_store()
    names = commits(store, 5)
    store.delete([FOLDER + names[n] for n in lost])
    for name in (names[4], None):
        found = walked(store, name, 0, 4, named=lambda sequence: names[sequence])
        missing = [n for one in found if isinstance(one, tuple) for n in range(one[0], one[1] + 1)]
        assert {*missing} == lost
        assert [one for one in found if isinstance(one, str)] == [names[n] for n in (4, 3, 2, 1, 0) if n not in lost]


@pytest.mark.parametrize("nonsense", ["", "x", "00000000000000000009-a.json.gz"])
def test_a_name_in_the_log_that_leads_nowhere_ends_the_chain(nonsense: str) -> None:
    store = memory_store()
    commits(store, 3)
    assert walked(store, None, 0, 2, named=lambda sequence: nonsense) == [(0, 2)]


def test_a_receipt_in_place_of_another_does_not_count() -> None:
    store = memory_store()
    names = commits(store, 3)
    store.put(FOLDER + names[1], store.get(FOLDER + names[0]))
    assert walked(store, names[2], 0, 2) == [names[2], (0, 1)]


def test_commits_that_a_repaired_state_skipped_are_missing() -> None:
    store = memory_store()
    names = commits(store, 3)
    newest = Receipts(store, STATE_PREFIX).put(sequence=6, attempt="a", previous=names[2], now_ts=1.0, lines=[]).name
    assert walked(store, newest, 0, 6) == [newest, (3, 5), *names[::-1]]
    assert walked(store, names[2], 0, 5) == [(3, 5), *names[::-1]]
    assert walked(store, names[2], 4, 5) == [(4, 5)]


@pytest.mark.parametrize("previous", ["00000000000000000009-a.json.gz", "00000000000000000002-x.json.gz", "x", ""])
def test_a_receipt_that_names_no_earlier_one_ends_the_chain(previous: str) -> None:
    store = memory_store()
    name = Receipts(store, STATE_PREFIX).put(sequence=2, attempt="x", previous=previous, now_ts=1.0, lines=[]).name
    assert walked(store, name, 0, 2) == [name, (0, 1)]


@given(st.integers(1, 12), st.sets(st.integers(0, 11)), st.data())
def test_receipts_and_missing_ones_cover_the_range_exactly(count: int, lost: set[int], data: st.DataObject) -> None:
    store = memory_store()
    names = commits(store, count)
    store.delete([FOLDER + name for number, name in enumerate(names) if number in lost])
    last = data.draw(st.integers(0, count - 1))
    first = data.draw(st.integers(0, last))
    sequences: list[int] = []
    for found in walked(store, names[last], first, last):
        low, high = found if isinstance(found, tuple) else (names.index(found), names.index(found))
        sequences += range(high, low - 1, -1)
        assert isinstance(found, tuple) or names.index(found) not in lost
    assert sequences == [*range(last, first - 1, -1)]


def test_a_storage_failure_is_raised_and_hides_nothing() -> None:
    class Failing(MemoryStore):
        def get(self, key: str) -> bytes:
            raise StorageUnavailable(key)

    store = Failing(lambda: 0.0)
    names = commits(store, 2)
    with pytest.raises(StorageUnavailable):
        walked(store, names[-1], 0, 1)
