"""A fast local S3 for benchmarks, with a configurable latency for each request.

It serves folders as buckets to obstore, botocore and S3A: GET, HEAD, PUT, copy, listings, deletions, multipart uploads,
and conditional writes. It ignores signatures. It is one process on one core; `python -m benchmarks.s3_stand_in
--measure` prints how many requests a second it can answer. Its index is in memory: files that others write into the
folders while it runs are seen after `adopt`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from benchmarks.resource_monitor import cpu_secs
from benchmarks.s3_stand_in.answers import ADOPT, COUNTED
from blizzard.storage.base import ObjectInfo

ROOT = Path(__file__).parents[2]
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local-has-no-secrets",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


@dataclass(frozen=True, slots=True)
class StandIn:
    """A running stand-in. `environment`: variables with which clients find it."""

    environment: dict[str, str]
    pid: int

    def cpu_secs(self) -> float:
        """CPU seconds that it has used so far."""
        return cpu_secs(self.pid)

    def requests(self) -> dict[str, int]:
        """How many it has had so far: GET, HEAD, LIST, PUT (which AWS charges like COPY and POST), DELETE."""
        with urlopen(f"{self.environment['AWS_ENDPOINT_URL']}/?{COUNTED}") as answer:
            found: dict[str, int] = json.loads(answer.read())
        return found


def adopt(endpoint: str, bucket: str, keys: Sequence[str]) -> list[ObjectInfo]:
    """Make files that were put into the folder of a bucket its objects: 20,000 PUTs take a minute of processor time."""
    body = "\n".join(keys).encode()
    with urlopen(Request(f"{endpoint}/{bucket}?{ADOPT}", body, method="POST")) as answer:
        lines = answer.read().decode().splitlines()
    found = (line.split(" ") for line in lines)
    return [ObjectInfo(key, int(size), etag, float(ts)) for key, (size, etag, ts) in zip(keys, found, strict=True)]


@contextmanager
def stand_in(buckets: Mapping[str, Path], *, latency_secs: float) -> Iterator[StandIn]:
    """Runs until the block ends. The folders are read once, at the start."""
    words = [f"{name}={folder}" for name, folder in buckets.items()]
    command = [sys.executable, "-m", "benchmarks.s3_stand_in", "--latency-ms", f"{latency_secs * 1000:g}", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            yield StandIn({**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}, process.pid)
        finally:
            process.terminate()
