"""The stores that share one contract: in memory, in a local directory, on S3 as moto simulates it, on a server."""

import itertools
import os
import time

import pytest

from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from blizzard.storage.s3 import S3Settings, S3Store
from tests.contract.object_store.stores import NewStore
from tests.fixtures_s3 import BUCKET


@pytest.fixture(scope="module", params=["memory", "local", "s3", "versitygw"])
def new_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NewStore:
    """Makes a store that is still empty, each time it is called."""
    if request.param == "memory":
        return lambda: MemoryStore(time.time)
    if request.param == "local":
        return lambda: LocalStore(tmp_path_factory.mktemp("store"))
    # With retries: moto answers 500 when an object is overwritten while it sends it.
    if request.param == "s3":
        endpoint = request.getfixturevalue("s3_endpoint")
    else:
        endpoint = request.getfixturevalue("versitygw").endpoint
    s3_settings = S3Settings(endpoint, "us-east-1", first_backoff_secs=0.01, page_size=3)
    numbers = itertools.count()  # below a prefix for each module, since all modules use the same bucket
    return lambda: S3Store(BUCKET, f"raw events/{request.path.stem}/{next(numbers)}/", s3_settings)


@pytest.fixture
def store(new_store: NewStore) -> ObjectStore:
    return new_store()


@pytest.fixture
def s3(s3_endpoint: str) -> S3Store:
    return S3Store(BUCKET, f"s3-only/{os.urandom(8).hex()}/", S3Settings(s3_endpoint, "us-east-1", max_attempts=1))
