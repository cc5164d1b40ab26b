"""What only a server shows: versions and delete markers, names of a file system, throttling."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blizzard.errors import AlreadyExists, StorageError, StorageUnavailable
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.storage.s3 import S3Settings, S3Store
from tests.contract.object_store.stores import fill, keys_of
from tests.contract.s3_faults.faults import Events
from tests.fixtures_faulty_s3 import FaultyS3, refusing
from tests.fixtures_s3 import BUCKET
from tests.fixtures_versitygw import REGION, S3Server, serving

ODD_KEYS = [
    "a+b",
    "with space",
    " leading and trailing ",
    "50%",
    "%2F",
    "%20",
    "date=2026-11-25/x",
    "#?&;,:@!$'()*",
    '[x]{y}|\\^`<>"',
    "é🎉",
    "tail.",
    "tail..",
    "...",
    ".hidden",
    "~",
    "x" * 255,
    "/".join(["d" * 195] * 5),
]
MISTAKEN = {"a//b": "a/b", "/a": "a", "a/../b": "b", "a/.": "a"}
"""Keys that S3 has and a folder of files cannot have, and those that versitygw takes them for."""


@pytest.fixture
def store(versitygw: S3Server) -> S3Store:
    return S3Store(BUCKET, f"{uuid.uuid4().hex}/", S3Settings(versitygw.endpoint, REGION, max_attempts=1))


@pytest.fixture
def versioned(versitygw: S3Server) -> S3Store:
    bucket = versitygw.new_bucket(f"versioned-{uuid.uuid4().hex[:8]}", versioned=True)
    return S3Store(bucket, "lake/", S3Settings(versitygw.endpoint, REGION, max_attempts=1, page_size=3))


# --- Keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ODD_KEYS, ids=ascii)
def test_a_key_with_odd_characters_is_taken_literally(store: S3Store, key: str) -> None:
    fill(store, "0", "é🎉é")
    store.create(key, b"odd")
    with pytest.raises(AlreadyExists):
        store.create(key, b"other")
    with store.open(key) as reader:
        assert (reader.read(), reader.info.key) == (b"odd", key)
    assert store.get(key) == b"odd"
    assert keys_of(store) == sorted(["0", "é🎉é", key])
    assert keys_of(store, start_after=key) == [other for other in ("0", "é🎉é") if other > key]
    store.delete([key])
    assert keys_of(store) == ["0", "é🎉é"]


@pytest.mark.parametrize(("key", "taken_for"), MISTAKEN.items())
def test_a_key_that_is_no_path_of_a_file_is_taken_for_another(versitygw: S3Server, key: str, taken_for: str) -> None:
    """What docs/s3-servers.md warns of."""
    bucket = versitygw.new_bucket(f"keys-{uuid.uuid4().hex[:8]}")
    store = S3Store(bucket, "", S3Settings(versitygw.endpoint, REGION, max_attempts=1))
    store.put(key, b"")
    assert keys_of(store) == [taken_for]


@pytest.mark.parametrize(("key", "error"), [("x" * 256, "KeyTooLong"), ("file/below", "ObjectParentIsFile")])
def test_a_key_that_no_file_can_have_is_refused(store: S3Store, key: str, error: str) -> None:
    fill(store, "file")
    with pytest.raises((StorageError, StorageUnavailable), match=error):
        store.create(key, b"")
    assert keys_of(store) == ["file"]


# --- Versions ---------------------------------------------------------------------------------------------------------


def test_deleted_objects_of_a_versioned_bucket_are_not_listed_and_can_be_written_again(versioned: S3Store) -> None:
    keys = [f"k/{number:02}" for number in range(10)]
    fill(versioned, *keys)
    versioned.delete(keys[2:8])
    assert keys_of(versioned) == keys[:2] + keys[8:]
    assert keys_of(versioned, start_after="k/04") == keys[8:]
    assert versioned.head("k/03") is None
    assert versioned.put("k/03", b"again").version_id is not None
    assert versioned.get("k/03") == b"again"
    assert keys_of(versioned, start_after="k/01") == ["k/03", *keys[8:]]


def test_a_deleted_object_of_a_versioned_bucket_cannot_be_created_again(versioned: S3Store) -> None:
    """On AWS it can, as docs/s3-servers.md says. Nothing here needs it: numbers of segments are not used again."""
    fill(versioned, "k")
    versioned.delete(["k"])
    with pytest.raises(AlreadyExists):
        versioned.create("k", b"again")
    assert keys_of(versioned) == []


def test_readers_and_writers_have_the_version_of_the_object(versioned: S3Store) -> None:
    first = versioned.put("k", b"1")
    with versioned.open("k") as reader:
        assert versioned.put("k", b"2").version_id != first.version_id
        assert (reader.read(), reader.info.version_id) == (b"1", first.version_id)
    head = versioned.head("k")
    assert head
    assert head.version_id not in (None, first.version_id)


def test_segments_of_a_manifest_in_a_versioned_bucket_are_numbered_on_after_a_trim(versioned: S3Store) -> None:
    manifest = Manifest(versioned, "_blizzard/s", "p:s")
    entries = [Entry(f"{number}.gz", 1, "etag", 1.0) for number in range(6)]
    numbers = [manifest.append([entry], writer_id="w", now_ts=1.0) for entry in entries]
    assert numbers == [*range(6)]
    versioned.delete([info.key for info in versioned.list()][:5])
    again = Manifest(versioned, "_blizzard/s", "p:s")
    assert [ref.number for ref in again.refs()] == [5]
    assert again.append(entries[:1], writer_id="w", now_ts=2.0) == 6


# --- Uploads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checksums", ["when_supported", "when_required"])
def test_an_upload_is_complete_with_and_without_checksums(
    versitygw: S3Server, checksums: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", checksums)
    # A connection of its own, which reads the variable.
    settings = S3Settings(versitygw.endpoint, REGION, read_timeout_secs=len(checksums))
    store = S3Store(BUCKET, f"{uuid.uuid4().hex}/", settings)
    with store.writer("k") as writer:
        for number in range(17):
            writer.write(bytes([number]) * (1 << 20))
    assert store.get("k") == b"".join(bytes([number]) * (1 << 20) for number in range(17))
    full_key = store.uri.removeprefix(f"s3://{BUCKET}/") + "k"
    found = versitygw.client().head_object(Bucket=BUCKET, Key=full_key, ChecksumMode="ENABLED")
    assert ("ChecksumCRC32" in found) == (checksums == "when_supported")


# --- Throttling -------------------------------------------------------------------------------------------------------


def put_many(store: S3Store, count: int) -> None:
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda number: store.create(f"{number:03}", bytes(100_000)), range(count)))


def test_a_server_that_serves_one_request_at_a_time_throttles_and_nothing_is_lost(
    versitygw_program: Path, tmp_path: Path, versitygw: S3Server
) -> None:
    events = Events()
    with serving(versitygw_program, tmp_path, "--max-requests", "1") as server:
        server.new_bucket(BUCKET)
        settings = S3Settings(server.endpoint, REGION, max_attempts=50, first_backoff_secs=0.01, max_backoff_secs=0.1)
        store = S3Store(BUCKET, "", settings, log=events)
        put_many(store, 60)
        assert keys_of(store) == [f"{number:03}" for number in range(60)]
    retried = [str(fields["error"]) for event, fields in events.seen if event == "storage_retried"]
    assert any("503 SlowDown" in error for error in retried), set(retried)


def test_a_throttled_writer_in_pieces_leaves_one_complete_object(versitygw: S3Server, store: S3Store) -> None:
    events = Events()
    with FaultyS3(versitygw.endpoint) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        settings = S3Settings(proxy.endpoint, REGION, max_attempts=4, first_backoff_secs=0.01)
        throttled = S3Store(BUCKET, store.uri.removeprefix(f"s3://{BUCKET}/"), settings, log=events)
        for method in ("PUT", "POST"):
            proxy.inject(method, *[refusing(503, "SlowDown")] * 3)
            with throttled.writer(method) as writer:
                for _ in range(20):
                    writer.write(method[:1].encode() * (1 << 20))
        proxy.shutdown()
    assert store.get("PUT") == b"P" * (20 << 20)
    assert store.get("POST") == b"P" * (20 << 20)
    assert keys_of(store) == ["POST", "PUT"]
    assert len(events.seen) == 6
