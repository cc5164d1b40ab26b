"""An S3 store behind a proxy that injects faults."""

import pytest

from blizzard.storage.s3 import S3Settings, S3Store
from tests.contract.s3_faults.faults import ATTEMPTS, Events
from tests.fixtures_faulty_s3 import (
    FaultyS3,
)
from tests.fixtures_s3 import BUCKET


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"faults/{abs(hash(request.node.name)):x}/"


@pytest.fixture
def impatient(faulty_s3: FaultyS3) -> S3Settings:
    return S3Settings(
        faulty_s3.endpoint,
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
    """The same objects, without the proxy."""
    return S3Store(BUCKET, prefix, S3Settings(s3_endpoint, "us-east-1"))
