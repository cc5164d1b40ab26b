"""Conditional writes and multipart uploads whose requests fail."""

import threading

import pytest

from blizzard.errors import AccessDenied, AlreadyExists, StorageError, StorageUnavailable
from blizzard.storage.base import ObjectStore
from blizzard.storage.s3 import S3Store
from tests.contract.s3_faults.faults import ATTEMPTS, FAULTS, Events
from tests.fixtures_faulty_s3 import (
    Fault,
    FaultyS3,
    Handler,
    losing_the_answer,
    refusing,
)
from tests.fixtures_s3 import BUCKET


def test_a_create_whose_response_was_lost_succeeds_and_writes_once(
    faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    faulty_s3.inject("PUT", losing_the_answer)
    info = store.create("segment", b"mine")
    assert [exchange.status for exchange in faulty_s3.exchanges if exchange.method == "PUT"] == [200, 412]
    assert calm.get("segment") == b"mine"
    assert info == calm.head("segment")


def test_a_create_whose_response_was_lost_every_time_is_recognised(faulty_s3: FaultyS3, store: S3Store) -> None:
    faulty_s3.inject("PUT", *[losing_the_answer] * (ATTEMPTS - 1))
    store.create("segment", b"mine")
    statuses = [exchange.status for exchange in faulty_s3.exchanges if exchange.method == "PUT"]
    assert statuses == [200, 412, 412, 412]


def test_a_second_create_is_refused_even_if_its_response_was_lost(
    faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    calm.create("segment", b"theirs")
    faulty_s3.inject("PUT", losing_the_answer)
    with pytest.raises(AlreadyExists, match="segment: another writer"):
        store.create("segment", b"mine")
    assert calm.get("segment") == b"theirs"


def test_a_create_that_conflicts_with_a_concurrent_one_is_retried(
    faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    faulty_s3.inject("PUT", *[refusing(409, "ConditionalRequestConflict")] * 3)
    store.create("segment", b"mine")
    assert calm.get("segment") == b"mine"


def test_a_put_whose_response_was_lost_is_retried(faulty_s3: FaultyS3, store: S3Store, calm: S3Store) -> None:
    faulty_s3.inject("PUT", losing_the_answer)
    store.put("copy", b"mine")
    assert calm.get("copy") == b"mine"


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
def test_an_upload_succeeds_after_faults_of_each_step(
    fault: str, method: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store, events: Events
) -> None:
    faulty_s3.inject(method, *[FAULTS[fault]] * (ATTEMPTS - 1))
    _write(store, "big", LARGE)
    assert calm.get("big") == LARGE
    assert [event for event, _ in events.seen] == ["storage_retried"] * (ATTEMPTS - 1)
    assert _uploads(calm) == []


def test_a_part_whose_response_was_lost_is_sent_again(faulty_s3: FaultyS3, store: S3Store, calm: S3Store) -> None:
    faulty_s3.inject("PUT", losing_the_answer, losing_the_answer)
    _write(store, "big", LARGE)
    assert calm.get("big") == LARGE
    assert [exchange.method for exchange in faulty_s3.exchanges].count("PUT") == 5


def test_a_small_object_is_one_request(faulty_s3: FaultyS3, store: S3Store, calm: S3Store) -> None:
    faulty_s3.inject("PUT", losing_the_answer)
    _write(store, "small", b"few")
    assert calm.get("small") == b"few"
    assert [exchange.method for exchange in faulty_s3.exchanges] == ["PUT", "PUT"]


def _completing(fault: Fault) -> list[Fault]:
    """Of the POSTs the second one completes the upload."""
    return [lambda handler: handler.answer(*handler.ask()), fault]


def test_an_upload_whose_completion_got_no_response_is_recognised(
    faulty_s3: FaultyS3, store: S3Store, calm: S3Store, events: Events
) -> None:
    faulty_s3.inject("POST", *_completing(losing_the_answer))
    _write(store, "big", LARGE)
    assert calm.get("big") == LARGE
    assert [event for event, _ in events.seen] == ["storage_retried"]


@pytest.mark.parametrize("there", [None, b"theirs"])
def test_an_upload_aborted_from_outside_is_an_error(
    there: bytes | None, faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    if there is not None:
        calm.put("big", there)
    faulty_s3.inject("POST", *_completing(refusing(404, "NoSuchUpload")))
    with pytest.raises(StorageError, match=rf"put {store.uri}big: the upload was aborted from outside"):
        _write(store, "big", LARGE)
    assert [calm.get(info.key) for info in calm.list()] == ([there] if there else [])


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_abandoned_upload_leaves_no_parts(method: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store) -> None:
    faults = [refusing(503, "SlowDown")] * 20
    faulty_s3.inject(method, *(faults if method == "PUT" else _completing(faults[0]) + faults))
    with pytest.raises(StorageUnavailable, match=rf"put {store.uri}big: given up after 4 attempts"):
        _write(store, "big", LARGE)
    assert _uploads(calm) == []
    assert calm.head("big") is None


@pytest.mark.parametrize("data", [b"few", LARGE])
def test_a_denied_upload_fails_at_once(data: bytes, faulty_s3: FaultyS3, store: S3Store, calm: S3Store) -> None:
    faulty_s3.inject("PUT", *[refusing(403, "AccessDenied")] * 20)
    with pytest.raises(AccessDenied, match=r"Allow s3:PutObject"):
        _write(store, "big", data)
    assert [exchange.method for exchange in faulty_s3.exchanges].count("PUT") == 1
    assert _uploads(calm) == []


def test_an_upload_that_cannot_be_aborted_is_logged_and_the_original_error_is_raised(
    faulty_s3: FaultyS3, store: S3Store, calm: S3Store, events: Events
) -> None:
    faulty_s3.inject("DELETE", *[refusing(403, "AccessDenied")] * 20)
    with pytest.raises(ZeroDivisionError):
        _begin_and_fail(store, "big")
    ((event, fields),) = events.seen
    assert event == "upload_not_aborted"
    assert fields["call"] == f"put {store.uri}big"
    assert "s3:AbortMultipartUpload" in str(fields["error"])
    (left,) = _uploads(calm)
    calm._connection.client.abort_multipart_upload(Bucket=BUCKET, Key=left, UploadId=fields["upload"])


def test_a_part_is_sent_while_the_next_one_is_filled(faulty_s3: FaultyS3, store: S3Store, events: Events) -> None:
    going_on = threading.Event()

    def waiting(handler: Handler) -> None:
        if going_on.wait(20):
            handler.answer(*handler.ask())
        else:
            handler.reset()

    faulty_s3.inject("PUT", waiting)
    with store.writer("big") as writer:
        writer.write(bytes(8 << 20))
        writer.write(bytes(7 << 20))
        going_on.set()
    assert [exchange.method for exchange in faulty_s3.exchanges] == ["POST", "PUT", "PUT", "POST"]
    assert events.seen == []
