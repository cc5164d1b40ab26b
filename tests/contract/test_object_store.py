"""One contract for every object store: in memory, in a local directory, and on S3 as moto plays it."""

import hashlib
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.errors import AccessDenied, AlreadyExists, BucketMissing, NotFound, StorageError
from blizzard.storage.base import ObjectStore
from blizzard.storage.keys import is_relative_path
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from blizzard.storage.s3 import S3Settings, S3Store
from tests.fixtures_s3 import BUCKET

NewStore = Callable[[], ObjectStore]


@pytest.fixture(scope="module", params=["memory", "local", "s3"])
def new_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NewStore:
    """Makes a store that is still empty, each time it is called."""
    if request.param == "memory":
        return lambda: MemoryStore(time.time)
    if request.param == "local":
        return lambda: LocalStore(tmp_path_factory.mktemp("store"))
    # With retries: moto answers 500 when an object is overwritten while it sends it.
    s3_settings = S3Settings(request.getfixturevalue("s3_endpoint"), "us-east-1", first_backoff_secs=0.01, page_size=3)
    numbers = itertools.count()
    return lambda: S3Store(BUCKET, f"raw events/{next(numbers)}/", s3_settings)


@pytest.fixture
def store(new_store: NewStore) -> ObjectStore:
    return new_store()


@pytest.fixture
def s3(s3_endpoint: str) -> S3Store:
    return S3Store(BUCKET, f"s3-only/{os.urandom(8).hex()}/", S3Settings(s3_endpoint, "us-east-1", max_attempts=1))


def _keys(store: ObjectStore, **arguments: Any) -> list[str]:
    return [info.key for info in store.list(**arguments)]


def _fill(store: ObjectStore, *keys: str) -> ObjectStore:
    for key in keys:
        store.put(key, key.encode())
    return store


# --- listing -------------------------------------------------------------------------------------------------------

_NAME = st.text("ab-.+ %=é€🎉~_0Z!", min_size=1, max_size=4).filter(is_relative_path)
_KEY = st.lists(_NAME, min_size=1, max_size=3).map("/".join)


def _possible_on_disk(keys: set[str]) -> set[str]:
    """Without those that would have to be file and folder at once."""
    return {key for key in keys if not any(other.startswith(key + "/") for other in keys)}


_KEYS = st.sets(_KEY, min_size=1, max_size=12).map(_possible_on_disk)


@st.composite
def _pieces(draw: st.DrawFn) -> tuple[set[str], str, str, bool]:
    """Keys, and a prefix and a start that are cut somewhere out of them."""
    keys = draw(_KEYS)
    cut = st.sampled_from(sorted(keys)).flatmap(lambda key: st.integers(0, len(key)).map(lambda end: key[:end]))
    return keys, draw(cut), draw(cut), draw(st.booleans())


@given(_pieces())
@settings(max_examples=60)
def test_a_listing_has_the_matching_keys_in_the_order_of_their_bytes(
    new_store: NewStore, pieces: tuple[set[str], str, str, bool]
) -> None:
    keys, prefix, start_after, recursive = pieces
    store = _fill(new_store(), *keys)
    wanted = [
        key
        for key in sorted(keys, key=str.encode)
        if key.startswith(prefix) and key.encode() > start_after.encode()
        if recursive or "/" not in key.removeprefix(prefix)
    ]
    assert _keys(store, prefix=prefix, start_after=start_after, recursive=recursive) == wanted


@given(_pieces())
@settings(max_examples=60)
def test_the_folders_below_a_prefix_are_listed_once_each_and_in_order(
    new_store: NewStore, pieces: tuple[set[str], str, str, bool]
) -> None:
    keys, prefix, start_after, _ = pieces
    store = _fill(new_store(), *keys)
    behind = {key: key.removeprefix(prefix).partition("/") for key in keys if key.startswith(prefix)}
    folders = {prefix + name + "/" for name, slash, _ in behind.values() if slash}
    wanted = [folder for folder in sorted(folders, key=str.encode) if folder.encode() > start_after.encode()]
    assert list(store.list_folders(prefix, start_after=start_after)) == wanted


def test_a_folder_is_sorted_by_the_slash_behind_its_name(store: ObjectStore) -> None:
    _fill(store, "a/b", "a-b", "a.b", "a0", "a/b-", "ab/c")
    assert _keys(store) == ["a-b", "a.b", "a/b", "a/b-", "a0", "ab/c"]


