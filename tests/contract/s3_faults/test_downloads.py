"""Downloads that break off, and which client reads."""

import socket
from collections.abc import Callable

import pytest

from blizzard.errors import AccessDenied, KeyUnusable, NotFound, StorageError, StorageUnavailable
from blizzard.storage.s3 import S3Settings, S3Store
from tests.contract.s3_faults.faults import ATTEMPTS, read_all
from tests.fixtures_faulty_s3 import (
    FaultyS3,
    cutting,
    ending_early,
    refusing,
    saying,
)
from tests.fixtures_s3 import BUCKET

CONTENT = bytes(range(256)) * 400
keys = pytest.mark.parametrize("key", ["plain", "not//plain"])


def _ranges(faulty_s3: FaultyS3) -> list[str | None]:
    return [exchange.headers.get("range") for exchange in faulty_s3.exchanges if exchange.method == "GET"]


@keys
def test_a_broken_download_is_resumed_where_it_stopped(
    key: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    info = calm.put(key, CONTENT)
    faulty_s3.inject("GET", cutting(45_000), cutting(25_000))
    with store.open(key) as reader:
        read = b"".join(iter(lambda: reader.read(7_001), b""))
    assert read == CONTENT
    first, *resumed = [exchange.headers for exchange in faulty_s3.exchanges]
    assert "range" not in first
    assert [headers["if-match"] for headers in resumed] == [f'"{info.etag}"'] * 2
    starts = [int(headers["range"].removeprefix("bytes=").removesuffix("-")) for headers in resumed]
    assert 0 < starts[0] <= 45_000
    assert starts[0] < starts[1] <= 70_000


@keys
def test_a_resumed_download_that_ends_early_is_resumed_again(
    key: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    calm.put(key, CONTENT)
    faulty_s3.inject("GET", cutting(30_000), ending_early(20_000))
    assert read_all(store, key) == CONTENT
    assert len(_ranges(faulty_s3)) == 3


def test_the_error_of_an_unreachable_endpoint_names_it_and_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        settings = S3Settings(endpoint_url=endpoint, region="eu-west-1", max_attempts=2, first_backoff_secs=0.01)
        with pytest.raises(StorageUnavailable) as raised:
            S3Store(BUCKET, "p/", settings).put("k", b"")
    said = f"Try again later, or correct {endpoint}, which AWS_ENDPOINT_URL or AWS_REGION chose. "
    assert str(raised.value).endswith(
        said + "To allow more attempts, raise `retries.max_attempts` of the source (for the job and the sweeper) or "
        "AWS_MAX_ATTEMPTS (for everything else)."
    )


@keys
def test_each_piece_of_progress_renews_the_attempts(
    key: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    calm.put(key, CONTENT)
    faulty_s3.inject("GET", *[cutting(10_000)] * 9)
    assert read_all(store, key) == CONTENT
    assert len(_ranges(faulty_s3)) > 2 * ATTEMPTS


@keys
def test_a_download_without_progress_fails(key: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store) -> None:
    calm.put(key, CONTENT)
    faulty_s3.inject("GET", cutting(30_000), *[cutting(0)] * 20)
    with store.open(key) as reader, pytest.raises(StorageUnavailable, match=rf"get {store.uri}{key}: given up after 4"):
        reader.read()


@keys
def test_an_object_that_changes_during_a_broken_download_is_an_error(
    key: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    calm.put(key, CONTENT)
    faulty_s3.inject("GET", cutting(30_000, then=lambda: calm.put(key, CONTENT[::-1])))
    with store.open(key) as reader, pytest.raises(StorageError, match="overwritten while it was read"):
        reader.read()


@keys
def test_an_object_that_is_deleted_during_a_broken_download_is_an_error(
    key: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    calm.put(key, CONTENT)
    faulty_s3.inject("GET", cutting(30_000, then=lambda: calm.delete([key])))
    with store.open(key) as reader, pytest.raises(NotFound, match=key):
        reader.read()


def test_a_broken_response_to_get_or_list_is_retried(faulty_s3: FaultyS3, store: S3Store, calm: S3Store) -> None:
    calm.put("k", CONTENT)
    faulty_s3.inject("GET", cutting(30_000), cutting(0))
    assert store.get("k") == CONTENT
    faulty_s3.inject("GET", cutting(200), cutting(0))
    assert [info.key for info in store.list()] == ["k"]


def test_a_folder_before_the_start_is_skipped_even_if_s3_returns_it(
    faulty_s3: FaultyS3, store: S3Store, prefix: str
) -> None:
    folders = "".join(f"<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>" for name in "ab")
    listing = f"<ListBucketResult><IsTruncated>false</IsTruncated>{folders}</ListBucketResult>"
    faulty_s3.inject("GET", saying(200, listing.encode()))
    assert list(store.list_folders(start_after="a/5")) == ["b/"]


def test_an_unconfirmed_deletion_is_retried(faulty_s3: FaultyS3, store: S3Store, calm: S3Store) -> None:
    calm.put("k", b"")
    faulty_s3.inject("POST", saying(200, b""), cutting(0))
    store.delete(["k", "k"])
    assert [exchange.status for exchange in faulty_s3.exchanges] == [None, 200, 200]
    assert calm.head("k") is None


@pytest.mark.parametrize(
    ("key", "agent"),
    [("plain", "object_store"), ("a//b", "Botocore"), ("/a", "Botocore"), ("tab\t", "Botocore")],
    ids=ascii,
)
def test_objects_are_read_by_obstore_unless_it_cannot_address_the_key(
    key: str, agent: str, faulty_s3: FaultyS3, prefix: str, store: S3Store
) -> None:
    store.put(key, b"there")
    faulty_s3.inject("GET")
    assert read_all(store, key) == b"there"
    assert [exchange.headers["user-agent"].partition("/")[0] for exchange in faulty_s3.exchanges] == [agent]


def test_obstore_signs_with_the_credentials_of_boto3(
    faulty_s3: FaultyS3, calm: S3Store, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm.put("k", b"there")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIATEMPORARY")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-session-token")
    assert read_all(store, "k") == b"there"
    (exchange,) = faulty_s3.exchanges
    assert exchange.headers["user-agent"].startswith("object_store")
    assert "Credential=ASIATEMPORARY/" in exchange.headers["authorization"]
    assert exchange.headers["x-amz-security-token"] == "a-session-token"


@pytest.mark.parametrize("read", [lambda store: store.get("gone"), lambda store: read_all(store, "gone")])
def test_a_missing_object_is_not_found_without_permission_to_list_the_bucket(
    store: S3Store, faulty_s3: FaultyS3, read: Callable[[S3Store], object]
) -> None:
    store.put("gone but not this", b"there")
    faulty_s3.inject("GET", *[refusing(403, "AccessDenied")] * (2 if "_read" in read.__code__.co_names else 1))
    with pytest.raises(NotFound):
        read(store)
    faulty_s3.inject("HEAD", refusing(403, "AccessDenied"))
    assert store.head("gone") is None


def test_an_existing_object_that_is_denied_stays_denied(store: S3Store, faulty_s3: FaultyS3) -> None:
    store.put("secret", b"there")
    faulty_s3.inject("GET", refusing(403, "AccessDenied"))
    with pytest.raises(AccessDenied):
        store.get("secret")
    faulty_s3.inject("HEAD", refusing(403, "AccessDenied"))
    with pytest.raises(AccessDenied):
        store.head("secret")


@pytest.mark.parametrize(
    "read", [lambda store: store.get("k"), lambda store: read_all(store, "k")], ids=["get", "open"]
)
def test_a_disabled_kms_key_has_its_own_error_with_either_client(
    store: S3Store, faulty_s3: FaultyS3, read: Callable[[S3Store], object]
) -> None:
    store.put("k", b"there")
    faulty_s3.inject("GET", *[refusing(400, "KMS.DisabledException")] * 2)
    with pytest.raises(KeyUnusable, match=r"KMS\.DisabledException.*Enable the KMS key"):
        read(store)
