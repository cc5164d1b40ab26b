"""A deployment on the local AWS: buckets, queue, collector, configuration, and the real Spark job."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo.reconcile import Reconciliation, read_source, reconcile
from infra.local.functions.poller import LambdaPoller
from infra.local.processes.server_process import LocalAws
from infra.local.stack.minimal_stack import MAX_RECEIVE_COUNT, MinimalStack

CHECKOUT = Path(__file__).resolve().parents[2]
PREFIX = "raw-events/"
COLUMNS = ["id", "timestamp"]
HOSTILE = "date=2026-01-02/a key + 100% é.ndjson.gz"

CONFIG = """
pipelines:
  events:
    table_uri: s3://{lake}/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://{landing}/raw-events/
        pattern: "**/*.ndjson.gz"
        schema: "id STRING NOT NULL, timestamp BIGINT"
        partition_columns: {{date: date}}
        settle_delay_secs: 0
        checkpoint: {{interval_files: 4}}
"""


@dataclass(frozen=True)
class World:
    """One deployment."""

    aws: LocalAws
    stack: MinimalStack
    config: Path
    poller: LambdaPoller

    def put(self, path: str, *lines: str, cut_bytes: int = 0) -> None:
        body = gzip.compress("".join(f"{line}\n" for line in lines).encode())
        key = PREFIX + path
        self.aws.client("s3").put_object(Bucket=self.stack.landing, Key=key, Body=body[: len(body) - cut_bytes])

    def collect(self) -> None:
        """Process all messages of the queue, until failing ones have reached their maximum of receives."""
        for _ in range(MAX_RECEIVE_COUNT + 1):
            while self.poller.poll_once():
                pass

    def run(self, *more: str) -> list[dict[str, Any]]:
        """Run the real job. Returns its log events."""
        words = [sys.executable, "-m", "spark_job.main", "--config", str(self.config), "--once", *more]
        words += ["--jars", str(CHECKOUT / "jars"), "--spark-conf", "spark.driver.memory=1g"]
        words += ["--spark-conf", "spark.driver.extraJavaOptions=-Duser.timezone=UTC -XX:TieredStopAtLevel=1"]
        done = subprocess.run(words, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=False, timeout=400)
        assert done.returncode == 0, done.stdout[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def verdict(self) -> Reconciliation:
        lake = S3Store(self.stack.lake, "events/", S3Settings.from_environment(self.aws.environment()))
        letters = list(DeadLetters(lake, "_blizzard/events_landing", "events:landing").letters())
        options = {**self.aws.environment(), "AWS_ALLOW_HTTP": "true"}
        table = f"s3://{self.stack.lake}/events"
        return reconcile(read_source(self._objects(), "id"), table, options, letters, COLUMNS)

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        s3 = self.aws.client("s3")
        for found in s3.list_objects_v2(Bucket=self.stack.landing, Prefix=PREFIX)["Contents"]:
            body = s3.get_object(Bucket=self.stack.landing, Key=found["Key"])["Body"].read()
            yield found["Key"].removeprefix(PREFIX), body
