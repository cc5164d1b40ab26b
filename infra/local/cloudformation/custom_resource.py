"""Resource types AWS::CloudFormation::CustomResource and Custom::*: a function of the stack creates the resource.

The function is invoked asynchronously with a request, and answers by a PUT to the URL in it.
"""

import json
import uuid
from typing import Any

from infra.local.cloudformation.answers import answer_server
from infra.local.cloudformation.resource_type import (
    CreatedResource,
    Properties,
    ResourceContext,
    ResourceType,
    UnsupportedResource,
)

TYPE = "AWS::CloudFormation::CustomResource"
PREFIX = "Custom::"
DEFAULT_TIMEOUT_SECS = 3600
MAX_ANSWER_BYTES = 4096
MAX_PHYSICAL_ID_BYTES = 1024
ECHOED = ("StackId", "RequestId", "LogicalResourceId")


class CustomResourceFailed(UnsupportedResource):
    """The function answered FAILED, wrongly, or not in time."""


def _create(context: ResourceContext, properties: Properties) -> CreatedResource:
    answer = _ask(context, "Create", properties, {})
    if answer["Status"] == "FAILED":
        # When CloudFormation rolls back, it deletes also what failed.
        _ask(context, "Delete", properties, {"PhysicalResourceId": answer["PhysicalResourceId"]})
        raise _failed(answer)
    return _resource(answer)


def _update(context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties) -> CreatedResource:
    """A resource with another name replaces the old one, which is deleted after all updates."""
    if new["ServiceToken"] != old["ServiceToken"]:
        raise UnsupportedResource("Modifying service token is not allowed.")
    more = {"PhysicalResourceId": resource.name, "OldResourceProperties": _as_texts(old)}
    answer = _ask(context, "Update", new, more)
    if answer["Status"] == "FAILED":
        raise _failed(answer)
    return _resource(answer)


def _delete(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    answer = _ask(context, "Delete", properties, {"PhysicalResourceId": resource.name})
    if answer["Status"] == "FAILED":
        raise _failed(answer)


def _ask(context: ResourceContext, kind: str, properties: Properties, more: Properties) -> dict[str, Any]:
    url = answer_server().open()
    request = {
        "RequestType": kind,
        "ServiceToken": properties["ServiceToken"],
        "ResponseURL": url,
        "StackId": context.stack_id,
        "RequestId": str(uuid.uuid4()),
        "LogicalResourceId": context.logical_id,
        "ResourceType": context.type,
        "ResourceProperties": _as_texts(properties),
        **more,
    }
    context.client("lambda").invoke(
        FunctionName=properties["ServiceToken"], InvocationType="Event", Payload=json.dumps(request)
    )
    body = answer_server().wait(url, float(properties.get("ServiceTimeout", DEFAULT_TIMEOUT_SECS)))
    if body is None:
        raise CustomResourceFailed(
            "CloudFormation did not receive a response from your Custom Resource. Please check your logs for requestId "
            f"[{request['RequestId']}]."
        )
    return _checked(body, request)


def _checked(body: bytes, request: Properties) -> dict[str, Any]:
    if len(body) > MAX_ANSWER_BYTES:
        raise CustomResourceFailed(f"Response object is too long: {len(body)} of at most {MAX_ANSWER_BYTES} bytes")
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise CustomResourceFailed(f"Invalid response object: not JSON: {body[:200]!r}") from error
    name = answer.get("PhysicalResourceId")
    wrong = [field for field in ECHOED if answer.get(field) != request[field]]
    wrong += ["Status"] if answer.get("Status") not in ("SUCCESS", "FAILED") else []
    wrong += ["Reason"] if answer.get("Status") == "FAILED" and not answer.get("Reason") else []
    wrong += ["Reason"] if not isinstance(answer.get("Reason", ""), str) else []
    if not isinstance(name, str) or not 0 < len(name.encode()) <= MAX_PHYSICAL_ID_BYTES:
        wrong.append("PhysicalResourceId")
    if wrong:
        raise CustomResourceFailed(f"Invalid response object: wrong {', '.join(wrong)} in {body[:500]!r}")
    return dict(answer)


def _failed(answer: Properties) -> CustomResourceFailed:
    return CustomResourceFailed(
        f"Received response status [FAILED] from custom resource. Message returned: {answer['Reason']}"
    )


def _resource(answer: Properties) -> CreatedResource:
    return CreatedResource(answer["PhysicalResourceId"], dict(answer.get("Data") or {}))


def _as_texts(value: Any) -> Any:
    """CloudFormation sends numbers and booleans as texts."""
    if isinstance(value, dict):
        return {name: _as_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_texts(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


RESOURCE_TYPES = [ResourceType(TYPE, None, _create, _update, _delete)]
