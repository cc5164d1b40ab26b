"""S3 as it is on a bad day: it throttles, fails, stalls, breaks off, and loses the answer to what it has done."""

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from blizzard.errors import AccessDenied, AlreadyExists, KeyUnusable, NotFound, StorageError, StorageUnavailable
from blizzard.storage.base import ObjectStore
from blizzard.storage.retry import Retry
from blizzard.storage.s3 import S3Settings, S3Store
from tests.fixtures_bad_day import (
    BadDay,
    Fault,
    Handler,
    cutting,
    ending_early,
    losing_the_answer,
    refusing,
    resetting,
    saying,
    stalling,
)
from tests.fixtures_s3 import BUCKET

ATTEMPTS = 4


@dataclass
class Events:
    """A log that remembers."""

    seen: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def __call__(self, event: str, /, **fields: object) -> None:
        self.seen.append((event, fields))


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"faults/{abs(hash(request.node.name)):x}/"


@pytest.fixture
def impatient(bad_day: BadDay) -> S3Settings:
    return S3Settings(
        bad_day.endpoint,
        "us-east-1",
        max_attempts=ATTEMPTS,
        first_backoff_secs=0.001,
        max_backoff_secs=0.01,
        chunk_bytes=10_000,
    )


@pytest.fixture
def store(impatient: S3Settings, prefix: str, events: Events) -> S3Store:
    return S3Store(BUCKET, prefix, impatient, log=events)


@pytest.fixture
def calm(s3_endpoint: str, prefix: str) -> S3Store:
    """The same objects, past the proxy."""
    return S3Store(BUCKET, prefix, S3Settings(s3_endpoint, "us-east-1"))


def _read(store: ObjectStore, key: str) -> bytes:
    with store.open(key) as reader:
        return reader.read()


OPERATIONS: dict[str, tuple[str, Callable[[S3Store], object], object]] = {
    "list": ("GET", lambda store: [info.key for info in store.list("k")], ["k", "k2/below"]),
    "list_folders": ("GET", lambda store: list(store.list_folders("k")), ["k2/"]),
    "head": ("HEAD", lambda store: (info := store.head("k")) and info.size, 5),
    "get": ("GET", lambda store: store.get("k"), b"there"),
    "open": ("GET", lambda store: _read(store, "k"), b"there"),
    "put": ("PUT", lambda store: store.put("k", b"again").size, 5),
    "create": ("PUT", lambda store: store.create("new", b"new").size, 3),
    "delete": ("POST", lambda store: store.delete(["k"]), None),
}
FAULTS: dict[str, Fault] = {
    "throttled": refusing(503, "SlowDown"),
    "internal error": refusing(500, "InternalError"),
    "no words": refusing(502, ""),
    "reset": resetting,
}
operations = pytest.mark.parametrize("operation", OPERATIONS)


@operations
@pytest.mark.parametrize("fault", FAULTS)
def test_an_operation_outlives_faults_within_the_limit(
    operation: str, fault: str, bad_day: BadDay, store: S3Store, calm: S3Store, events: Events
) -> None:
    calm.put("k", b"there")
    calm.put("k2/below", b"")
    method, call, wanted = OPERATIONS[operation]
    bad_day.inject(method, *[FAULTS[fault]] * (ATTEMPTS - 1))
    assert call(store) == wanted
    assert bad_day.faults == []
    assert [event for event, _ in events.seen] == ["storage_retried"] * (ATTEMPTS - 1)


@operations
def test_an_operation_that_gets_no_answer_is_tried_again(
    operation: str, bad_day: BadDay, impatient: S3Settings, prefix: str, calm: S3Store
) -> None:
    calm.put("k", b"there")
    calm.put("k2/below", b"")
    method, call, wanted = OPERATIONS[operation]
    patient = replace(impatient, read_timeout_secs=0.5, max_attempts=10 * ATTEMPTS)  # good answers may be as late
    bad_day.inject(method, stalling)
    assert call(S3Store(BUCKET, prefix, patient)) == wanted
    assert bad_day.faults == []


