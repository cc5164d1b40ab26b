"""Single requests that S3 throttles, refuses or leaves without a response."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from blizzard.errors import AccessDenied, StorageUnavailable
from blizzard.storage.retry import Retry
from blizzard.storage.s3 import S3Settings, S3Store
from tests.contract.s3_faults.faults import ATTEMPTS, FAULTS, Events, read_all
from tests.fixtures_faulty_s3 import (
    FaultyS3,
    refusing,
    stalling,
)
from tests.fixtures_s3 import BUCKET

OPERATIONS: dict[str, tuple[str, Callable[[S3Store], object], object]] = {
    "list": ("GET", lambda store: [info.key for info in store.list("k")], ["k", "k2/below"]),
    "list_folders": ("GET", lambda store: list(store.list_folders("k")), ["k2/"]),
    "head": ("HEAD", lambda store: (info := store.head("k")) and info.size, 5),
    "get": ("GET", lambda store: store.get("k"), b"there"),
    "open": ("GET", lambda store: read_all(store, "k"), b"there"),
    "put": ("PUT", lambda store: store.put("k", b"again").size, 5),
    "create": ("PUT", lambda store: store.create("new", b"new").size, 3),
    "delete": ("POST", lambda store: store.delete(["k"]), None),
}
operations = pytest.mark.parametrize("operation", OPERATIONS)


@operations
@pytest.mark.parametrize("fault", FAULTS)
def test_an_operation_succeeds_after_faults_within_the_limit(
    operation: str, fault: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store, events: Events
) -> None:
    calm.put("k", b"there")
    calm.put("k2/below", b"")
    method, call, wanted = OPERATIONS[operation]
    faulty_s3.inject(method, *[FAULTS[fault]] * (ATTEMPTS - 1))
    assert call(store) == wanted
    assert faulty_s3.faults == []
    assert [event for event, _ in events.seen] == ["storage_retried"] * (ATTEMPTS - 1)


@operations
def test_an_operation_without_a_response_is_retried(
    operation: str, faulty_s3: FaultyS3, impatient: S3Settings, prefix: str, calm: S3Store
) -> None:
    calm.put("k", b"there")
    calm.put("k2/below", b"")
    method, call, wanted = OPERATIONS[operation]
    patient = replace(impatient, read_timeout_secs=0.5, max_attempts=10 * ATTEMPTS)  # good answers may be as late
    faulty_s3.inject(method, stalling)
    assert call(S3Store(BUCKET, prefix, patient)) == wanted
    assert faulty_s3.faults == []


@operations
def test_beyond_the_limit_the_error_names_the_operation_the_key_the_attempts_and_the_last_failure(
    operation: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store
) -> None:
    calm.put("k", b"there")
    method, call, _ = OPERATIONS[operation]
    faulty_s3.inject(method, *[refusing(503, "SlowDown")] * 20)
    with pytest.raises(StorageUnavailable) as raised:
        call(store)
    verb = {"open": "get", "list_folders": "list"}.get(operation, operation)
    key = "new" if operation == "create" else "k"
    said = "503: Service Unavailable" if operation == "head" else "503 SlowDown: as injected"
    assert str(raised.value).startswith(f"{verb} {store.uri}{key}")
    assert f"given up after 4 attempts, the last one failed with: S3 answered {said}" in str(raised.value)
    assert len(faulty_s3.exchanges) == ATTEMPTS


@operations
def test_a_permanent_refusal_is_not_retried(
    operation: str, faulty_s3: FaultyS3, store: S3Store, calm: S3Store, events: Events
) -> None:
    calm.put("k", b"there")
    method, call, _ = OPERATIONS[operation]
    faulty_s3.inject(method, *[refusing(403, "AccessDenied")] * 20)
    with pytest.raises(AccessDenied, match=r"Allow s3:"):
        call(store)
    assert events.seen == []


def test_the_backoff_grows_with_jitter_up_to_its_limit() -> None:
    waits = [[Retry(9, 1, 20)._backoff_secs(failed) for _ in range(200)] for failed in range(1, 9)]
    for at, ceiling in enumerate([1, 2, 4, 8, 16, 20, 20, 20]):
        assert ceiling / 2 <= min(waits[at]) < ceiling * 0.6
        assert ceiling * 0.9 < max(waits[at]) <= ceiling
