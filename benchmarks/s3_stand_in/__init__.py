"""A local S3 that answers quickly enough to be measured against, each time after the latency that is asked for.

It serves folders as buckets to obstore, botocore and S3A: GET, HEAD, PUT, copy, listings, deletions, multipart uploads,
and conditional writes. It looks at no signature. One process, one core; `python -m benchmarks.s3_stand_in --measure`
says how many requests a second that is. What it knows, it holds in memory: whoever else writes into the folders is not
seen.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.resource_monitor import cpu_secs

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
    """One that runs. `environment`: in which clients find it."""

    environment: dict[str, str]
    pid: int

    def cpu_secs(self) -> float:
        """What it has worked so far."""
        return cpu_secs(self.pid)


@contextmanager
def stand_in(buckets: Mapping[str, Path], *, latency_secs: float) -> Iterator[StandIn]:
    """Runs for the length of the block. What lies in the folders is read when it starts."""
    words = [f"{name}={folder}" for name, folder in buckets.items()]
    command = [sys.executable, "-m", "benchmarks.s3_stand_in", "--latency-ms", f"{latency_secs * 1000:g}", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            yield StandIn({**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}, process.pid)
        finally:
            process.terminate()
