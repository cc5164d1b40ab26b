"""The requests of a commit to S3: each one adds its latency and its price."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.s3_stand_in import CREDENTIALS
from benchmarks.s3_stand_in.answers import Answer, Request, answer
from benchmarks.s3_stand_in.http import Connection
from benchmarks.s3_stand_in.objects import Bucket
from blizzard.config.spark_settings import CHECKSUM_FILES
from blizzard.errors import LostRace
from blizzard.storage.s3 import S3Settings, S3Store
from spark_job.engines.spark.checksum_files import unset_missing_classes
from spark_job.engines.spark.java_references import JavaReferences
from spark_job.engines.spark.table import SparkTable
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.table_source import TableSource

pytestmark = pytest.mark.spark

BUCKET = "requests"
LOG = "table/_delta_log/"
APP_ID = "blizzard:events:landing"


@dataclass
class Lake:
    """A bucket, and the requests to it from Hadoop's clients."""

    bucket: Bucket
    asked: list[str] = field(default_factory=list)
    refused: str = ""
    """Keys that end so cannot be written."""
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
        if self.refused and request.method == "PUT" and request.target.endswith(self.refused):
            return Answer(403)
        return answer({BUCKET: self.bucket}, request)

    def serve(self) -> None:
        """Until `loop` is stopped."""
        make = partial(Connection, self.answer, 0.0)
        server = self.loop.run_until_complete(self.loop.create_server(make, sock=self.listener))
        self.loop.run_forever()
        server.close()
        self.loop.close()

    def names(self, end: str) -> list[str]:
        return [key.removeprefix(LOG).lstrip("0") for key in self.bucket.objects if key.endswith(end)]


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession], monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    lake = Lake(Bucket(tmp_path))
    server = threading.Thread(target=lake.serve, daemon=True)
    server.start()
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
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
        spark().conf.set(name, value)
    yield lake
    for name in settings:
        spark().conf.unset(name)
    lake.loop.call_soon_threadsafe(lake.loop.stop)
    server.join(30)
    assert not server.is_alive()


@pytest.fixture
def table(lake: Lake, spark: Callable[[], SparkSession]) -> DeltaSourceTable:
    source = TableSource(f"s3a://{BUCKET}/table", "events:landing", APP_ID, "id STRING", {}, ())
    store = S3Store(BUCKET, "table/", S3Settings(lake.endpoint, "us-east-1"))
    return DeltaSourceTable(SparkTable(spark, source, JavaReferences()), source, store=store)


def commit(table: DeltaSourceTable, sequence: int) -> None:
    table.append(None, sequence=sequence, user_metadata=f"state {sequence}")


def test_a_commit_is_four_requests(lake: Lake, table: DeltaSourceTable) -> None:
    for sequence in range(3):
        lake.asked.clear()
        commit(table, sequence)
    assert lake.asked == ["LIST", "PUT 2.json", "HEAD 2.json", "PUT 2.crc"]
    assert lake.names(".crc") == [".crc", "1.crc", "2.crc"]
    assert lake.names(".tmp") == []


def test_the_next_process_reads_the_checksums(
    lake: Lake, table: DeltaSourceTable, spark: Callable[[], SparkSession]
) -> None:
    for sequence in range(2):
        commit(table, sequence)
    forget_the_log(spark())
    lake.asked.clear()
    with pytest.raises(LostRace):
        commit(table, 1)
    assert [what for what in lake.asked if "GET" in what] == ["GET 1.crc"]


def forget_the_log(spark: SparkSession) -> None:
    """As in a new process, which has nothing in memory."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def test_a_commit_succeeds_though_its_checksum_cannot_be_written(
    lake: Lake, table: DeltaSourceTable, spark: Callable[[], SparkSession]
) -> None:
    commit(table, 0)
    lake.refused = ".crc"
    commit(table, 1)
    lake.refused = ""
    commit(table, 2)
    assert lake.names("0.json") + lake.names("1.json") + lake.names("2.json") == [".json", "1.json", "2.json"]
    assert "1.crc" not in lake.names(".crc")
    forget_the_log(spark())
    with pytest.raises(LostRace):
        commit(table, 2)


def test_a_setting_with_a_class_that_this_spark_lacks_is_left_out(spark: Callable[[], SparkSession]) -> None:
    ((setting, ours),) = CHECKSUM_FILES.items()
    assert spark().conf.get(setting) == ours
    events: list[tuple[str, str]] = []

    def log(event: str, /, **fields: object) -> None:
        events.append((event, str(fields["setting"])))

    session, elsewhere = spark().newSession(), "io.github.blizzard.logstore.OfAnotherVersion"
    session.conf.set(setting, elsewhere)
    unset_missing_classes(session, CHECKSUM_FILES, log)
    assert session.conf.get(setting) == elsewhere  # somebody's own
    unset_missing_classes(session, {setting: elsewhere}, log)
    assert session.conf.get(setting, "none") == "none"
    unset_missing_classes(spark(), CHECKSUM_FILES, log)
    assert spark().conf.get(setting) == ours
    assert events == [("setting_left_out", setting)]
