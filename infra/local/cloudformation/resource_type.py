"""The interface between the engine and a type of resource."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Properties = dict[str, Any]


@dataclass(slots=True)
class CreatedResource:
    """`name` is what `Ref` returns, `attributes` what `Fn::GetAtt` returns."""

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResourceContext:
    """`generated_name`: the resource's name if its properties set none. `client` makes a boto3 client by service."""

    stack: str
    stack_id: str
    logical_id: str
    type: str
    generated_name: str
    client: Callable[[str], Any]


def delete_nothing(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    """For a resource that is removed together with another one."""


@dataclass(frozen=True, slots=True)
class ResourceType:
    """The functions get properties with every reference resolved, and raise botocore's ClientError.

    `properties`: the supported ones; None: any. `update` gets the new properties and the old ones. A change of one of
    `replaced_on_change_of` creates a new resource instead.
    """

    type: str
    properties: frozenset[str] | None
    create: Callable[[ResourceContext, Properties], CreatedResource]
    update: Callable[[ResourceContext, CreatedResource, Properties, Properties], CreatedResource]
    delete: Callable[[ResourceContext, CreatedResource, Properties], None] = delete_nothing
    replaced_on_change_of: frozenset[str] = frozenset()


class UnsupportedResource(Exception):
    """The template has a type, a property or an attribute that the local AWS does not support."""


def tags_of(properties: Properties) -> dict[str, str]:
    """Tags as the mapping that most services take, from CloudFormation's list or, for some types, from a mapping."""
    tags = properties.get("Tags") or {}
    if isinstance(tags, Mapping):
        return {str(name): str(value) for name, value in tags.items()}
    return {str(tag["Key"]): str(tag["Value"]) for tag in tags}
