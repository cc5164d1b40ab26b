"""S3 for tests: moto's server in this process, with atomic conditional PUTs and support for all keys."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

BUCKET = "blizzard-contract"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


def _locked(method: Callable[..., Any]) -> Callable[..., Any]:
    lock = threading.Lock()

    def one_at_a_time(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return method(*args, **kwargs)

    return one_at_a_time


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """URL of a running S3 with an empty bucket BUCKET; credentials for it are in the environment."""
    # Imported here: most tests need no S3, and moto takes a second.
    from moto.moto_server.utilities import RegexConverter
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    from infra.local.moto.patches.s3 import match_across_lines

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        # moto checks for the key and then writes: without a lock two writers can both succeed.
        patch.setattr(S3Response, "put_object", _locked(S3Response.put_object))
        patch.setattr(RegexConverter, "__init__", match_across_lines(RegexConverter.__init__))
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield _with_bucket(f"http://{host}:{port}")
        finally:
            server.stop()


def _with_bucket(endpoint: str) -> str:
    import boto3  # type: ignore[import-untyped]

    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    return endpoint
