"""CloudFormation: unpatched, moto skips most resource types. Replaces its deployment with the engine in
`infra/local/cloudformation`, and keeps its API, parameters, conditions and outputs."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from moto.cloudformation.models import CloudFormationBackend, Event, Stack
from moto.cloudformation.parsing import ResourceMap, clean_json

from infra.local.cloudformation import (
    cloudwatch,
    custom_resource,
    emr_serverless,
    eventbridge,
    iam,
    lambda_functions,
    s3,
    sns,
    sqs,
)
from infra.local.cloudformation.engine import DeployedResource, Deployment, DeploymentFailed
from infra.local.cloudformation.resource_type import ResourceType
from infra.local.moto.patches.patching import replace

RESOURCE_TYPES: Mapping[str, ResourceType] = {
    resource_type.type: resource_type
    for module in (iam, emr_serverless, eventbridge, lambda_functions, cloudwatch, sqs, sns, s3, custom_resource)
    for resource_type in module.RESOURCE_TYPES
}
PRINCIPAL = "cloudformation"
_endpoint: list[Callable[[], str]] = []


def install(endpoint: Callable[[], str]) -> None:
    """`endpoint()` is called at the first deployment, when the server knows its port."""
    _endpoint[:] = [endpoint]
    replace(Stack, "create_resources", _create)
    replace(Stack, "update", _update)
    replace(Stack, "delete", _delete)
    replace(CloudFormationBackend, "_resolve_update_parameters", _update_parameters)
    replace(Stack, "verify_readiness", lambda stack: None)
    replace(ResourceMap, "__getitem__", _look_up)
    replace(ResourceMap, "validate_outputs", lambda resources: None)


@cache
def _client(service: str) -> Any:
    session = boto3.session.Session(PRINCIPAL, "local-has-no-secrets", region_name="eu-west-1")
    config = Config(proxies={}, retries={"mode": "standard"})
    return session.client(service, endpoint_url=_endpoint[0](), config=config)


def _deployment(stack: Stack) -> Deployment:
    def report(name: str, status: str, reason: str) -> None:
        _add_event(stack, name, status, reason)

    deployed = stack.resource_map.__dict__.setdefault("deployed", {})
    return Deployment((stack.name, stack.stack_id), RESOURCE_TYPES, deployed, _client, report)


def _create(stack: Stack) -> None:
    stack.status = "CREATE_IN_PROGRESS"
    deployment = _deployment(stack)
    try:
        _apply(deployment, stack.resource_map)
    except DeploymentFailed as error:
        stack._add_stack_event("ROLLBACK_IN_PROGRESS", str(error))
        deployment.delete_all()
        stack.status = "ROLLBACK_COMPLETE"
        stack._add_stack_event("ROLLBACK_COMPLETE")
        return
    stack.mark_creation_complete()


def _update(
    stack: Stack,
    template: str,
    role_arn: str | None = None,
    parameters: dict[str, Any] | None = None,
    tags: dict[str, str] | None = None,
) -> None:
    before = stack.template, dict(stack.resource_map.input_parameters)
    stack.status = "UPDATE_IN_PROGRESS"
    stack._add_stack_event("UPDATE_IN_PROGRESS", "User Initiated")
    try:
        _load(stack, template, parameters)
        _apply(_deployment(stack), stack.resource_map)
        stack.status = "UPDATE_COMPLETE"
    except DeploymentFailed as error:
        stack._add_stack_event("UPDATE_ROLLBACK_IN_PROGRESS", str(error))
        _load(stack, *before)
        _apply(_deployment(stack), stack.resource_map)
        stack.status = "UPDATE_ROLLBACK_COMPLETE"
    stack._add_stack_event(stack.status)
    stack.role_arn, stack.tags = role_arn, stack.tags if tags is None else tags


def _update_parameters(
    backend: CloudFormationBackend, instance: Stack, incoming_params: list[dict[str, Any]]
) -> dict[str, str]:
    """A previous value may be a default, which moto does not keep with the stack."""
    previous = instance.stack_parameters
    return {
        one["ParameterKey"]: previous[one["ParameterKey"]] if one.get("UsePreviousValue") else one["ParameterValue"]
        for one in incoming_params
    }


def _delete(stack: Stack) -> None:
    stack._add_stack_event("DELETE_IN_PROGRESS", "User Initiated")
    try:
        _deployment(stack).delete_all()
        stack.status = "DELETE_COMPLETE"
    except DeploymentFailed:
        stack.status = "DELETE_FAILED"
        raise
    finally:
        stack._add_stack_event(stack.status)


def _load(stack: Stack, template: Any, parameters: dict[str, Any] | None) -> None:
    stack.template = template
    stack._parse_template()
    resources = stack.resource_map
    deployed = resources.__dict__["deployed"]
    stack.parameters = stack.resource_map.input_parameters if parameters is None else parameters
    stack.resource_map = stack._create_resource_map()
    stack.resource_map.__dict__["deployed"] = deployed
    stack.output_map = stack._create_output_map()


def _apply(deployment: Deployment, resources: ResourceMap) -> None:
    conditions = resources.lazy_condition_map

    def is_active(resource: Mapping[str, Any]) -> bool:
        return bool(conditions[resource["Condition"]]) if "Condition" in resource else True

    deployment.apply(
        resources._resource_json_map, lambda value: _without_no_value(clean_json(value, resources)), is_active
    )


def _without_no_value(value: Any) -> Any:
    """Without the None that moto puts into a list for AWS::NoValue."""
    if isinstance(value, dict):
        return {name: _without_no_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_no_value(item) for item in value if item is not None]
    return value


def _look_up(resources: ResourceMap, name: str) -> Any:
    """A parameter, a pseudo parameter, or a deployed resource; None for a resource whose condition is false."""
    deployed: dict[str, DeployedResource] = resources.__dict__.get("deployed", {})
    if name in deployed:
        return deployed[name]
    if name in resources._parsed_resources:
        return resources._parsed_resources[name]
    if name in resources._resource_json_map:
        return None
    raise KeyError(name)


def _add_event(stack: Stack, name: str, status: str, reason: str) -> None:
    deployed = stack.resource_map.__dict__["deployed"].get(name)
    stack.events.append(
        Event(
            stack_id=stack.stack_id,
            stack_name=stack.name,
            logical_resource_id=name,
            physical_resource_id=deployed.physical_resource_id if deployed else "",
            resource_type=deployed.cf_resource_type if deployed else "",
            resource_status=status,
            resource_status_reason=reason,
            resource_properties=None,
        )
    )