def test_a_listing_goes_on_behind_a_folder(store: ObjectStore) -> None:
    _fill(store, "a/1", "a/2", "b/1", "c")
    assert list(store.list_folders(start_after="a/")) == ["b/"]
    assert _keys(store, start_after="a/2") == ["b/1", "c"]


def test_a_prefix_that_nothing_has_lists_as_empty(store: ObjectStore) -> None:
    _fill(store, "a/1", "f")
    for prefix in ("no/such/folder/", "f/", "a/1/"):
        assert _keys(store, prefix=prefix) == []
        assert list(store.list_folders(prefix)) == []


def test_a_listing_is_lazy(store: ObjectStore) -> None:
    _fill(store, *(f"{number:02}" for number in range(20)))
    listing = store.list()
    assert next(listing).key == "00"
    store.put("19-late", b"")
    store.delete(["18"])
    assert sum(1 for _ in listing) >= 18


def test_a_folder_marker_is_no_object_but_its_folder_is_listed(store: ObjectStore) -> None:
    if isinstance(store, LocalStore):
        Path(store.uri.removeprefix("file://"), "marked").mkdir()
    else:
        store.put("marked/", b"")
    store.put("z", b"")
    assert _keys(store) == ["z"]
    assert _keys(store, prefix="marked/") == []
    assert list(store.list_folders()) == ["marked/"]


def test_listing_head_open_and_put_describe_an_object_alike(store: ObjectStore) -> None:
    before = time.time()
    written = store.put("a/é +%.gz", b"some bytes")
    with store.open("a/é +%.gz") as reader:
        described = [*store.list(), store.head("a/é +%.gz"), reader.info, written]
    assert {(info.key, info.size, info.etag) for info in described if info} == {(written.key, 10, written.etag)}
    assert all(info and abs(info.modified_ts - before) < 60 for info in described)
    assert '"' not in written.etag


def test_an_etag_changes_with_the_content_even_when_size_and_second_do_not(store: ObjectStore) -> None:
    etags = {store.put("k", bytes([number])).etag for number in range(20)}
    assert len(etags) == 20
    found = store.head("k")
    assert found
    assert found.etag in etags


# --- one object ----------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_said_so(store: ObjectStore) -> None:
    store.put("folder/file", b"")
    for key in ("missing", "folder", "folder/file/below"):
        assert store.head(key) is None
        with pytest.raises(NotFound, match=key):
            store.get(key)
        with pytest.raises(NotFound, match=key), store.open(key):
            pass


def test_deleting_what_is_not_there_is_no_error(store: ObjectStore) -> None:
    _fill(store, "a/1", "a/2", "b")
    store.delete(["a/1", "missing", "missing/folder", "b/below", "b"])
    store.delete([])
    assert _keys(store) == ["a/2"]


def test_more_objects_than_one_call_can_carry_are_deleted(store: ObjectStore) -> None:
    _fill(store, "0000", "0999", "1000", "2100", "kept")
    store.delete(f"{number:04}" for number in range(2200))
    assert _keys(store) == ["kept"]


@given(content=st.binary(max_size=300), sizes=st.lists(st.integers(0, 70), min_size=1))
@settings(max_examples=25)
def test_reading_in_pieces_gives_what_get_gives(new_store: NewStore, content: bytes, sizes: list[int]) -> None:
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


# --- writing -------------------------------------------------------------------------------------------------------


