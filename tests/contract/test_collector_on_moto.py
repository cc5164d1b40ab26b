"""The real handler between a real bucket, its queue and the pending manifest, on the local AWS."""

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]
from botocore.endpoint import Endpoint  # type: ignore[import-untyped]
from botocore.exceptions import ReadTimeoutError  # type: ignore[import-untyped]

from blizzard.config.load import parse_config
from blizzard.config.publish import to_published
from blizzard.log import silent
from functions.collector import handler as function
from infra.local.functions.poller import LambdaPoller
from infra.local.functions.sqs_event import EventSource
from infra.local.processes.server_process import LocalAws
from infra.local.stack.minimal_stack import MinimalStack, create_stack

CONFIG = """
pipelines:
  events:
    table_uri: s3://{lake}/events
    sources:
      landing:
        uri: s3://{landing}/raw-events/
        pattern: "**/*.ndjson.gz"
        format: ndjson
        schema: "id STRING"
"""


@dataclass(frozen=True)
class Deployed:
    """A landing bucket whose events go to a queue, a lake, and the function between them."""

    s3: Any
    sqs: Any
    stack: MinimalStack
    poller: LambdaPoller

    def put(self, key: str, body: bytes = b"{}") -> str:
        etag: str = self.s3.put_object(Bucket=self.stack.landing, Key=key, Body=body)["ETag"]
        return etag.strip('"')

    def configure(self, lake: str) -> None:
        config = to_published(parse_config(CONFIG.format(landing=self.stack.landing, lake=lake), {}))
        self.s3.put_object(Bucket=self.stack.lake, Key="config.json", Body=config.encode())

    def send(self, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.stack.queue.url, MessageBody=body)

    def left_in_the_queue(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.sqs.get_queue_attributes(QueueUrl=self.stack.queue.url, AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)

    def segments(self) -> dict[str, Any]:
        """What the lake holds, by key."""
        lake = self.stack.lake
        listed = self.s3.list_objects_v2(Bucket=lake, Prefix="events/").get("Contents", [])
        keys = [found["Key"] for found in listed]
        return {key: json.loads(self.s3.get_object(Bucket=lake, Key=key)["Body"].read()) for key in keys}


@pytest.fixture
def deployed(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    """As it is deployed: the queue begins with the test event of its new notification."""
    suffix = uuid.uuid4().hex[:8]
    stack = create_stack(aws, landing=f"landing-{suffix}", lake=f"lake-{suffix}")
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BLIZZARD_CONFIG", f"s3://{stack.lake}/config.json")
    sqs, source = aws.client("sqs"), EventSource(stack.queue.url, stack.queue.arn)
    made = Deployed(aws.client("s3"), sqs, stack, LambdaPoller(sqs, source, function.handler, silent))
    made.configure(stack.lake)
    function.collector.cache_clear()
    yield made
    function.collector.cache_clear()


FIRST = "events/_blizzard/events_landing/pending/00000000000000000000.json"
SECOND = "events/_blizzard/events_landing/pending/00000000000000000001.json"


def test_a_file_that_lands_is_in_the_next_segment(deployed: Deployed) -> None:
    etag = deployed.put("raw-events/date=2024-01-28/a.ndjson.gz", b"four")
    deployed.poller.poll_once()
    [entry] = deployed.segments()[FIRST]["entries"]
    assert (entry["path"], entry["size"], entry["etag"]) == ("date=2024-01-28/a.ndjson.gz", 4, etag)
    assert entry["found_by"] == "event"
    assert deployed.left_in_the_queue() == 0


def test_file_names_arrive_unchanged(deployed: Deployed) -> None:
    names = ["a b", "a+b", "100%", "a%20b", "é", "日本/深", "a&b=c;d", "!-_.*'()"]
    for name in names:
        deployed.put(f"raw-events/{name}.ndjson.gz")
    deployed.poller.poll_once()
    assert {entry["path"] for entry in deployed.segments()[FIRST]["entries"]} == {f"{name}.ndjson.gz" for name in names}


def test_an_overwritten_file_has_its_last_state(deployed: Deployed) -> None:
    etags = [deployed.put("raw-events/a.ndjson.gz", body) for body in (b"one", b"two", b"three")]
    deployed.poller.poll_once()
    [entry] = deployed.segments()[FIRST]["entries"]
    assert entry["etag"] == etags[-1]


def test_each_batch_is_a_separate_segment(deployed: Deployed) -> None:
    deployed.put("raw-events/a.ndjson.gz")
    deployed.poller.poll_once()
    deployed.put("raw-events/b.ndjson.gz")
    deployed.put("raw-events/c.ndjson.gz")
    deployed.poller.poll_once()
    paths = {key: {entry["path"] for entry in segment["entries"]} for key, segment in deployed.segments().items()}
    assert paths == {FIRST: {"a.ndjson.gz"}, SECOND: {"b.ndjson.gz", "c.ndjson.gz"}}


def test_events_of_other_objects_leave_the_queue_without_an_entry(deployed: Deployed) -> None:
    deployed.put("raw-events/readme.txt")
    deployed.put("raw-events/folder/")
    deployed.put("elsewhere/a.ndjson.gz")
    deployed.poller.poll_once()
    assert deployed.left_in_the_queue() == 0
    assert deployed.segments() == {}


def test_the_test_event_that_a_new_notification_sends_is_acknowledged(deployed: Deployed) -> None:
    assert deployed.left_in_the_queue() == 1
    deployed.poller.poll_once()
    assert deployed.left_in_the_queue() == 0
    assert deployed.segments() == {}


def test_a_message_that_is_not_an_s3_event_stays_and_the_others_are_appended(deployed: Deployed) -> None:
    deployed.put("raw-events/a.ndjson.gz")
    deployed.send("hello")
    deployed.poller.poll_once()
    assert len(deployed.segments()[FIRST]["entries"]) == 1
    assert deployed.left_in_the_queue() == 1


def test_a_repeated_event_is_appended_again_and_overwrites_nothing(deployed: Deployed) -> None:
    deployed.put("raw-events/a.ndjson.gz")
    received = deployed.sqs.receive_message(QueueUrl=deployed.stack.queue.url, MaxNumberOfMessages=10)["Messages"]
    for _ in range(2):
        for message in received:
            deployed.send(message["Body"])
        deployed.poller.poll_once()
    first, second = deployed.segments().values()
    assert first["entries"] == second["entries"]
    assert first["writer"] != second["writer"]


def test_messages_stay_in_the_queue_if_the_lake_is_missing(deployed: Deployed) -> None:
    deployed.configure(f"gone-{deployed.stack.lake}")
    deployed.put("raw-events/a.ndjson.gz")
    deployed.poller.poll_once()
    assert deployed.poller.counts.handler_errors == 0
    assert deployed.left_in_the_queue() == 1


def test_without_a_configuration_the_whole_batch_is_delivered_again(deployed: Deployed) -> None:
    deployed.s3.delete_object(Bucket=deployed.stack.lake, Key="config.json")
    deployed.put("raw-events/a.ndjson.gz")
    deployed.poller.poll_once()
    assert deployed.poller.counts.handler_errors == 1
    assert deployed.left_in_the_queue() == 2


@pytest.fixture
def lost_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The first conditional PUT is carried out, but its answer never arrives; gives how many PUTs were sent."""
    send, puts = Endpoint._send, 0

    def losing(self: Any, request: Any) -> AWSResponse:
        nonlocal puts
        answer = send(self, request)
        if request.method == "PUT" and "If-None-Match" in request.headers:
            puts += 1
            if puts == 1:
                raise ReadTimeoutError(endpoint_url=request.url)
        return answer

    monkeypatch.setattr(Endpoint, "_send", losing)
    return lambda: puts


def test_a_segment_whose_first_response_was_lost_is_recognised(
    deployed: Deployed, lost_answers: Callable[[], int]
) -> None:
    deployed.put("raw-events/a.ndjson.gz")
    deployed.poller.poll_once()
    assert lost_answers() == 2
    assert deployed.segments().keys() == {FIRST}
    assert deployed.left_in_the_queue() == 0
