"""Turns the properties of a resource into an API request, with the names and types of the service's model."""

from collections.abc import Mapping
from typing import Any

from infra.local.cloudformation.resource_type import UnsupportedResource


def camel_case(value: Any) -> Any:
    """`{"AutoStop": {"Enabled": 1}}` becomes `{"autoStop": {"enabled": 1}}`."""
    if isinstance(value, Mapping):
        return {name[:1].lower() + name[1:]: camel_case(item) for name, item in value.items()}
    if isinstance(value, list):
        return [camel_case(item) for item in value]
    return value


def api_request(client: Any, operation: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """`properties` as the input of an operation, by its API name such as CreateFunction.

    Converts "30" to 30 and "true" to true: CloudFormation accepts both forms, boto3 does not. Raises
    UnsupportedResource for a name or an enum value that the service's API does not have.
    """
    shape = client.meta.service_model.operation_model(operation).input_shape
    return {name: value for name, value in _converted(dict(properties), shape, operation).items() if value is not None}


def _converted(value: Any, shape: Any, path: str) -> Any:
    if shape.type_name == "structure":
        return _converted_structure(value, shape, path)
    if shape.type_name == "list":
        return [_converted(item, shape.member, path) for item in value]
    if shape.type_name == "map":
        return {str(name): _converted(item, shape.value, f"{path}.{name}") for name, item in value.items()}
    scalar = _scalar(value, shape.type_name)
    if getattr(shape, "enum", None) and scalar not in shape.enum:
        raise UnsupportedResource(f"{path}: expected one of {', '.join(shape.enum)}, found {scalar}")
    return scalar


def _converted_structure(value: Any, shape: Any, path: str) -> dict[str, Any]:
    if getattr(shape, "is_document_type", False):
        return dict(value)
    if not isinstance(value, Mapping):
        raise UnsupportedResource(f"{path}: expected an object, found {value!r}")
    if unknown := sorted(value.keys() - shape.members.keys()):
        raise UnsupportedResource(f"{path}: found {', '.join(unknown)}; expected {', '.join(sorted(shape.members))}")
    return {
        name: _converted(item, shape.members[name], f"{path}.{name}")
        for name, item in value.items()
        if item is not None
    }


def _scalar(value: Any, type_name: str) -> Any:
    if type_name == "boolean":
        return value if isinstance(value, bool) else str(value).lower() == "true"
    if type_name in ("integer", "long"):
        return int(value)
    if type_name in ("float", "double"):
        return float(value)
    if type_name == "string":
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value