@pytest.fixture
def rapid_switching() -> Iterator[None]:
    """Threads take turns so often that a gap between looking and writing is found."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("rapid_switching")
def test_of_eight_that_create_one_wins(store: ObjectStore) -> None:
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


def test_creating_ones_own_bytes_again_is_fine(store: ObjectStore) -> None:
    first = store.create("k", b"mine")
    assert store.create("k", b"mine").etag == first.etag
    with pytest.raises(AlreadyExists, match="k: somebody else"):
        store.create("k", b"size")
    assert store.get("k") == b"mine"


def test_what_was_deleted_can_be_created(store: ObjectStore) -> None:
    store.create("k", b"first")
    store.delete(["k"])
    store.create("k", b"second")
    assert store.get("k") == b"second"


def test_no_reader_sees_half_of_a_put(store: ObjectStore) -> None:
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
        assert _keys(store) == ["k"]
    writer.join()
    assert set(seen) <= contents


# --- writing in pieces ---------------------------------------------------------------------------------------------

MIB = 1 << 20


class GivenUp(Exception):
    """What a block raises that has lost interest."""


def _leftovers(store: ObjectStore) -> list[str]:
    """Unfinished files and uploads, which no listing shows."""
    if isinstance(store, LocalStore):
        return [str(path) for path in Path(store.uri.removeprefix("file://")).rglob("*") if path.name.startswith(".")]
    if isinstance(store, S3Store):
        import boto3  # type: ignore[import-untyped]

        client = boto3.client("s3", endpoint_url=store._settings.endpoint_url, region_name="us-east-1")
        found = client.list_multipart_uploads(Bucket=BUCKET, Prefix=store._prefix)
        return [upload["Key"] for upload in found.get("Uploads", ())]
    return []


def _begin_and_give_up(store: ObjectStore, key: str, size: int) -> None:
    with store.writer(key) as writer:
        for piece in _pieces_of(size):
            writer.write(piece)
        raise GivenUp


def _pieces_of(size: int) -> list[bytes]:
    return [random.Random(size + at).randbytes(min(MIB - 7, size - at)) for at in range(0, size, MIB - 7)]


@pytest.mark.parametrize("size", [0, 1, 8 * MIB - 1, 8 * MIB, 21 * MIB + 5])
def test_what_is_written_in_pieces_is_one_object(store: ObjectStore, size: int) -> None:
    pieces = _pieces_of(size)
    with store.writer("a/b.bin") as writer:
        assert [writer.write(piece) for piece in pieces] == [len(piece) for piece in pieces]
        assert not writer.closed
        assert _keys(store) == []
    assert store.get("a/b.bin") == b"".join(pieces)
    assert [info.size for info in store.list()] == [size]
    assert _leftovers(store) == []


@pytest.mark.parametrize("size", [10, 21 * MIB])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_block_that_raises_leaves_what_was_there(store: ObjectStore, size: int, before: bytes | None) -> None:
    if before is not None:
        store.put("k", before)
    with pytest.raises(GivenUp):
        _begin_and_give_up(store, "k", size)
    assert [store.get(key) for key in _keys(store)] == ([before] if before else [])
    assert _leftovers(store) == []


@pytest.mark.parametrize("size", [10, 17 * MIB])
def test_writing_in_pieces_overwrites(store: ObjectStore, size: int) -> None:
    store.put("k", b"old")
    with store.writer("k") as writer:
        for piece in _pieces_of(size):
            writer.write(piece)
        assert store.get("k") == b"old"
    assert store.get("k") == b"".join(_pieces_of(size))


@pytest.mark.parametrize("key", ["with space/50%25 +é🎉.parquet", "p=a%2Fb %/x"])
@pytest.mark.parametrize("size", [10, 9 * MIB])
def test_a_key_is_taken_literally_by_a_writer(store: ObjectStore, key: str, size: int) -> None:
    with store.writer(key) as writer:
        writer.write(bytes(size))
    assert _keys(store) == [key]
    assert store.get(key) == bytes(size)


def test_a_buffer_may_be_reused_after_it_was_written(store: ObjectStore) -> None:
    buffer = bytearray(b"first")
    with store.writer("k") as writer:
        writer.write(memoryview(buffer))
        buffer[:] = b"other"
        writer.write(buffer)
        buffer[:] = b"third"
    assert store.get("k") == b"firstother"


def test_nothing_is_taken_behind_the_end(store: ObjectStore) -> None:
    with store.writer("k") as writer:
        writer.write(b"all")
    assert writer.closed
    with pytest.raises(ValueError, match=r"closed|ended"):
        writer.write(b"more")
    assert store.get("k") == b"all"


def test_writers_do_not_mix(store: ObjectStore) -> None:
    with store.writer("a") as first, store.writer("b") as second:
        for number in range(17):
            first.write(b"a" * (MIB // 2))
            second.write(b"b" * (MIB // 2 + number))
    assert store.get("a") == b"a" * (17 * MIB // 2)
    assert store.get("b") == b"b" * (17 * MIB // 2 + sum(range(17)))


def test_the_end_of_a_block_may_come_on_another_thread(store: ObjectStore) -> None:
    block = store.writer("k")
    writer = block.__enter__()
    writer.write(bytes(9 * MIB))
    with ThreadPoolExecutor(1) as threads:
        threads.submit(block.__exit__, None, None, None).result()
    assert len(store.get("k")) == 9 * MIB


def test_pyarrow_writes_parquet_into_a_writer(store: ObjectStore) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"n": range(1000)})
    with store.writer("t.parquet") as writer:
        pq.write_table(table, pa.PythonFile(writer, mode="w"))
    assert pq.read_table(pa.BufferReader(store.get("t.parquet"))) == table


def test_a_writer_refuses_a_key_that_no_storage_can_hold(store: ObjectStore) -> None:
    for key in ("", "\ud800", "k" * 1200):
        with pytest.raises(StorageError, match="key"), store.writer(key):
            pass


# --- S3 alone ------------------------------------------------------------------------------------------------------

_HOSTILE = [
    "a//b",
    "/a",
    "a/../b",
    "../up",
    "a/.",
    "tab\there",
    "cr\rx",
    "\x01",
    "del\x7f",
    "[x]{y}|\\^`<>\"'*?#&",
    "%2F",
]


@pytest.mark.parametrize("key", [*_HOSTILE, "x" * 990, "é" * 495], ids=ascii)
def test_s3_names_every_key(s3: S3Store, key: str) -> None:
    _fill(s3, "a", "b", "zzz")
    s3.create(key, b"hostile")
    with s3.open(key) as reader:
        assert (reader.read(), reader.info.key) == (b"hostile", key)
    assert s3.get(key) == b"hostile"
    assert _keys(s3) == sorted(["a", "b", "zzz", key])
    assert s3.head(key)
    s3.delete([key, "zzz"])
    assert _keys(s3) == ["a", "b"]


@pytest.mark.parametrize("key", _HOSTILE, ids=ascii)
def test_s3_names_every_key_at_the_root_of_a_bucket(s3_endpoint: str, key: str) -> None:
    s3 = S3Store(BUCKET, "", S3Settings(s3_endpoint, "us-east-1", max_attempts=1))
    _fill(s3, "a", "b")
    s3.put(key, b"hostile")
    with s3.open(key) as reader:
        assert reader.read() == b"hostile"
    s3.delete([key, "a", "b"])
    assert key not in _keys(s3)


def test_a_key_that_is_too_long_with_its_prefix_is_refused(s3: S3Store) -> None:
    with pytest.raises(StorageError, match="at most 1024"):
        s3.put("k" * 1010, b"")


def test_a_missing_bucket_is_said_so(s3_endpoint: str) -> None:
    s3 = S3Store("no-such-bucket", "", S3Settings(s3_endpoint, "us-east-1"))
    for call in (lambda: list(s3.list()), lambda: s3.put("k", b""), lambda: s3.get("k"), lambda: s3.delete(["k"])):
        with pytest.raises(BucketMissing, match="no-such-bucket"):
            call()
    with pytest.raises(BucketMissing, match="no-such-bucket"), s3.open("k"):
        pass
    for size in (1, 9 << 20):
        with pytest.raises(BucketMissing, match="no-such-bucket"), s3.writer("k") as writer:
            writer.write(bytes(size))


def test_the_version_that_is_read_is_named(s3_endpoint: str, s3: S3Store) -> None:
    import boto3  # type: ignore[import-untyped]

    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="versioned")
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    versioned = S3Store("versioned", "", S3Settings(s3_endpoint, "us-east-1"))
    written = versioned.put("k", b"1")
    head = versioned.head("k")
    with versioned.open("k") as reader:
        assert head
        assert reader.info.version_id == head.version_id == written.version_id is not None
    assert s3.put("k", b"1").version_id is None


def test_without_credentials_it_says_where_they_are_looked_for(
    s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    s3 = S3Store(BUCKET, "", S3Settings(s3_endpoint, "us-east-1", page_size=999))
    for call in (lambda: list(s3.list()), lambda: s3.open("k").__enter__()):
        with pytest.raises(AccessDenied, match="AWS_ACCESS_KEY_ID"):
            call()


def test_writing_and_listing_do_not_load_what_they_do_not_need(s3_endpoint: str) -> None:
    program = f"""
import sys
from blizzard.storage.open import open_store
from blizzard.storage.s3 import S3Settings
store = open_store("s3://{BUCKET}/lazy/", S3Settings({s3_endpoint!r}, "us-east-1"))
assert not {{"boto3", "botocore", "obstore"}} & set(sys.modules), "loaded by an import"
store.create("k", b"v"), list(store.list()), store.get("k"), store.delete(["k"])
assert "obstore" not in sys.modules, "loaded without open()"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
