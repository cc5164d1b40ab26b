"""Receipts: a chain that answers what was committed, as far back as it is whole."""

import gzip
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import NotFound, StorageUnavailable, UnreadableState
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.storage.memory import MemoryStore
from tests.unit import strategies
from tests.unit.strategies import STATE_PREFIX, memory_store

FOLDER = f"{STATE_PREFIX}/receipts/"

lines = st.builds(
    ReceiptLine,
    path=strategies.any_path,
    etag=strategies.any_text,
    size=strategies.naturals,
    rows=strategies.naturals,
    dead_records=strategies.naturals,
    event_ts=strategies.moments,
    error=st.none() | strategies.any_text,
)


def line(path: str, etag: str = "e1") -> ReceiptLine:
    return ReceiptLine(path, etag, 10, 3, 0, 1.0)


def chain(count: int, store: MemoryStore | None = None) -> SimpleNamespace:
    """`count` commits, one second apart; commit n took file `f{n}`."""
    store = store or memory_store()
    receipts, names, newest = Receipts(store, STATE_PREFIX), list[str](), None
    for n in range(count):
        newest = receipts.put(sequence=n, attempt="a", previous=newest, now_ts=float(n), lines=[line(f"f{n}")])
        names.append(newest)
    return SimpleNamespace(store=store, receipts=receipts, names=names, newest=newest)


@given(st.lists(lines, max_size=5), st.none() | strategies.any_text, strategies.moments)
def test_a_receipt_is_read_as_it_was_written(written: list[ReceiptLine], previous: str | None, now_ts: float) -> None:
    receipts = Receipts(memory_store(), STATE_PREFIX)
    name = receipts.put(sequence=7, attempt="3f", previous=previous, now_ts=now_ts, lines=written)
    receipt = receipts.get(name)
    assert (receipt.name, receipt.sequence, receipt.previous) == ("00000000000000000007-3f.json.gz", 7, previous)
    assert (receipt.written_ts, receipt.lines) == (now_ts, tuple(written))


def test_receipts_of_two_attempts_do_not_overwrite_each_other() -> None:
    receipts = Receipts(memory_store(), STATE_PREFIX)
    lost = receipts.put(sequence=7, attempt="a", previous=None, now_ts=1.0, lines=[line("x")])
    won = receipts.put(sequence=7, attempt="b", previous=None, now_ts=1.0, lines=[line("y")])
    assert [receipts.get(name).lines[0].path for name in (lost, won)] == ["x", "y"]


def test_equal_receipts_give_equal_bytes() -> None:
    one, other = chain(1), chain(1)
    key = FOLDER + one.newest
    assert one.store.get(key) == other.store.get(key)


def test_receipts_are_read_from_the_newest_to_the_first() -> None:
    made = chain(4)
    assert [receipt.sequence for receipt in made.receipts.back_from(made.newest)] == [3, 2, 1, 0]


def test_the_receipt_of_a_lost_race_is_not_in_the_chain() -> None:
    made = chain(3)
    made.receipts.put(sequence=2, attempt="lost", previous=made.names[1], now_ts=9.0, lines=[line("never")])
    assert {line.path for r in made.receipts.back_from(made.newest) for line in r.lines} == {"f0", "f1", "f2"}


def test_without_a_name_there_are_no_receipts() -> None:
    assert list(chain(2).receipts.back_from(None)) == []


TORN = [
    b"",
    b"no gzip",
    gzip.compress(b'{"sequence": 1')[:-9],
    gzip.compress(b"no json"),
    gzip.compress(b"[]"),
    gzip.compress(b'{"sequence": 1, "previous": null, "written_ts": 1, "files": {}}'),
    gzip.compress(b'{"sequence": 1, "previous": null, "written_ts": 1, "files": [{"path": "x"}]}'),
    gzip.compress(b"{}")[:4] + b"\0" * 20,
    gzip.compress(b"x" * 100)[:12] + b"\xff" * 30,
]


@pytest.mark.parametrize("content", TORN, ids=range(len(TORN)))
def test_a_truncated_receipt_is_unreadable_and_ends_the_chain(content: bytes) -> None:
    made = chain(4)
    made.store.put(FOLDER + made.names[1], content)
    with pytest.raises(UnreadableState, match=made.names[1]):
        made.receipts.get(made.names[1])
    assert [receipt.sequence for receipt in made.receipts.back_from(made.newest)] == [3, 2]


def test_a_missing_receipt_ends_the_chain() -> None:
    made = chain(4)
    made.store.delete([FOLDER + made.names[1]])
    with pytest.raises(NotFound):
        made.receipts.get(made.names[1])
    assert [receipt.sequence for receipt in made.receipts.back_from(made.newest)] == [3, 2]


@given(strategies.any_json)
def test_any_other_json_is_an_unreadable_receipt(document: object) -> None:
    made = chain(1)
    made.store.put(FOLDER + made.newest, gzip.compress(json.dumps(document).encode()))
    with pytest.raises(UnreadableState):
        made.receipts.get(made.newest)


def test_a_chain_with_a_cycle_ends() -> None:
    receipts = Receipts(memory_store(), STATE_PREFIX)
    name = receipts.put(sequence=1, attempt="a", previous="00000000000000000001-a.json.gz", now_ts=1.0, lines=[])
    assert len(list(receipts.back_from(name))) == 1


def test_a_storage_error_is_raised_and_does_not_end_the_chain() -> None:
    class Failing(MemoryStore):
        def get(self, key: str) -> bytes:
            raise StorageUnavailable(key)

    made = chain(2, Failing(lambda: 0.0))
    with pytest.raises(StorageUnavailable):
        list(made.receipts.back_from(made.newest))


@pytest.mark.parametrize(("since_ts", "paths"), [(0.0, "0123"), (2.0, "23"), (2.5, "3"), (9.0, "")])
def test_files_ingested_since_a_time_include_that_time(since_ts: float, paths: str) -> None:
    made = chain(4)
    known = made.receipts.ingested_since(made.newest, since_ts)
    assert [n for n in "0123" if known.contains(f"f{n}", "e1")] == [*paths]


def test_only_the_newest_files_are_known_beyond_the_limit_and_older_receipts_are_not_read() -> None:
    made = chain(4)
    made.store.put(FOLDER + made.names[1], b"never read")
    known = made.receipts.ingested_since(made.newest, 0.0, max_files=2)
    assert [n for n in "0123" if known.contains(f"f{n}", "e1")] == ["2", "3"]


def test_a_file_committed_twice_has_its_newest_etag() -> None:
    receipts = Receipts(memory_store(), STATE_PREFIX)
    first = receipts.put(sequence=0, attempt="a", previous=None, now_ts=1.0, lines=[line("x", "e1"), line("y", "e1")])
    newest = receipts.put(sequence=1, attempt="a", previous=first, now_ts=2.0, lines=[line("x", "e2")])
    known = receipts.ingested_since(newest, 0.0)
    assert [pair for pair in ("x1", "x2", "y1", "y2") if known.contains(pair[0], f"e{pair[1]}")] == ["x2", "y1"]
