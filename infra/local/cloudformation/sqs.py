"""AWS::SQS::…"""

import json
from typing import Any

from infra.local.cloudformation.resource_type import Kind, Made, Place, Properties, tags_of

_DOCUMENTS = ("RedrivePolicy", "RedriveAllowPolicy")
_ATTRIBUTES = frozenset(
    {
        "ContentBasedDeduplication",
        "DeduplicationScope",
        "DelaySeconds",
        "FifoQueue",
        "FifoThroughputLimit",
        "KmsDataKeyReusePeriodSeconds",
        "KmsMasterKeyId",
        "MaximumMessageSize",
        "MessageRetentionPeriod",
        "ReceiveMessageWaitTimeSeconds",
        "RedriveAllowPolicy",
        "RedrivePolicy",
        "SqsManagedSseEnabled",
        "VisibilityTimeout",
    }
)
_DEFAULTS = {
    "DelaySeconds": 0,
    "MaximumMessageSize": 262144,
    "MessageRetentionPeriod": 345600,
    "ReceiveMessageWaitTimeSeconds": 0,
    "VisibilityTimeout": 30,
    "RedrivePolicy": "",
    "RedriveAllowPolicy": "",
}
"""What an attribute returns to when a template no longer sets it."""


def _attributes(properties: Properties) -> dict[str, str]:
    return {name: _text(name, value) for name, value in properties.items() if name in _ATTRIBUTES}


def _text(name: str, value: Any) -> str:
    if name in _DOCUMENTS and not isinstance(value, str):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _create(place: Place, properties: Properties) -> Made:
    fifo = str(properties.get("FifoQueue", "")).lower() == "true"
    name = properties.get("QueueName") or place.generated[:75] + (".fifo" if fifo else "")
    sqs = place.client("sqs")
    url = sqs.create_queue(QueueName=name, Attributes=_attributes(properties), tags=tags_of(properties))["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return Made(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


def _update(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    sqs = place.client("sqs")
    gone = {name: _DEFAULTS[name] for name in old.keys() - new.keys() if name in _DEFAULTS}
    wanted = _attributes(gone | {name: value for name, value in new.items() if name != "FifoQueue"})
    sqs.set_queue_attributes(QueueUrl=made.name, Attributes=wanted)
    if tags := tags_of(new):
        sqs.tag_queue(QueueUrl=made.name, Tags=tags)
    return made


def _delete(place: Place, made: Made, properties: Properties) -> None:
    place.client("sqs").delete_queue(QueueUrl=made.name)


def _create_policy(place: Place, properties: Properties) -> Made:
    for url in properties["Queues"]:
        _set_policy(place, url, json.dumps(properties["PolicyDocument"]))
    return Made(place.generated, {"Id": place.generated})


def _update_policy(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    for url in set(old["Queues"]) - set(new["Queues"]):
        _set_policy(place, url, "")
    _create_policy(place, new)
    return made


def _delete_policy(place: Place, made: Made, properties: Properties) -> None:
    for url in properties["Queues"]:
        _set_policy(place, url, "")


def _set_policy(place: Place, url: str, policy: str) -> None:
    place.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})


KINDS = [
    Kind(
        "AWS::SQS::Queue",
        _ATTRIBUTES | {"QueueName", "Tags"},
        _create,
        _update,
        _delete,
        frozenset({"QueueName", "FifoQueue"}),
    ),
    Kind(
        "AWS::SQS::QueuePolicy", frozenset({"Queues", "PolicyDocument"}), _create_policy, _update_policy, _delete_policy
    ),
]
