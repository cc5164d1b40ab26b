"""The poller with real queues: from a new object to the handler, and from a bad message to the dead-letter queue."""

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_plus

from infra.local.functions.poller import LambdaPoller
from infra.local.functions.sqs_event import EventSource
from infra.local.processes.server_process import LocalAws
from infra.local.stack.minimal_stack import MAX_RECEIVE_COUNT, MinimalStack, Queue
from tests.fixtures_aws import drain, new_stack

DEADLINE_SECS = 120


class Collected:
    """A handler that records the keys of events, and reports messages that are not events."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"batchItemFailures": [{"itemIdentifier": name} for name in map(self.take, event["Records"]) if name]}

    def take(self, message: dict[str, Any]) -> str | None:
        try:
            described = json.loads(message["body"])["Records"][0]["s3"]["object"]
        except ValueError:
            return str(message["messageId"])
        self.keys.append(unquote_plus(described["key"]))
        return None


def poller(aws: LocalAws, stack: MinimalStack, handler: Collected, **settings: Any) -> LambdaPoller:
    source = EventSource(stack.queue.url, stack.queue.arn, **settings)
    return LambdaPoller(aws.client("sqs"), source, handler, log=lambda event, /, **fields: None)


def test_each_key_reaches_the_handler_unchanged(aws: LocalAws, stack: MinimalStack) -> None:
    keys = ["plain", "a b", "a+b", "100%", "%2F", "date=1/é.gz", "a//b", "日本", "a&b=c?d#e", "~-_.!*'()"]
    handler = Collected()
    for key in keys:
        aws.client("s3").put_object(Bucket=stack.landing, Key=key, Body=b"x")
    poller(aws, stack, handler, batch_size=10).poll_once()
    assert handler.keys == keys


def test_only_the_bad_message_ends_in_the_dead_letter_queue(aws: LocalAws, stack: MinimalStack) -> None:
    handler = Collected()
    for number in range(15):
        aws.client("s3").put_object(Bucket=stack.landing, Key=f"good-{number}", Body=b"x")
    aws.client("sqs").send_message(QueueUrl=stack.queue.url, MessageBody="not an event")
    with poller(aws, stack, handler, batch_size=20, window_secs=0.2, retry_after_secs=0) as running:
        wait_until(lambda: message_counts(aws, stack.dead_letters) == (1, 0))
    assert sorted(handler.keys) == sorted(f"good-{number}" for number in range(15))
    assert running.counts.failed == MAX_RECEIVE_COUNT
    assert message_counts(aws, stack.queue) == (0, 0)
    assert drain(aws, stack.dead_letters) == ["not an event"]


def test_by_default_a_failed_message_waits_for_the_visibility_timeout(aws: LocalAws) -> None:
    stack = new_stack(aws, visibility_timeout_secs=60)
    aws.client("sqs").send_message(QueueUrl=stack.queue.url, MessageBody="not an event")
    poller(aws, stack, Collected()).poll_once()
    assert message_counts(aws, stack.queue) == (0, 1)


def message_counts(aws: LocalAws, queue: Queue) -> tuple[int, int]:
    """Numbers of visible messages and of those in flight."""
    answer = aws.client("sqs").get_queue_attributes(QueueUrl=queue.url, AttributeNames=["All"])["Attributes"]
    return int(answer["ApproximateNumberOfMessages"]), int(answer["ApproximateNumberOfMessagesNotVisible"])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)
