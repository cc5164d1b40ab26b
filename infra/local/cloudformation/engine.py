"""What CloudFormation does with a template: create, update and delete in the order of references, and roll back."""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from infra.local.cloudformation.resource_type import Kind, Made, Place, Properties, UnsupportedResource

CHANGES_NOTHING = {"Condition", "DeletionPolicy", "DependsOn", "Metadata", "Properties", "Type", "UpdateReplacePolicy"}
RETAIN = ("Retain", "RetainExceptOnCreate")
REFERENCE = re.compile(r"\$\{([^!}][^}]*)\}")

Resources = Mapping[str, Mapping[str, Any]]
Report = Callable[[str, str, str], None]
"""Gets logical id, status and reason, as a stack's events have them."""


class DeploymentFailed(Exception):
    """A resource could not be created, updated or deleted."""


@dataclass(slots=True)
class Deployed:
    """A resource of a stack, in the form in which moto's CloudFormation looks at it."""

    logical_resource_id: str
    kind: Kind
    made: Made
    properties: Properties
    deletion_policy: str
    place: Place

    @property
    def cf_resource_type(self) -> str:
        return self.kind.type

    @property
    def type(self) -> str:
        return self.kind.type

    @property
    def physical_resource_id(self) -> str:
        return self.made.name

    def is_created(self) -> bool:
        return True

    def get_cfn_attribute(self, name: str) -> Any:
        if name not in self.made.attributes:
            known = ", ".join(sorted(self.made.attributes)) or "none"
            raise UnsupportedResource(
                f"{self.logical_resource_id}: {self.kind.type} has no attribute {name} here; it has {known}"
            )
        return self.made.attributes[name]


def references(value: Any) -> Iterator[str]:
    """The logical ids and parameters that a part of a template names."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == "Ref":
                yield str(item)
            elif name == "Fn::GetAtt":
                yield str(item[0] if isinstance(item, list) else item.partition(".")[0])
            elif name == "Fn::Sub":
                text = item[0] if isinstance(item, list) else item
                yield from (found.partition(".")[0] for found in REFERENCE.findall(text))
                yield from references(item[1]) if isinstance(item, list) else ()
            else:
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def in_order(resources: Resources) -> list[str]:
    """Each logical id after all that it refers to or depends on. Raises DeploymentFailed for a circle."""
    order: dict[str, None] = {}
    open_ids: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in open_ids:
            circle = " → ".join([*open_ids[open_ids.index(name) :], name])
            raise DeploymentFailed(f"Circular dependency between resources: {circle}")
        open_ids.append(name)
        depends_on = resources[name].get("DependsOn", [])
        depends_on = [depends_on] if isinstance(depends_on, str) else depends_on
        for other in [*depends_on, *references(resources[name].get("Properties", {}))]:
            if other in resources:
                visit(other)
        open_ids.pop()
        order[name] = None

    for name in sorted(resources):
        visit(name)
    return list(order)


class Deployment:
    """Brings a stack's resources to what a template says.

    `resolve(value)` replaces every reference in a part of the template, `wanted(resource)` tells whether its condition
    holds, and `deployed` holds the stack's resources by logical id; it is kept up to date as things are made.
    """

    def __init__(
        self,
        stack: str,
        kinds: Mapping[str, Kind],
        deployed: dict[str, Deployed],
        client: Callable[[str], Any],
        report: Report,
    ) -> None:
        self._stack = stack
        self._kinds = kinds
        self._deployed = deployed
        self._client = client
        self._report = report

    def apply(self, resources: Resources, resolve: Callable[[Any], Any], wanted: Callable[[Any], bool]) -> None:
        """Raises DeploymentFailed, which says what failed and why; what was done until then stays done."""
        self._check(resources)
        replaced: list[Deployed] = []
        active = [name for name in in_order(resources) if wanted(resources[name])]
        for name in active:
            self._attempt(name, lambda name=name: replaced.extend(self._bring(name, resources[name], resolve)))  # type: ignore[misc]
        gone = [name for name in reversed(list(self._deployed)) if name not in active]
        for old in [*replaced, *(self._deployed.pop(name) for name in gone)]:
            self._attempt(old.logical_resource_id, lambda old=old: self._remove(old))  # type: ignore[misc]

    def delete_all(self) -> None:
        for name in reversed(list(self._deployed)):
            self._attempt(name, lambda name=name: self._remove(self._deployed[name]))  # type: ignore[misc]
            del self._deployed[name]

    def _check(self, resources: Resources) -> None:
        """Before anything is made: an unknown type is never skipped in silence."""
        for name, resource in resources.items():
            if resource["Type"] not in self._kinds:
                known = ", ".join(sorted(self._kinds))
                raise DeploymentFailed(f"{name}: the local AWS does not know {resource['Type']}; it knows {known}")
            kind = self._kinds[resource["Type"]]
            if unknown := sorted(resource.get("Properties", {}).keys() - kind.properties):
                raise DeploymentFailed(f"{name}: the local AWS does not know {', '.join(unknown)} of {kind.type}")
            if odd := sorted(resource.keys() - CHANGES_NOTHING):
                raise DeploymentFailed(f"{name}: the local AWS does not know {', '.join(odd)} of a resource")

    def _attempt(self, name: str, work: Callable[[], object]) -> None:
        try:
            work()
        except (BotoCoreError, ClientError, UnsupportedResource, KeyError, TypeError, ValueError) as error:
            self._report(name, "FAILED", f"{type(error).__name__}: {error}")
            raise DeploymentFailed(f"{name}: {type(error).__name__}: {error}") from error

    def _bring(self, name: str, resource: Mapping[str, Any], resolve: Callable[[Any], Any]) -> list[Deployed]:
        """Create or update; the replaced resource, which goes last, if there is one."""
        kind = self._kinds[resource["Type"]]
        properties = resolve(resource.get("Properties", {}))
        old = self._deployed.get(name)
        if old is None or old.kind is not kind or self._needs_another(kind, properties, old.properties):
            place = Place(self._stack, name, f"{self._stack}-{name}-{uuid.uuid4().hex[:12].upper()}", self._client)
            made = kind.create(place, properties)
            policy = resource.get("DeletionPolicy", "Delete")
            self._deployed.pop(name, None)
            self._deployed[name] = Deployed(name, kind, made, properties, policy, place)
            self._report(name, "CREATE_COMPLETE", "")
            return [old] if old else []
        if properties != old.properties:
            old.made = kind.update(old.place, old.made, properties, old.properties)
            old.properties = properties
            self._report(name, "UPDATE_COMPLETE", "")
        old.deletion_policy = resource.get("DeletionPolicy", "Delete")
        return []

    @staticmethod
    def _needs_another(kind: Kind, new: Properties, old: Properties) -> bool:
        return any(new.get(name) != old.get(name) for name in kind.replaced_by)

    def _remove(self, old: Deployed) -> None:
        if old.deletion_policy in RETAIN:
            self._report(old.logical_resource_id, "DELETE_SKIPPED", "")
            return
        old.kind.delete(old.place, old.made, old.properties)
        self._report(old.logical_resource_id, "DELETE_COMPLETE", "")
