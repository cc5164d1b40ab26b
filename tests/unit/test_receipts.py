"""Receipts: what is written is read again, and nothing else is."""

import gzip
import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
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
    finished=st.booleans(),
    repairs=st.none() | strategies.naturals,
)


OLD_NAME = "00000000000000000000-1cc220eabd7305a3.json.gz"


def line(path: str, etag: str = "e1") -> ReceiptLine:
    return ReceiptLine(path, etag, 10, 3, 0, 1.0)


def chain(count: int, store: MemoryStore | None = None) -> SimpleNamespace:
    """`count` commits, one second apart; commit n took file `f{n}`."""
    store = store or memory_store()
    receipts, names, newest = Receipts(store, STATE_PREFIX), list[str](), None
    for n in range(count):
        newest = receipts.put(sequence=n, attempt="a", previous=newest, now_ts=float(n), lines=[line(f"f{n}")]).name
        names.append(newest)
    return SimpleNamespace(store=store, receipts=receipts, names=names, newest=newest)


@given(st.lists(lines, max_size=5), st.none() | strategies.any_text, strategies.moments)
def test_a_receipt_is_read_as_it_was_written(written: list[ReceiptLine], previous: str | None, now_ts: float) -> None:
    receipts = Receipts(memory_store(), STATE_PREFIX)
    put = receipts.put(sequence=7, attempt="3f", previous=previous, now_ts=now_ts, lines=written)
    receipt = receipts.get(put.name)
    assert receipt == put
    assert re.fullmatch(r"00000000000000000007-3f-[0-9a-f]{32}\.json\.gz", receipt.name)
    assert (receipt.sequence, receipt.previous) == (7, previous)
    assert (receipt.written_ts, receipt.lines) == (now_ts, tuple(written))


def test_receipts_of_two_attempts_do_not_overwrite_each_other() -> None:
    receipts = Receipts(memory_store(), STATE_PREFIX)
    lost = receipts.put(sequence=7, attempt="a", previous=None, now_ts=1.0, lines=[line("x")]).name
    won = receipts.put(sequence=7, attempt="b", previous=None, now_ts=1.0, lines=[line("y")]).name
    assert [receipts.get(name).lines[0].path for name in (lost, won)] == ["x", "y"]


def test_equal_receipts_give_equal_bytes() -> None:
    one, other = chain(1), chain(1)
    key = FOLDER + one.newest
    assert one.store.get(key) == other.store.get(key)


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
def test_a_truncated_receipt_is_unreadable(content: bytes) -> None:
    made = chain(4)
    for name in (made.names[1], OLD_NAME):
        made.store.put(FOLDER + name, content)
        with pytest.raises(UnreadableState, match=name):
            made.receipts.get(name)


def test_a_receipt_under_another_name_or_with_other_content_is_unreadable() -> None:
    made = chain(2)
    whole = made.store.get(FOLDER + made.names[1])
    forged = gzip.compress(gzip.decompress(whole).replace(b"f1", b"f9"), compresslevel=1, mtime=0)
    for content in (made.store.get(FOLDER + made.names[0]), forged):
        made.store.put(FOLDER + made.names[1], content)
        with pytest.raises(UnreadableState, match="not that of its name"):
            made.receipts.get(made.names[1])


def test_receipts_of_the_version_before_have_their_own_name_in_place_of_a_digest() -> None:
    made = chain(1)
    document = json.loads(gzip.decompress(made.store.get(FOLDER + made.newest)))
    made.store.put(FOLDER + OLD_NAME, gzip.compress(json.dumps({**document, "name": OLD_NAME}).encode()))
    assert made.receipts.get(OLD_NAME).lines == made.receipts.get(made.newest).lines
    made.store.put(FOLDER + OLD_NAME, gzip.compress(json.dumps({**document, "name": "other"}).encode()))
    with pytest.raises(UnreadableState, match="copy of 'other'"):
        made.receipts.get(OLD_NAME)


def test_the_names_of_a_range_include_those_of_lost_attempts() -> None:
    made = chain(4)
    lost = made.receipts.put(sequence=2, attempt="lost", previous=made.names[1], now_ts=9.0, lines=[]).name
    assert [*made.receipts.names(1, 2)] == [*made.names[1:3], lost]


@given(strategies.any_json)
def test_any_other_json_is_an_unreadable_receipt(document: object) -> None:
    made = chain(1)
    made.store.put(FOLDER + OLD_NAME, gzip.compress(json.dumps(document).encode()))
    with pytest.raises(UnreadableState):
        made.receipts.get(OLD_NAME)
