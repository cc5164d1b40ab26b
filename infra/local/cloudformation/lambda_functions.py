"""Resource types AWS::Lambda::*."""

from typing import Any

from infra.local.cloudformation.api_request import api_request
from infra.local.cloudformation.resource_type import CreatedResource, Properties, ResourceContext, ResourceType, tags_of

_CONFIGURATION = frozenset(
    {
        "DeadLetterConfig",
        "Description",
        "Environment",
        "EphemeralStorage",
        "Handler",
        "LoggingConfig",
        "MemorySize",
        "Role",
        "Runtime",
        "Timeout",
        "TracingConfig",
    }
)
_FUNCTION = _CONFIGURATION | {"Architectures", "Code", "FunctionName", "ReservedConcurrentExecutions", "Tags"}
_MAPPING = frozenset(
    {
        "BatchSize",
        "Enabled",
        "EventSourceArn",
        "FilterCriteria",
        "FunctionName",
        "FunctionResponseTypes",
        "MaximumBatchingWindowInSeconds",
        "ScalingConfig",
        "Tags",
    }
)
_PERMISSION = frozenset({"Action", "FunctionName", "Principal", "SourceAccount", "SourceArn"})
_INVOKE_CONFIG = frozenset(
    {"DestinationConfig", "FunctionName", "MaximumEventAgeInSeconds", "MaximumRetryAttempts", "Qualifier"}
)


def _create(context: ResourceContext, properties: Properties) -> CreatedResource:
    client = context.client("lambda")
    name = properties.get("FunctionName") or context.generated_name[:64]
    desired = {key: value for key, value in properties.items() if key not in ("ReservedConcurrentExecutions", "Tags")}
    created = client.create_function(
        **api_request(client, "CreateFunction", desired | {"FunctionName": name, "Tags": tags_of(properties)})
    )
    _reserve(client, name, properties, {})
    return CreatedResource(name, {"Arn": created["FunctionArn"]})


def _update(context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties) -> CreatedResource:
    client, name = context.client("lambda"), {"FunctionName": resource.name}
    if new["Code"] != old["Code"] or new.get("Architectures") != old.get("Architectures"):
        code = new["Code"] | ({"Architectures": new["Architectures"]} if "Architectures" in new else {})
        client.update_function_code(**api_request(client, "UpdateFunctionCode", name | code))
    configuration = {key: value for key, value in new.items() if key in _CONFIGURATION}
    if "Environment" in old and "Environment" not in new:
        configuration["Environment"] = {"Variables": {}}
    client.update_function_configuration(**api_request(client, "UpdateFunctionConfiguration", name | configuration))
    if tags := tags_of(new):
        client.tag_resource(Resource=resource.attributes["Arn"], Tags=tags)
    _reserve(client, resource.name, new, old)
    return resource


def _reserve(client: Any, name: str, new: Properties, old: Properties) -> None:
    reserved = new.get("ReservedConcurrentExecutions")
    if reserved is not None:
        client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=int(reserved))
    elif "ReservedConcurrentExecutions" in old:
        client.delete_function_concurrency(FunctionName=name)


def _delete(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("lambda").delete_function(FunctionName=resource.name)


def _create_mapping(context: ResourceContext, properties: Properties) -> CreatedResource:
    client = context.client("lambda")
    desired = properties | {"Tags": tags_of(properties)}
    mapping = client.create_event_source_mapping(**api_request(client, "CreateEventSourceMapping", desired))
    return CreatedResource(
        mapping["UUID"], {"Id": mapping["UUID"], "EventSourceMappingArn": mapping["EventSourceMappingArn"]}
    )


def _update_mapping(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    client = context.client("lambda")
    desired = {name: value for name, value in new.items() if name not in ("EventSourceArn", "Tags")}
    client.update_event_source_mapping(
        **api_request(
            client, "UpdateEventSourceMapping", desired | {"UUID": resource.name, "Enabled": new.get("Enabled", True)}
        )
    )
    return resource


def _delete_mapping(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("lambda").delete_event_source_mapping(UUID=resource.name)


def _create_permission(context: ResourceContext, properties: Properties) -> CreatedResource:
    client = context.client("lambda")
    client.add_permission(**api_request(client, "AddPermission", properties | {"StatementId": context.generated_name}))
    return CreatedResource(context.generated_name, {"Id": context.generated_name})


def _update_permission(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    _delete_permission(context, resource, old)
    return _create_permission(context, new)


def _delete_permission(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("lambda").remove_permission(FunctionName=properties["FunctionName"], StatementId=resource.name)


def _create_invoke_config(context: ResourceContext, properties: Properties) -> CreatedResource:
    client = context.client("lambda")
    desired = {name: value for name, value in properties.items() if name != "Qualifier"}
    client.put_function_event_invoke_config(**api_request(client, "PutFunctionEventInvokeConfig", desired))
    return CreatedResource(context.generated_name)


def _update_invoke_config(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    _create_invoke_config(context, new)
    return resource


def _delete_invoke_config(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("lambda").delete_function_event_invoke_config(FunctionName=properties["FunctionName"])


RESOURCE_TYPES = [
    ResourceType("AWS::Lambda::Function", _FUNCTION, _create, _update, _delete, frozenset({"FunctionName"})),
    ResourceType(
        "AWS::Lambda::EventSourceMapping",
        _MAPPING,
        _create_mapping,
        _update_mapping,
        _delete_mapping,
        frozenset({"EventSourceArn"}),
    ),
    ResourceType("AWS::Lambda::Permission", _PERMISSION, _create_permission, _update_permission, _delete_permission),
    ResourceType(
        "AWS::Lambda::EventInvokeConfig",
        _INVOKE_CONFIG,
        _create_invoke_config,
        _update_invoke_config,
        _delete_invoke_config,
        frozenset({"FunctionName"}),
    ),
]