@operations
def test_beyond_the_limit_the_error_names_the_operation_the_key_the_attempts_and_the_last_failure(
    operation: str, bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    calm.put("k", b"there")
    method, call, _ = OPERATIONS[operation]
    bad_day.inject(method, *[refusing(503, "SlowDown")] * 20)
    with pytest.raises(StorageUnavailable) as raised:
        call(store)
    verb = {"open": "get", "list_folders": "list"}.get(operation, operation)
    key = "new" if operation == "create" else "k"
    said = "503: Service Unavailable" if operation == "head" else "503 SlowDown: as injected"
    assert str(raised.value).startswith(f"{verb} {store.uri}{key}")
    assert f"given up after 4 attempts, the last one failed with: S3 answered {said}" in str(raised.value)
    assert len(bad_day.exchanges) == ATTEMPTS


@operations
def test_a_refusal_that_waiting_does_not_cure_is_not_repeated(
    operation: str, bad_day: BadDay, store: S3Store, calm: S3Store, events: Events
) -> None:
    calm.put("k", b"there")
    method, call, _ = OPERATIONS[operation]
    bad_day.inject(method, *[refusing(403, "AccessDenied")] * 20)
    with pytest.raises(AccessDenied, match=r"Allow s3:"):
        call(store)
    assert events.seen == []


def test_the_backoff_grows_and_has_jitter_and_a_ceiling() -> None:
    waits = [[Retry(9, 1, 20)._backoff_secs(failed) for _ in range(200)] for failed in range(1, 9)]
    for at, ceiling in enumerate([1, 2, 4, 8, 16, 20, 20, 20]):
        assert ceiling / 2 <= min(waits[at]) < ceiling * 0.6
        assert ceiling * 0.9 < max(waits[at]) <= ceiling


# --- conditional writes --------------------------------------------------------------------------------------------


def test_a_create_whose_answer_was_lost_succeeds_and_writes_once(
    bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    bad_day.inject("PUT", losing_the_answer)
    info = store.create("segment", b"mine")
    assert [exchange.status for exchange in bad_day.exchanges if exchange.method == "PUT"] == [200, 412]
    assert calm.get("segment") == b"mine"
    assert info == calm.head("segment")


def test_a_create_whose_answer_was_lost_every_time_is_still_recognised(bad_day: BadDay, store: S3Store) -> None:
    bad_day.inject("PUT", *[losing_the_answer] * (ATTEMPTS - 1))
    store.create("segment", b"mine")
    statuses = [exchange.status for exchange in bad_day.exchanges if exchange.method == "PUT"]
    assert statuses == [200, 412, 412, 412]


def test_a_create_that_comes_second_is_refused_even_when_its_answer_was_lost(
    bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    calm.create("segment", b"theirs")
    bad_day.inject("PUT", losing_the_answer)
    with pytest.raises(AlreadyExists, match="segment: somebody else"):
        store.create("segment", b"mine")
    assert calm.get("segment") == b"theirs"


def test_a_create_that_conflicts_with_another_one_under_way_is_tried_again(
    bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    bad_day.inject("PUT", *[refusing(409, "ConditionalRequestConflict")] * 3)
    store.create("segment", b"mine")
    assert calm.get("segment") == b"mine"


def test_a_put_whose_answer_was_lost_is_repeated(bad_day: BadDay, store: S3Store, calm: S3Store) -> None:
    bad_day.inject("PUT", losing_the_answer)
    store.put("copy", b"mine")
    assert calm.get("copy") == b"mine"


# --- uploads in pieces ---------------------------------------------------------------------------------------------

LARGE = bytes(range(256)) * (80 << 10)
"""20 MiB: three parts."""


def _write(store: ObjectStore, key: str, data: bytes) -> None:
    with store.writer(key) as writer:
        for at in range(0, len(data), 1 << 20):
            writer.write(data[at : at + (1 << 20)])


def _begin_and_fail(store: ObjectStore, key: str) -> None:
    with store.writer(key) as writer:
        writer.write(LARGE)
        _ = 1 / 0


def _uploads(calm: S3Store) -> list[str]:
    """Multipart uploads that were begun and neither completed nor aborted."""
    found = calm._connection.client.list_multipart_uploads(Bucket=BUCKET, Prefix=calm._prefix)
    return [upload["Key"] for upload in found.get("Uploads", ())]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_upload_outlives_faults_of_each_step(
    fault: str, method: str, bad_day: BadDay, store: S3Store, calm: S3Store, events: Events
) -> None:
    bad_day.inject(method, *[FAULTS[fault]] * (ATTEMPTS - 1))
    _write(store, "big", LARGE)
    assert calm.get("big") == LARGE
    assert [event for event, _ in events.seen] == ["storage_retried"] * (ATTEMPTS - 1)
    assert _uploads(calm) == []


def test_a_part_whose_answer_was_lost_is_sent_again(bad_day: BadDay, store: S3Store, calm: S3Store) -> None:
    bad_day.inject("PUT", losing_the_answer, losing_the_answer)
    _write(store, "big", LARGE)
    assert calm.get("big") == LARGE
    assert [exchange.method for exchange in bad_day.exchanges].count("PUT") == 5


def test_a_small_object_is_one_request(bad_day: BadDay, store: S3Store, calm: S3Store) -> None:
    bad_day.inject("PUT", losing_the_answer)
    _write(store, "small", b"few")
    assert calm.get("small") == b"few"
    assert [exchange.method for exchange in bad_day.exchanges] == ["PUT", "PUT"]


def _completing(fault: Fault) -> list[Fault]:
    """Of the POSTs the second one completes the upload."""
    return [lambda handler: handler.answer(*handler.ask()), fault]


def test_an_upload_whose_completion_got_no_answer_is_recognised(
    bad_day: BadDay, store: S3Store, calm: S3Store, events: Events
) -> None:
    bad_day.inject("POST", *_completing(losing_the_answer))
    _write(store, "big", LARGE)
    assert calm.get("big") == LARGE
    assert [event for event, _ in events.seen] == ["storage_retried"]


@pytest.mark.parametrize("there", [None, b"theirs"])
def test_an_upload_that_somebody_aborted_is_an_error(
    there: bytes | None, bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    if there is not None:
        calm.put("big", there)
    bad_day.inject("POST", *_completing(refusing(404, "NoSuchUpload")))
    with pytest.raises(StorageError, match=rf"put {store.uri}big: the upload was aborted from outside"):
        _write(store, "big", LARGE)
    assert [calm.get(info.key) for info in calm.list()] == ([there] if there else [])


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_upload_that_is_given_up_leaves_no_parts(
    method: str, bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    faults = [refusing(503, "SlowDown")] * 20
    bad_day.inject(method, *(faults if method == "PUT" else _completing(faults[0]) + faults))
    with pytest.raises(StorageUnavailable, match=rf"put {store.uri}big: given up after 4 attempts"):
        _write(store, "big", LARGE)
    assert _uploads(calm) == []
    assert calm.head("big") is None


@pytest.mark.parametrize("data", [b"few", LARGE])
def test_an_upload_that_is_denied_is_denied_at_once(
    data: bytes, bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    bad_day.inject("PUT", *[refusing(403, "AccessDenied")] * 20)
    with pytest.raises(AccessDenied, match=r"Allow s3:PutObject"):
        _write(store, "big", data)
    assert [exchange.method for exchange in bad_day.exchanges].count("PUT") == 1
    assert _uploads(calm) == []


def test_an_upload_that_cannot_be_aborted_is_said_so_and_the_reason_is_raised(
    bad_day: BadDay, store: S3Store, calm: S3Store, events: Events
) -> None:
    bad_day.inject("DELETE", *[refusing(403, "AccessDenied")] * 20)
    with pytest.raises(ZeroDivisionError):
        _begin_and_fail(store, "big")
    ((event, fields),) = events.seen
    assert event == "upload_not_aborted"
    assert fields["call"] == f"put {store.uri}big"
    assert "s3:AbortMultipartUpload" in str(fields["error"])
    (left,) = _uploads(calm)
    calm._connection.client.abort_multipart_upload(Bucket=BUCKET, Key=left, UploadId=fields["upload"])


def test_parts_are_sent_while_the_next_one_fills_up(bad_day: BadDay, store: S3Store, events: Events) -> None:
    going_on = threading.Event()

    def waiting(handler: Handler) -> None:
        if going_on.wait(20):
            handler.answer(*handler.ask())
        else:
            handler.reset()

    bad_day.inject("PUT", waiting)
    with store.writer("big") as writer:
        writer.write(bytes(8 << 20))
        writer.write(bytes(7 << 20))
        going_on.set()
    assert [exchange.method for exchange in bad_day.exchanges] == ["POST", "PUT", "PUT", "POST"]
    assert events.seen == []


# --- downloads that break off --------------------------------------------------------------------------------------

CONTENT = bytes(range(256)) * 400
keys = pytest.mark.parametrize("key", ["plain", "not//plain"])


def _ranges(bad_day: BadDay) -> list[str | None]:
    return [exchange.headers.get("range") for exchange in bad_day.exchanges if exchange.method == "GET"]


@keys
def test_a_download_that_breaks_off_goes_on_where_it_stopped(
    key: str, bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    info = calm.put(key, CONTENT)
    bad_day.inject("GET", cutting(45_000), cutting(25_000))
    with store.open(key) as reader:
        read = b"".join(iter(lambda: reader.read(7_001), b""))
    assert read == CONTENT
    first, *resumed = [exchange.headers for exchange in bad_day.exchanges]
    assert "range" not in first
    assert [headers["if-match"] for headers in resumed] == [f'"{info.etag}"'] * 2
    starts = [int(headers["range"].removeprefix("bytes=").removesuffix("-")) for headers in resumed]
    assert 0 < starts[0] <= 45_000
    assert starts[0] < starts[1] <= 70_000


@keys
def test_a_resumed_download_that_ends_early_is_resumed_again(
    key: str, bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    calm.put(key, CONTENT)
    bad_day.inject("GET", cutting(30_000), ending_early(20_000))
    assert _read(store, key) == CONTENT
    assert len(_ranges(bad_day)) == 3


def test_where_nobody_answers_the_error_names_the_endpoint_and_what_chose_it(monkeypatch: pytest.MonkeyPatch) -> None:
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
        said
        + "In the job and the sweeper `retries` of the source is the limit of attempts, elsewhere AWS_MAX_ATTEMPTS."
    )


@keys
def test_each_piece_of_progress_renews_the_attempts(key: str, bad_day: BadDay, store: S3Store, calm: S3Store) -> None:
    calm.put(key, CONTENT)
    bad_day.inject("GET", *[cutting(10_000)] * 9)
    assert _read(store, key) == CONTENT
    assert len(_ranges(bad_day)) > 2 * ATTEMPTS


@keys
def test_a_download_without_progress_is_given_up(key: str, bad_day: BadDay, store: S3Store, calm: S3Store) -> None:
    calm.put(key, CONTENT)
    bad_day.inject("GET", cutting(30_000), *[cutting(0)] * 20)
    with store.open(key) as reader, pytest.raises(StorageUnavailable, match=rf"get {store.uri}{key}: given up after 4"):
        reader.read()


@keys
def test_an_object_that_changes_during_a_broken_download_is_an_error(
    key: str, bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    calm.put(key, CONTENT)
    bad_day.inject("GET", cutting(30_000, then=lambda: calm.put(key, CONTENT[::-1])))
    with store.open(key) as reader, pytest.raises(StorageError, match="overwritten while it was read"):
        reader.read()


@keys
def test_an_object_that_is_deleted_during_a_broken_download_is_an_error(
    key: str, bad_day: BadDay, store: S3Store, calm: S3Store
) -> None:
    calm.put(key, CONTENT)
    bad_day.inject("GET", cutting(30_000, then=lambda: calm.delete([key])))
    with store.open(key) as reader, pytest.raises(NotFound, match=key):
        reader.read()


def test_a_broken_answer_to_get_or_list_is_asked_for_again(bad_day: BadDay, store: S3Store, calm: S3Store) -> None:
    calm.put("k", CONTENT)
    bad_day.inject("GET", cutting(30_000), cutting(0))
    assert store.get("k") == CONTENT
    bad_day.inject("GET", cutting(200), cutting(0))
    assert [info.key for info in store.list()] == ["k"]


def test_a_folder_before_the_start_is_left_out_even_if_s3_names_it(
    bad_day: BadDay, store: S3Store, prefix: str
) -> None:
    folders = "".join(f"<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>" for name in "ab")
    listing = f"<ListBucketResult><IsTruncated>false</IsTruncated>{folders}</ListBucketResult>"
    bad_day.inject("GET", saying(200, listing.encode()))
    assert list(store.list_folders(start_after="a/5")) == ["b/"]


def test_a_deletion_that_is_not_confirmed_is_repeated(bad_day: BadDay, store: S3Store, calm: S3Store) -> None:
    calm.put("k", b"")
    bad_day.inject("POST", saying(200, b""), cutting(0))
    store.delete(["k", "k"])
    assert [exchange.status for exchange in bad_day.exchanges] == [None, 200, 200]
    assert calm.head("k") is None


# --- who asks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "agent"),
    [("plain", "object_store"), ("a//b", "Botocore"), ("/a", "Botocore"), ("tab\t", "Botocore")],
    ids=ascii,
)
def test_objects_are_read_by_obstore_unless_it_cannot_name_them(
    key: str, agent: str, bad_day: BadDay, prefix: str, store: S3Store
) -> None:
    store.put(key, b"there")
    bad_day.inject("GET")
    assert _read(store, key) == b"there"
    assert [exchange.headers["user-agent"].partition("/")[0] for exchange in bad_day.exchanges] == [agent]


def test_obstore_signs_with_the_credentials_of_boto3(
    bad_day: BadDay, calm: S3Store, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm.put("k", b"there")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIATEMPORARY")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-session-token")
    assert _read(store, "k") == b"there"
    (exchange,) = bad_day.exchanges
    assert exchange.headers["user-agent"].startswith("object_store")
    assert "Credential=ASIATEMPORARY/" in exchange.headers["authorization"]
    assert exchange.headers["x-amz-security-token"] == "a-session-token"


@pytest.mark.parametrize("read", [lambda store: store.get("gone"), lambda store: _read(store, "gone")])
def test_what_is_gone_is_not_found_also_for_those_who_may_not_list_the_bucket(
    store: S3Store, bad_day: BadDay, read: Callable[[S3Store], object]
) -> None:
    store.put("gone but not this", b"there")
    bad_day.inject("GET", *[refusing(403, "AccessDenied")] * (2 if "_read" in read.__code__.co_names else 1))
    with pytest.raises(NotFound):
        read(store)
    bad_day.inject("HEAD", refusing(403, "AccessDenied"))
    assert store.head("gone") is None


def test_what_is_there_and_denied_stays_denied(store: S3Store, bad_day: BadDay) -> None:
    store.put("secret", b"there")
    bad_day.inject("GET", refusing(403, "AccessDenied"))
    with pytest.raises(AccessDenied):
        store.get("secret")
    bad_day.inject("HEAD", refusing(403, "AccessDenied"))
    with pytest.raises(AccessDenied):
        store.head("secret")


@pytest.mark.parametrize("read", [lambda store: store.get("k"), lambda store: _read(store, "k")], ids=["get", "open"])
def test_a_kms_key_that_is_disabled_is_told_apart_whichever_client_asks(
    store: S3Store, bad_day: BadDay, read: Callable[[S3Store], object]
) -> None:
    store.put("k", b"there")
    bad_day.inject("GET", *[refusing(400, "KMS.DisabledException")] * 2)
    with pytest.raises(KeyUnusable, match=r"KMS\.DisabledException.*Enable the KMS key"):
        read(store)
