"""Resource types AWS::SNS::*."""

import json
from typing import Any

from infra.local.cloudformation.resource_type import CreatedResource, Properties, ResourceContext, ResourceType

_ATTRIBUTES = frozenset({"RawMessageDelivery", "RedrivePolicy"})
_SUBSCRIPTION = _ATTRIBUTES | {"Endpoint", "Protocol", "Region", "TopicArn"}


def _attributes(properties: Properties) -> dict[str, str]:
    return {name: _text(value) for name, value in properties.items() if name in _ATTRIBUTES}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _create(context: ResourceContext, properties: Properties) -> CreatedResource:
    answer = context.client("sns").subscribe(
        TopicArn=properties["TopicArn"],
        Protocol=properties["Protocol"],
        Endpoint=properties["Endpoint"],
        Attributes=_attributes(properties),
        ReturnSubscriptionArn=True,
    )
    return CreatedResource(answer["SubscriptionArn"], {"Arn": answer["SubscriptionArn"]})


def _update(context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties) -> CreatedResource:
    removed = dict.fromkeys(_attributes(old).keys() - _attributes(new).keys(), "")
    for name, value in {**removed, **_attributes(new)}.items():
        context.client("sns").set_subscription_attributes(
            SubscriptionArn=resource.name, AttributeName=name, AttributeValue=value
        )
    return resource


def _delete(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("sns").unsubscribe(SubscriptionArn=resource.name)


RESOURCE_TYPES = [
    ResourceType(
        "AWS::SNS::Subscription",
        _SUBSCRIPTION,
        _create,
        _update,
        _delete,
        frozenset({"Endpoint", "Protocol", "Region", "TopicArn"}),
    ),
]
