"""The event that Lambda's SQS event source sends to a function, and how Lambda interprets the response."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SQS_BATCH = 10
"""SQS's limit of messages in one call."""

Message = Mapping[str, Any]
"""As ReceiveMessage returns it."""


@dataclass(frozen=True)
class EventSource:
    """The settings of an event source mapping and its function that affect a handler.

    `retry_after_secs`: failed messages become visible again after this time. None: after the queue's visibility
    timeout, as on AWS.
    """

    queue_url: str
    queue_arn: str
    function_name: str = "collector"
    batch_size: int = 10
    window_secs: float = 0.0
    report_batch_item_failures: bool = True
    timeout_secs: float = 30.0
    memory_limit_in_mb: int = 256
    retry_after_secs: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size > SQS_BATCH and self.window_secs <= 0:
            raise ValueError(
                f"batch_size is {self.batch_size} and window_secs {self.window_secs:g}; for more than {SQS_BATCH} "
                "messages Lambda requires a window. Set window_secs; AWS accepts 1 or more."
            )

    @property
    def region(self) -> str:
        return self.queue_arn.split(":")[3]

    @property
    def function_arn(self) -> str:
        return f"arn:aws:lambda:{self.region}:{self.queue_arn.split(':')[4]}:function:{self.function_name}"


@dataclass(frozen=True)
class LambdaContext:
    """The part of Lambda's context object that handlers read. `memory_limit_in_mb` is a string on AWS too."""

    function_name: str
    memory_limit_in_mb: str
    invoked_function_arn: str
    aws_request_id: str
    deadline: float
    clock: Callable[[], float]
    function_version: str = "$LATEST"

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.deadline - self.clock()) * 1000))


class InvocationFailed(Exception):
    """The function raised, timed out, or returned a response that Lambda rejects."""


def record_of(message: Message, source: EventSource) -> dict[str, Any]:
    """A message in the form in which Lambda passes it to functions."""
    record = {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {name: _attribute(value) for name, value in message.get("MessageAttributes", {}).items()},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": source.queue_arn,
        "awsRegion": source.region,
    }
    if "MD5OfMessageAttributes" in message:
        record["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return record


def failed_ids(response: object, ids: frozenset[str]) -> frozenset[str]:
    """The messages that a response reports as failed, by Lambda's rules for ReportBatchItemFailures.

    An empty response, or one without failures, means success. Raises InvocationFailed, which fails the whole batch,
    when the response has another form or names a message that is not in the batch.
    """
    if response is None or response == {}:
        return frozenset()
    if not isinstance(response, dict):
        raise InvocationFailed(f"expected an object with batchItemFailures, found {response!r}")
    failures = response.get("batchItemFailures") or []
    if not isinstance(failures, list):
        raise InvocationFailed(f"expected a list of batchItemFailures, found {failures!r}")
    reported = [failure.get("itemIdentifier") if isinstance(failure, dict) else None for failure in failures]
    if unknown := [name for name in reported if not isinstance(name, str) or name not in ids]:
        raise InvocationFailed(f"batchItemFailures names {unknown!r}; the batch has {sorted(ids)}")
    return frozenset(str(name) for name in reported)


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    attribute: dict[str, Any] = {"stringListValues": [], "binaryListValues": [], "dataType": value["DataType"]}
    if "StringValue" in value:
        attribute["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        attribute["binaryValue"] = base64.b64encode(value["BinaryValue"]).decode()
    return attribute
