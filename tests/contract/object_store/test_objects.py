"""Single objects: reading, deleting, atomic writes and exclusive creation."""

import hashlib
import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.errors import AlreadyExists, NoSuchBytes, NotFound, StorageError
from blizzard.storage.base import ObjectStore
from tests.contract.object_store.stores import NewStore, fill, keys_of


def test_a_missing_object_is_reported(store: ObjectStore) -> None:
    store.put("folder/file", b"")
    for key in ("missing", "folder", "folder/file/below"):
        assert store.head(key) is None
        with pytest.raises(NotFound, match=key):
            store.get(key)
        with pytest.raises(NotFound, match=key), store.open(key):
            pass


def test_deleting_a_missing_object_is_not_an_error(store: ObjectStore) -> None:
    fill(store, "a/1", "a/2", "b")
    store.delete(["a/1", "missing", "missing/folder", "b/below", "b"])
    store.delete([])
    assert keys_of(store) == ["a/2"]


def test_more_objects_than_one_call_can_carry_are_deleted(store: ObjectStore) -> None:
    fill(store, "0000", "0999", "1000", "2100", "kept")
    store.delete(f"{number:04}" for number in range(2200))
    assert keys_of(store) == ["kept"]


@given(content=st.binary(max_size=300), sizes=st.lists(st.integers(0, 70), min_size=1))
@settings(max_examples=25)
def test_reading_in_pieces_returns_the_same_bytes_as_get(new_store: NewStore, content: bytes, sizes: list[int]) -> None:
    store = new_store()
    store.put("k", content)
    with store.open("k") as reader:
        pieces = [reader.read(size) for size in sizes]
        rest = reader.read()
        assert reader.read(1) == b""
    assert b"".join(pieces) + rest == content == store.get("k")
    taken = [min(size, max(0, len(content) - sum(sizes[:at]))) for at, size in enumerate(sizes)]
    assert [len(piece) for piece in pieces] == taken


def test_a_big_object_is_read_in_bounded_pieces(store: ObjectStore) -> None:
    content = random.Random(7).randbytes(20 << 20)
    store.put("big", content)
    digest = hashlib.sha256()
    with store.open("big") as reader:
        assert reader.info.size == len(content)
        while piece := reader.read(64 << 10):
            assert len(piece) <= 64 << 10
            digest.update(piece)
    assert digest.digest() == hashlib.sha256(content).digest()


def test_of_a_range_there_is_what_the_object_has(store: ObjectStore) -> None:
    store.put("k", b"01234")
    assert [store.get_range("k", start, 3) for start in (0, 2, 3, 4)] == [b"012", b"234", b"34", b"4"]
    with pytest.raises(NoSuchBytes, match="k"):
        store.get_range("k", 5, 1)
    with pytest.raises(NotFound):
        store.get_range("nothing", 0, 1)


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    store.put("empty", b"")
    with store.open("empty") as reader:
        assert reader.read(10) == b""
        assert reader.info.size == 0
    assert store.get("empty") == b""


@pytest.mark.parametrize("key", ["", "\ud800", "k" * 1200])
def test_a_key_that_no_storage_can_hold_is_refused(store: ObjectStore, key: str) -> None:
    for call in (store.head, store.get, lambda key: store.put(key, b""), lambda key: store.create(key, b"")):
        with pytest.raises(StorageError, match="key"):
            call(key)


@pytest.fixture
def rapid_switching() -> Iterator[None]:
    """Threads take turns so often that a gap between looking and writing is found."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("rapid_switching")
def test_one_of_eight_concurrent_creates_succeeds(store: ObjectStore) -> None:
    def attempt(number: int) -> bytes | None:
        start.wait()
        try:
            store.create(f"pending/{race}", b"writer %d" % number)
        except AlreadyExists:
            return None
        return b"writer %d" % number

    for race in range(20):
        start = threading.Barrier(8)
        with ThreadPoolExecutor(8) as threads:
            winners = [written for written in threads.map(attempt, range(8)) if written]
        assert winners == [store.get(f"pending/{race}")]


def test_creating_an_object_again_with_the_same_bytes_succeeds(store: ObjectStore) -> None:
    first = store.create("k", b"mine")
    assert store.create("k", b"mine").etag == first.etag
    with pytest.raises(AlreadyExists, match="k: another writer"):
        store.create("k", b"size")
    assert store.get("k") == b"mine"


def test_a_deleted_object_can_be_created_again(store: ObjectStore) -> None:
    store.create("k", b"first")
    store.delete(["k"])
    store.create("k", b"second")
    assert store.get("k") == b"second"


def test_no_reader_sees_a_part_of_a_put(store: ObjectStore) -> None:
    contents = {bytes([letter]) * 300_000 for letter in b"ab"}
    store.put("k", b"a" * 300_000)

    def write() -> None:
        for number in range(20):
            store.put("k", b"ab"[number % 2 :][:1] * 300_000)

    writer = threading.Thread(target=write)
    writer.start()
    seen = [store.get("k")]
    while writer.is_alive():
        seen.append(store.get("k"))
        assert keys_of(store) == ["k"]
    writer.join()
    assert set(seen) <= contents
