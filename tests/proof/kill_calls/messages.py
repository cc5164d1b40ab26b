"""What S3 would say of a file that arrives, as the collector's queue has it."""

import json
import time

from tests.proof.kill_calls.processes import BUCKET, PREFIX


def event_of(path: str, size: int, etag: str, number: int) -> str:
    """A message of one event; `number` says which came first."""
    moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}.000Z"
    described = {"key": PREFIX + path, "size": size, "eTag": etag, "sequencer": f"{number:016X}"}
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventTime": moment,
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": BUCKET}, "object": described},
    }
    return json.dumps({"Records": [record]})


def file_of(body: str) -> tuple[str, str]:
    """Path and etag."""
    described = json.loads(body)["Records"][0]["s3"]["object"]
    return described["key"].removeprefix(PREFIX), described["eTag"]
