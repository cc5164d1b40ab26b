"""Writing an object in pieces."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blizzard.errors import StorageError
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.s3 import S3Store
from tests.contract.object_store.stores import keys_of
from tests.fixtures_s3 import BUCKET

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
def test_an_object_written_in_pieces_is_complete(store: ObjectStore, size: int) -> None:
    pieces = _pieces_of(size)
    with store.writer("a/b.bin") as writer:
        assert [writer.write(piece) for piece in pieces] == [len(piece) for piece in pieces]
        assert not writer.closed
        assert keys_of(store) == []
    assert store.get("a/b.bin") == b"".join(pieces)
    assert [info.size for info in store.list()] == [size]
    assert _leftovers(store) == []


@pytest.mark.parametrize("size", [10, 21 * MIB])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_writer_block_that_raises_keeps_the_existing_object(
    store: ObjectStore, size: int, before: bytes | None
) -> None:
    if before is not None:
        store.put("k", before)
    with pytest.raises(GivenUp):
        _begin_and_give_up(store, "k", size)
    assert [store.get(key) for key in keys_of(store)] == ([before] if before else [])
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
    assert keys_of(store) == [key]
    assert store.get(key) == bytes(size)


def test_a_buffer_may_be_reused_after_it_was_written(store: ObjectStore) -> None:
    buffer = bytearray(b"first")
    with store.writer("k") as writer:
        writer.write(memoryview(buffer))
        buffer[:] = b"other"
        writer.write(buffer)
        buffer[:] = b"third"
    assert store.get("k") == b"firstother"


def test_a_closed_writer_refuses_data(store: ObjectStore) -> None:
    with store.writer("k") as writer:
        writer.write(b"all")
    assert writer.closed
    with pytest.raises(ValueError, match=r"closed|ended"):
        writer.write(b"more")
    assert store.get("k") == b"all"


def test_concurrent_writers_do_not_mix_their_data(store: ObjectStore) -> None:
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
