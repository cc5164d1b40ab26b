"""A bucket of the S3 stand-in in this process, which Spark's session and boto3 both reach, and its requests."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.s3_stand_in.answers import Answer, Request, answer
from benchmarks.s3_stand_in.http import Connection
from benchmarks.s3_stand_in.objects import Bucket

BUCKET = "requests"
LOG = "table/_delta_log/"


def as_it_is(request: Request) -> Request:
    return request


@dataclass
class S3Lake:
    """`asked`: the requests from Hadoop's clients."""

    bucket: Bucket
    asked: list[str] = field(default_factory=list)
    refuses: Callable[[Request], bool] = lambda request: False
    """These requests are denied."""
    reads: Callable[[Request], Request] = as_it_is
    """What the server takes a request for."""
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def answer(self, request: Request) -> Answer:
        if request.headers.get("user-agent", "").startswith("Hadoop"):
            path, _, query = request.target.partition("?")
            what = "LIST" if "list-type" in query else f"{request.method} {path.rpartition('/')[2].lstrip('0')}"
            self.asked.append(what)
        if self.refuses(request):
            return Answer(403)
        return answer({BUCKET: self.bucket}, self.reads(request))

    def serve(self) -> None:
        """Until `loop` is stopped."""
        make = partial(Connection, self.answer, 0.0)
        server = self.loop.run_until_complete(self.loop.create_server(make, sock=self.listener))
        self.loop.run_forever()
        server.close()
        self.loop.close()

    def names(self, end: str) -> list[str]:
        return [key.removeprefix(LOG).lstrip("0") for key in self.bucket.objects if key.endswith(end)]


@contextmanager
def s3_lake(folder: Path, spark: SparkSession) -> Iterator[S3Lake]:
    lake = S3Lake(Bucket(folder))
    server = threading.Thread(target=lake.serve, daemon=True)
    server.start()
    given = {
        "endpoint": lake.endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "access.key": "local",
        "secret.key": "local-has-no-secrets",
        # Each test has another endpoint.
        "impl.disable.cache": "true",
    }
    settings = {f"fs.s3a.bucket.{BUCKET}.{name}": value for name, value in given.items()}
    settings["fs.s3a.impl.disable.cache"] = settings["fs.s3.impl.disable.cache"] = "true"
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield lake
    for name in settings:
        spark.conf.unset(name)
    lake.loop.call_soon_threadsafe(lake.loop.stop)
    server.join(30)
    assert not server.is_alive()
