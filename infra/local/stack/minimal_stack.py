"""Buckets, queues and the notification between them, as the template deploys them, created without CloudFormation."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from infra.local.processes.notification_filter import encoded_key
from infra.local.processes.server_process import ACCOUNT_ID, REGION

MAX_RECEIVE_COUNT = 5


class Clients(Protocol):
    def client(self, service: str) -> Any:
        """A boto3 client."""


@dataclass(frozen=True)
class Queue:
    name: str
    url: str
    arn: str


@dataclass(frozen=True)
class MinimalStack:
    landing: str
    lake: str
    queue: Queue
    dead_letters: Queue


def create_stack(
    aws: Clients, *, landing: str, lake: str, prefixes: Sequence[str] = ("",), visibility_timeout_secs: int = 30
) -> MinimalStack:
    """Two buckets, and a queue that gets an event for each object created in `landing` below one of `prefixes`.

    As on AWS, the first message is an `s3:TestEvent`, and prefixes must not overlap. A message that was received
    MAX_RECEIVE_COUNT times without being deleted moves to the dead-letter queue.
    """
    sqs, s3 = aws.client("sqs"), aws.client("s3")
    for name in sorted({landing, lake}):
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    dead_letters = _create_queue(sqs, f"{landing}-events-dlq", {})
    queue = _create_queue(
        sqs,
        f"{landing}-events",
        {
            "VisibilityTimeout": str(visibility_timeout_secs),
            "RedrivePolicy": _redrive_to(dead_letters),
            "Policy": _allow_bucket_to_send(f"{landing}-events", landing),
        },
    )
    s3.put_bucket_notification_configuration(Bucket=landing, NotificationConfiguration=_notifications(queue, prefixes))
    return MinimalStack(landing, lake, queue, dead_letters)


def _create_queue(sqs: Any, name: str, attributes: dict[str, str]) -> Queue:
    url = sqs.create_queue(QueueName=name, Attributes={"SqsManagedSseEnabled": "true", **attributes})["QueueUrl"]
    return Queue(name, url, _queue_arn(name))


def _queue_arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{name}"


def _redrive_to(dead_letters: Queue) -> str:
    return json.dumps({"deadLetterTargetArn": dead_letters.arn, "maxReceiveCount": MAX_RECEIVE_COUNT})


def _allow_bucket_to_send(queue_name: str, bucket: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "s3.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": _queue_arn(queue_name),
        "Condition": {
            "ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{bucket}"},
            "StringEquals": {"aws:SourceAccount": ACCOUNT_ID},
        },
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _notifications(queue: Queue, prefixes: Sequence[str]) -> dict[str, Any]:
    return {"QueueConfigurations": [_notification(queue, number, prefix) for number, prefix in enumerate(prefixes)]}


def _notification(queue: Queue, number: int, prefix: str) -> dict[str, Any]:
    notification = {"Id": f"blizzard-{number}", "QueueArn": queue.arn, "Events": ["s3:ObjectCreated:*"]}
    # S3 refuses an empty list of rules.
    return notification | (
        {"Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": encoded_key(prefix)}]}}} if prefix else {}
    )
