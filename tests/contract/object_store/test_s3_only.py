"""What only S3 has: any key, versions, credentials."""

import subprocess
import sys

import pytest

from blizzard.errors import AccessDenied, BucketMissing, StorageError
from blizzard.storage.s3 import S3Settings, S3Store
from tests.contract.object_store.stores import fill, keys_of
from tests.fixtures_s3 import BUCKET

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
def test_s3_stores_every_key(s3: S3Store, key: str) -> None:
    fill(s3, "a", "b", "zzz")
    s3.create(key, b"hostile")
    with s3.open(key) as reader:
        assert (reader.read(), reader.info.key) == (b"hostile", key)
    assert s3.get(key) == b"hostile"
    assert keys_of(s3) == sorted(["a", "b", "zzz", key])
    assert s3.head(key)
    s3.delete([key, "zzz"])
    assert keys_of(s3) == ["a", "b"]


@pytest.mark.parametrize("key", _HOSTILE, ids=ascii)
def test_s3_stores_every_key_at_the_root_of_a_bucket(s3_endpoint: str, key: str) -> None:
    s3 = S3Store(BUCKET, "", S3Settings(s3_endpoint, "us-east-1", max_attempts=1))
    fill(s3, "a", "b")
    s3.put(key, b"hostile")
    with s3.open(key) as reader:
        assert reader.read() == b"hostile"
    s3.delete([key, "a", "b"])
    assert key not in keys_of(s3)


def test_a_key_that_is_too_long_with_its_prefix_is_refused(s3: S3Store) -> None:
    with pytest.raises(StorageError, match="at most 1024"):
        s3.put("k" * 1010, b"")


def test_a_missing_bucket_is_reported(s3_endpoint: str) -> None:
    s3 = S3Store("no-such-bucket", "", S3Settings(s3_endpoint, "us-east-1"))
    for call in (lambda: list(s3.list()), lambda: s3.put("k", b""), lambda: s3.get("k"), lambda: s3.delete(["k"])):
        with pytest.raises(BucketMissing, match="no-such-bucket"):
            call()
    with pytest.raises(BucketMissing, match="no-such-bucket"), s3.open("k"):
        pass
    for size in (1, 9 << 20):
        with pytest.raises(BucketMissing, match="no-such-bucket"), s3.writer("k") as writer:
            writer.write(bytes(size))


def test_a_reader_has_the_version_of_the_object(s3_endpoint: str, s3: S3Store) -> None:
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


def test_without_credentials_the_error_says_where_they_are_expected(
    s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    s3 = S3Store(BUCKET, "", S3Settings(s3_endpoint, "us-east-1", page_size=999))
    for call in (lambda: list(s3.list()), lambda: s3.open("k").__enter__()):
        with pytest.raises(AccessDenied, match="AWS_ACCESS_KEY_ID"):
            call()


def test_writing_and_listing_do_not_import_obstore(s3_endpoint: str) -> None:
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
