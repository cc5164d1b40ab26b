"""Makes the archive of a lake as one version leaves it: `python tests/upgrade/make.py ARCHIVE [random]`, from a
checkout of it.

It uses only the command of that checkout's job, so it also runs in other versions. The lake has two tables, enough
commits for a Delta checkpoint, dead letters of files and of records, an overwritten file, a file of which only a part
is in the table, and unconsumed segments. With `random` it has files with random names instead, in folders (`events`)
and flat (`notes`).
"""

import gzip
import io
import json
import os
import random
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3  # type: ignore[import-untyped]
from moto.server import ThreadedMotoServer

SOURCE = "landing"
LAKE = "lake"
CONFIG = Path(__file__).with_name("pipelines.yaml")
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "eu-west-1",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
LARGE_RECORDS = 3_000


def record(name: str, n: int = 1, **more: object) -> str:
    return json.dumps({"id": name, "n": n, **more})


def large_file() -> bytes:
    """Three batches take a part of it each, of at least a MiB."""
    return "".join(
        f"{record(f'large-{number:05}', number, note='x' * 900)}\n" for number in range(LARGE_RECORDS)
    ).encode()


class Landing:
    def __init__(self, client: Any) -> None:
        self._client = client

    def put(self, key: str, *lines: str, cut_bytes: int = 0) -> None:
        body = "".join(f"{line}\n" for line in lines).encode()
        body = gzip.compress(body, mtime=0) if key.endswith(".gz") else body
        self._client.put_object(Bucket=SOURCE, Key=key, Body=body[: len(body) - cut_bytes])

    def put_bytes(self, key: str, body: bytes) -> None:
        self._client.put_object(Bucket=SOURCE, Key=key, Body=body)


def run(*more: str) -> None:
    command = [sys.executable, "-m", "spark_job.main", "--config", str(CONFIG), "--once", "--sweep", "--jars", "jars"]
    done = subprocess.run([*command, *more], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    if done.returncode not in (0, 130):
        raise SystemExit(f"the job ended with {done.returncode}")


def land_and_ingest(landing: Landing) -> None:
    for number in range(24):
        day = 1 + number // 8
        landing.put(
            f"events/date=2026-01-0{day}/{number:04}.ndjson.gz", *(record(f"{number}-{row}", row) for row in range(5))
        )
    for number in range(3):
        landing.put(f"notes/{number}.txt", f"note {number}", "", f"another {number}")
    run()
    landing.put("events/date=2026-01-03/0100.ndjson.gz", record("lost with its file"), cut_bytes=6)
    landing.put(
        "events/date=2026-01-03/0101.ndjson.gz", record("good"), "{broken", '{"n": 1}', '{"id": "exponent", "n": 1e2}'
    )
    landing.put("events/date=2026-01-01/0001.ndjson.gz", record("overwritten"))
    run()
    landing.put_bytes("events/date=2026-01-04/0200-large.ndjson", large_file())
    landing.put("events/date=2026-01-04/0300.ndjson.gz", record("announced"))
    landing.put("events/date=2026-01-04/0301.ndjson.gz", record("announced, too"))
    landing.put("notes/4.txt", "announced")
    run("--max-secs", "0.5", "--pipeline", "events")


def land_random_names(landing: Landing) -> None:
    rng = random.Random(18)
    for batch in range(3):
        for number in range(batch * 8, batch * 8 + 8):
            records = [record(f"{number}-{row}", row) for row in range(3)]
            landing.put(f"events/date=2026-01-0{1 + number % 3}/{_random_name(rng)}.ndjson.gz", *records)
        for number in range(batch * 2, batch * 2 + 2):
            landing.put(f"notes/{_random_name(rng)}.txt", f"note {number}", f"another {number}")
        run()


def _random_name(rng: random.Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


def archive(client: Any, target: Path) -> None:
    with tarfile.open(target, "w:gz", compresslevel=9) as tar:
        for bucket in (SOURCE, LAKE):
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
                for found in page.get("Contents", ()):
                    body = client.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
                    entry = tarfile.TarInfo(f"{bucket}/{found['Key']}")
                    entry.size = len(body)
                    tar.addfile(entry, io.BytesIO(body))


def main(target: Path, land: Callable[[Landing], None]) -> None:
    os.environ.update(CREDENTIALS)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
        client = boto3.client("s3")
        for bucket in (SOURCE, LAKE):
            client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        land(Landing(client))
        archive(client, target)
    finally:
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), land_random_names if sys.argv[2:] == ["random"] else land_and_ingest)
