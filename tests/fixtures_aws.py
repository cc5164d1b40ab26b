"""The local AWS for tests: repaired moto as a server process."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from infra.local.processes.server_process import REGION, LocalAws, local_aws
from infra.local.stack.minimal_stack import MinimalStack, Queue, create_stack


@pytest.fixture(scope="session")
def aws() -> Iterator[LocalAws]:
    """One server for all tests of a run, so each test uses unique names."""
    with local_aws() as server:
        yield server


@pytest.fixture
def bucket(aws: LocalAws) -> str:
    """The name of a new, empty bucket."""
    name = f"test-{uuid.uuid4().hex}"
    aws.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return name


@pytest.fixture
def stack(aws: LocalAws) -> MinimalStack:
    return new_stack(aws)


def new_stack(aws: LocalAws, **settings: Any) -> MinimalStack:
    """A new stack, whose queue's initial test event is already received."""
    name = f"s{uuid.uuid4().hex[:16]}"
    stack = create_stack(aws, landing=f"{name}-landing", lake=f"{name}-lake", **settings)
    assert [json.loads(body)["Event"] for body in drain(aws, stack.queue)] == ["s3:TestEvent"]
    return stack


def drain(aws: LocalAws, queue: Queue, wait_secs: int = 0) -> list[str]:
    """Receive and delete all visible messages. Returns their bodies."""
    sqs = aws.client("sqs")
    bodies = []
    while messages := sqs.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10, WaitTimeSeconds=wait_secs).get(
        "Messages", []
    ):
        bodies += [message["Body"] for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])
    return bodies


def send(aws: LocalAws, queue: Queue, count: int) -> None:
    """Send messages with the bodies 0 to `count` - 1; `count` must be a multiple of ten."""
    sqs = aws.client("sqs")
    for first in range(0, count, 10):
        entries = [{"Id": str(number), "MessageBody": str(number)} for number in range(first, first + 10)]
        sqs.send_message_batch(QueueUrl=queue.url, Entries=entries)
