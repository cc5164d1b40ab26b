"""AWS::Lambda::…"""

from typing import Any

from infra.local.cloudformation.api_request import request
from infra.local.cloudformation.resource_type import Kind, Made, Place, Properties, tags_of

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


def _create(place: Place, properties: Properties) -> Made:
    client = place.client("lambda")
    name = properties.get("FunctionName") or place.generated[:64]
    wanted = {key: value for key, value in properties.items() if key not in ("ReservedConcurrentExecutions", "Tags")}
    made = client.create_function(
        **request(client, "CreateFunction", wanted | {"FunctionName": name, "Tags": tags_of(properties)})
    )
    _reserve(client, name, properties, {})
    return Made(name, {"Arn": made["FunctionArn"]})


def _update(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    client, name = place.client("lambda"), {"FunctionName": made.name}
    if new["Code"] != old["Code"] or new.get("Architectures") != old.get("Architectures"):
        code = new["Code"] | ({"Architectures": new["Architectures"]} if "Architectures" in new else {})
        client.update_function_code(**request(client, "UpdateFunctionCode", name | code))
    configuration = {key: value for key, value in new.items() if key in _CONFIGURATION}
    if "Environment" in old and "Environment" not in new:
        configuration["Environment"] = {"Variables": {}}
    client.update_function_configuration(**request(client, "UpdateFunctionConfiguration", name | configuration))
    if tags := tags_of(new):
        client.tag_resource(Resource=made.attributes["Arn"], Tags=tags)
    _reserve(client, made.name, new, old)
    return made


def _reserve(client: Any, name: str, new: Properties, old: Properties) -> None:
    reserved = new.get("ReservedConcurrentExecutions")
    if reserved is not None:
        client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=int(reserved))
    elif "ReservedConcurrentExecutions" in old:
        client.delete_function_concurrency(FunctionName=name)


def _delete(place: Place, made: Made, properties: Properties) -> None:
    place.client("lambda").delete_function(FunctionName=made.name)


def _create_mapping(place: Place, properties: Properties) -> Made:
    client = place.client("lambda")
    wanted = properties | {"Tags": tags_of(properties)}
    mapping = client.create_event_source_mapping(**request(client, "CreateEventSourceMapping", wanted))
    return Made(mapping["UUID"], {"Id": mapping["UUID"], "EventSourceMappingArn": mapping["EventSourceMappingArn"]})


def _update_mapping(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    client = place.client("lambda")
    wanted = {name: value for name, value in new.items() if name not in ("EventSourceArn", "Tags")}
    client.update_event_source_mapping(
        **request(client, "UpdateEventSourceMapping", wanted | {"UUID": made.name, "Enabled": new.get("Enabled", True)})
    )
    return made


def _delete_mapping(place: Place, made: Made, properties: Properties) -> None:
    place.client("lambda").delete_event_source_mapping(UUID=made.name)


def _create_permission(place: Place, properties: Properties) -> Made:
    client = place.client("lambda")
    client.add_permission(**request(client, "AddPermission", properties | {"StatementId": place.generated}))
    return Made(place.generated, {"Id": place.generated})


def _update_permission(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    _delete_permission(place, made, old)
    return _create_permission(place, new)


def _delete_permission(place: Place, made: Made, properties: Properties) -> None:
    place.client("lambda").remove_permission(FunctionName=properties["FunctionName"], StatementId=made.name)


def _create_invoke_config(place: Place, properties: Properties) -> Made:
    client = place.client("lambda")
    wanted = {name: value for name, value in properties.items() if name != "Qualifier"}
    client.put_function_event_invoke_config(**request(client, "PutFunctionEventInvokeConfig", wanted))
    return Made(place.generated)


def _update_invoke_config(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    _create_invoke_config(place, new)
    return made


def _delete_invoke_config(place: Place, made: Made, properties: Properties) -> None:
    place.client("lambda").delete_function_event_invoke_config(FunctionName=properties["FunctionName"])


KINDS = [
    Kind("AWS::Lambda::Function", _FUNCTION, _create, _update, _delete, frozenset({"FunctionName"})),
    Kind(
        "AWS::Lambda::EventSourceMapping",
        _MAPPING,
        _create_mapping,
        _update_mapping,
        _delete_mapping,
        frozenset({"EventSourceArn"}),
    ),
    Kind("AWS::Lambda::Permission", _PERMISSION, _create_permission, _update_permission, _delete_permission),
    Kind(
        "AWS::Lambda::EventInvokeConfig",
        _INVOKE_CONFIG,
        _create_invoke_config,
        _update_invoke_config,
        _delete_invoke_config,
        frozenset({"FunctionName"}),
    ),
]
