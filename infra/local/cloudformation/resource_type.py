"""What CloudFormation needs to know of a type of resource."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Properties = dict[str, Any]


@dataclass(slots=True)
class Made:
    """A resource that exists. `name` is what `Ref` gives, `attributes` what `Fn::GetAtt` gives."""

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a resource is made. `generated` is its name where its properties do not give one."""

    stack: str
    logical_id: str
    generated: str
    client: Callable[[str], Any]


def nothing_to_delete(place: Place, made: Made, properties: Properties) -> None:
    """For what ends with something else."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One type. The functions get properties with every reference resolved, and raise botocore's ClientError.

    `update` gets the new properties and the old ones; it is not asked where one of `replaced_by` changed, since then a
    new resource takes the place of the old one. `properties`: all that are understood.
    """

    type: str
    properties: frozenset[str]
    create: Callable[[Place, Properties], Made]
    update: Callable[[Place, Made, Properties, Properties], Made]
    delete: Callable[[Place, Made, Properties], None] = nothing_to_delete
    replaced_by: frozenset[str] = frozenset()


class UnsupportedResource(Exception):
    """The template has a type or a property that the local AWS does not know."""


def tags_of(properties: Properties) -> dict[str, str]:
    """From CloudFormation's list to the mapping that most services take. Some types take a mapping themselves."""
    tags = properties.get("Tags") or {}
    if isinstance(tags, Mapping):
        return {str(name): str(value) for name, value in tags.items()}
    return {str(tag["Key"]): str(tag["Value"]) for tag in tags}
