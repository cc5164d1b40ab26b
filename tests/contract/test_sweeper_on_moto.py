"""The real sweeper and its wake-ups between real buckets and a real FIFO queue, on the local AWS."""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from blizzard.config.load import parse_config
from blizzard.config.publish import to_published
from blizzard.state.checkpoint import Checkpoint, encode
from functions.collector import handler as collector
from functions.sweeper import handler as sweeper
from infra.local.processes.server_process import LocalAws

WINDOW_SECS = 900
AHEAD_SECS = 30
"""More than a collector and a sweeper take, one after the other."""
EVENT = json.loads((Path(__file__).parents[2] / "events" / "schedule_sweep.json").read_text())
CONFIG = """
pipelines:
  events:
    table_uri: s3://{lake}/events
    sources:
      landing: {{uri: "s3://{landing}/raw-events/", pattern: "**/*.gz", format: text, sweep: {{interval_secs: 0.001}}}}
      gone: {{uri: "s3://gone-{landing}/", format: text}}
"""


class FakeContext:
    """What Lambda tells a function about its call."""

    aws_request_id = function_name = invoked_function_arn = "function"
    memory_limit_in_mb = 256

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@dataclass(frozen=True)
class Deployed:
    s3: Any
    sqs: Any
    landing: str
    lake: str
    queue_url: str

    def sweep(self) -> Any:
        return sweeper.handler(EVENT, cast("Any", FakeContext()))

    def collect(self, key: str) -> Any:
        described = {"key": key, "size": 1, "eTag": "e", "sequencer": "01"}
        record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "eventTime": "2024-01-28T14:00:00.000Z"}
        record |= {"eventVersion": "2.1", "s3": {"bucket": {"name": self.landing}, "object": described}}
        body = json.dumps({"Records": [record]})
        return collector.handler({"Records": [{"messageId": "1", "body": body}]}, cast("Any", FakeContext()))

    def entries(self) -> list[str]:
        listed = self.s3.list_objects_v2(Bucket=self.lake, Prefix="events/_blizzard/events_landing/pending/")
        bodies = [
            self.s3.get_object(Bucket=self.lake, Key=found["Key"])["Body"] for found in listed.get("Contents", [])
        ]
        return [entry["path"] for body in bodies for entry in json.loads(body.read())["entries"]]

    def wakes(self) -> list[tuple[Any, str]]:
        """Bodies and groups of the messages in the queue."""
        found = self.sqs.receive_message(
            QueueUrl=self.queue_url, MaxNumberOfMessages=10, AttributeNames=["All"], WaitTimeSeconds=2
        )
        return [(json.loads(m["Body"]), m["Attributes"]["MessageGroupId"]) for m in found.get("Messages", [])]


@pytest.fixture
def deployed(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    suffix = uuid.uuid4().hex[:8]
    s3, sqs = aws.client("s3"), aws.client("sqs")
    landing, lake = f"landing-{suffix}", f"lake-{suffix}"
    for bucket in (landing, lake):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    queue = sqs.create_queue(QueueName=f"wake-{suffix}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    config = to_published(parse_config(CONFIG.format(landing=landing, lake=lake), {}))
    s3.put_object(Bucket=lake, Key="config.json", Body=config.encode())
    settings = {"BLIZZARD_CONFIG": f"s3://{lake}/config.json", "BLIZZARD_WAKE_QUEUE_URL": queue}
    for name, value in {**aws.environment(), **settings, "BLIZZARD_WAKE_WINDOW_SECS": str(WINDOW_SECS)}.items():
        monkeypatch.setenv(name, value)
    sweeper.sweep_round.cache_clear()
    collector.collector.cache_clear()
    yield Deployed(s3, sqs, landing, lake, queue)
    sweeper.sweep_round.cache_clear()
    collector.collector.cache_clear()


def test_a_file_without_an_event_is_found_and_its_pipeline_is_woken(deployed: Deployed) -> None:
    deployed.s3.put_object(Bucket=deployed.landing, Key="raw-events/d=1/a.gz", Body=b"x")
    deployed.s3.put_object(Bucket=deployed.landing, Key="raw-events/readme.txt", Body=b"x")
    counts = deployed.sweep()
    assert (counts["FilesFound"], counts["SweepsFailed"]) == (1, 1), "the other source's bucket is not there"
    assert deployed.entries() == ["d=1/a.gz"]
    assert deployed.wakes() == [({"pipeline": "events"}, "events")]
    assert deployed.sweep()["FilesFound"] == 0
    report = deployed.s3.get_object(Bucket=deployed.lake, Key="events/_blizzard/events_landing_sweep.json")
    assert json.loads(report["Body"].read())["watermark"]["complete"] is True


def test_wake_ups_of_collector_and_sweeper_are_delivered_once_in_a_window(deployed: Deployed) -> None:
    left_secs = WINDOW_SECS - time.time() % WINDOW_SECS
    if left_secs < AHEAD_SECS:
        time.sleep(left_secs)  # until the next window begins
    assert deployed.collect("raw-events/a.gz") == {"batchItemFailures": []}
    deployed.s3.put_object(Bucket=deployed.landing, Key="raw-events/b.gz", Body=b"x")
    assert deployed.sweep()["WakesFailed"] == 0
    assert deployed.entries() == ["a.gz", "b.gz"]
    assert deployed.wakes() == [({"pipeline": "events"}, "events")]


def test_a_missing_wake_queue_loses_no_event(deployed: Deployed) -> None:
    deployed.sqs.delete_queue(QueueUrl=deployed.queue_url)
    assert deployed.collect("raw-events/a.gz") == {"batchItemFailures": []}
    assert deployed.entries() == ["a.gz"]


def test_a_table_that_cannot_be_registered_is_counted_and_the_next_container_tries_again(
    deployed: Deployed, aws: LocalAws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = f"d{uuid.uuid4().hex}"
    monkeypatch.setenv("BLIZZARD_GLUE_DATABASE", database)
    committed = encode(Checkpoint(pipeline="events", source="landing", sequence=0))
    key = "events/_blizzard/events_landing_checkpoint.json"
    deployed.s3.put_object(Bucket=deployed.lake, Key=key, Body=committed.encode())
    assert deployed.sweep()["SweepsFailed"] == 1, "the other source's bucket is not there"
    assert '"TablesNotRegistered":[1' in capsys.readouterr().out.replace(" ", "")
    aws.client("glue").create_database(DatabaseInput={"Name": database})
    sweeper.sweep_round.cache_clear()
    deployed.sweep()
    assert "TablesNotRegistered" not in capsys.readouterr().out
    [table] = aws.client("glue").get_tables(DatabaseName=database)["TableList"]
    assert table["StorageDescriptor"]["Location"] == f"s3://{deployed.lake}/events"
