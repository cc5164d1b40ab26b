"""Resource types AWS::SQS::*."""

import json
from typing import Any

from infra.local.cloudformation.resource_type import CreatedResource, Properties, ResourceContext, ResourceType, tags_of

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
"""Set again when a template no longer sets the attribute."""


def _attributes(properties: Properties) -> dict[str, str]:
    return {name: _text(name, value) for name, value in properties.items() if name in _ATTRIBUTES}


def _text(name: str, value: Any) -> str:
    if name in _DOCUMENTS and not isinstance(value, str):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _create(context: ResourceContext, properties: Properties) -> CreatedResource:
    fifo = str(properties.get("FifoQueue", "")).lower() == "true"
    name = properties.get("QueueName") or context.generated_name[:75] + (".fifo" if fifo else "")
    sqs = context.client("sqs")
    url = sqs.create_queue(QueueName=name, Attributes=_attributes(properties), tags=tags_of(properties))["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return CreatedResource(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


def _update(context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties) -> CreatedResource:
    sqs = context.client("sqs")
    removed = {name: _DEFAULTS[name] for name in old.keys() - new.keys() if name in _DEFAULTS}
    desired = _attributes(removed | {name: value for name, value in new.items() if name != "FifoQueue"})
    sqs.set_queue_attributes(QueueUrl=resource.name, Attributes=desired)
    if tags := tags_of(new):
        sqs.tag_queue(QueueUrl=resource.name, Tags=tags)
    return resource


def _delete(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("sqs").delete_queue(QueueUrl=resource.name)


def _create_policy(context: ResourceContext, properties: Properties) -> CreatedResource:
    for url in properties["Queues"]:
        _set_policy(context, url, json.dumps(properties["PolicyDocument"]))
    return CreatedResource(context.generated_name, {"Id": context.generated_name})


def _update_policy(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    for url in set(old["Queues"]) - set(new["Queues"]):
        _set_policy(context, url, "")
    _create_policy(context, new)
    return resource


def _delete_policy(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    for url in properties["Queues"]:
        _set_policy(context, url, "")


def _set_policy(context: ResourceContext, url: str, policy: str) -> None:
    context.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})


RESOURCE_TYPES = [
    ResourceType(
        "AWS::SQS::Queue",
        _ATTRIBUTES | {"QueueName", "Tags"},
        _create,
        _update,
        _delete,
        frozenset({"QueueName", "FifoQueue"}),
    ),
    ResourceType(
        "AWS::SQS::QueuePolicy", frozenset({"Queues", "PolicyDocument"}), _create_policy, _update_policy, _delete_policy
    ),
]
