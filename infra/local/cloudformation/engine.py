"""Reconciles the resources of a stack with a template: creates, updates, replaces and deletes them in order."""

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from infra.local.cloudformation import custom_resource
from infra.local.cloudformation.dependency_order import CircularDependency, Resources, in_dependency_order
from infra.local.cloudformation.resource_type import (
    CreatedResource,
    Properties,
    ResourceContext,
    ResourceType,
    UnsupportedResource,
)

RESOURCE_KEYS = {"Condition", "DeletionPolicy", "DependsOn", "Metadata", "Properties", "Type", "UpdateReplacePolicy"}
RETAIN = ("Retain", "RetainExceptOnCreate")

Report = Callable[[str, str, str], None]
"""Called with logical id, status and reason, as a stack's events have them."""


class DeploymentFailed(Exception):
    """A resource could not be created, updated or deleted."""


@dataclass(slots=True)
class DeployedResource:
    """A resource of a stack. moto's CloudFormation reads the properties and methods below the fields."""

    logical_resource_id: str
    resource_type: ResourceType
    created: CreatedResource
    properties: Properties
    deletion_policy: str
    context: ResourceContext

    @property
    def cf_resource_type(self) -> str:
        return self.context.type

    @property
    def type(self) -> str:
        return self.context.type

    @property
    def physical_resource_id(self) -> str:
        return self.created.name

    def is_created(self) -> bool:
        return True

    def get_cfn_attribute(self, name: str) -> Any:
        if name not in self.created.attributes:
            known = ", ".join(sorted(self.created.attributes)) or "none"
            raise UnsupportedResource(
                f"{self.logical_resource_id}: the attribute {name} of {self.type} is not supported by "
                f"the local AWS; supported: {known}"
            )
        return self.created.attributes[name]


class Deployment:
    """One change of a stack's resources. `stack`: its name and id. `deployed`: its resources by logical id, kept up to
    date at each step."""

    def __init__(
        self,
        stack: tuple[str, str],
        resource_types: Mapping[str, ResourceType],
        deployed: dict[str, DeployedResource],
        client: Callable[[str], Any],
        report: Report,
    ) -> None:
        self._stack, self._stack_id = stack
        self._resource_types = resource_types
        self._deployed = deployed
        self._client = client
        self._report = report

    def apply(self, resources: Resources, resolve: Callable[[Any], Any], is_active: Callable[[Any], bool]) -> None:
        """`resolve` replaces every reference in a part of the template; `is_active` evaluates a resource's condition.

        Raises DeploymentFailed with the resource and the reason. Earlier steps are not undone.
        """
        self._check(resources)
        replaced: list[DeployedResource] = []
        active = [name for name in _ordered(resources) if is_active(resources[name])]
        for name in active:
            self._run_step(
                name,
                lambda name=name: replaced.extend(self._create_or_update(name, resources[name], resolve)),  # type: ignore[misc]
            )
        removed = [name for name in reversed(list(self._deployed)) if name not in active]
        for old in [*reversed(replaced), *(self._deployed.pop(name) for name in removed)]:
            self._run_step(old.logical_resource_id, lambda old=old: self._delete(old))  # type: ignore[misc]

    def delete_all(self) -> None:
        """Raises DeploymentFailed."""
        for name in reversed(list(self._deployed)):
            self._run_step(name, lambda name=name: self._delete(self._deployed[name]))  # type: ignore[misc]
            del self._deployed[name]

    def _check(self, resources: Resources) -> None:
        """Reject unsupported types and properties before anything is created."""
        for name, resource in resources.items():
            resource_type = self._type_of(resource)
            if resource_type is None:
                known = ", ".join(sorted(self._resource_types))
                raise DeploymentFailed(
                    f"{name}: {resource['Type']} is not supported by the local AWS; supported: {known}"
                )
            if resource_type.properties is not None:
                _check_names(f"{name}: {resource_type.type}", resource.get("Properties", {}), resource_type.properties)
            _check_names(name, resource, RESOURCE_KEYS)

    def _type_of(self, resource: Mapping[str, Any]) -> ResourceType | None:
        is_custom = resource["Type"].startswith(custom_resource.PREFIX)
        return self._resource_types.get(custom_resource.TYPE if is_custom else resource["Type"])

    def _run_step(self, name: str, step: Callable[[], object]) -> None:
        try:
            step()
        except (BotoCoreError, ClientError, UnsupportedResource, KeyError, TypeError, ValueError) as error:
            self._report(name, "FAILED", f"{type(error).__name__}: {error}")
            raise DeploymentFailed(f"{name}: {type(error).__name__}: {error}") from error

    def _create_or_update(
        self, name: str, resource: Mapping[str, Any], resolve: Callable[[Any], Any]
    ) -> list[DeployedResource]:
        """The replaced resource, if any. It still exists: CloudFormation deletes it after all updates."""
        resource_type = self._type_of(resource)
        assert resource_type is not None  # as checked
        properties = resolve(resource.get("Properties", {}))
        old = self._deployed.get(name)
        if old is None or old.resource_type is not resource_type or _must_replace(resource_type, properties, old):
            generated_name = f"{self._stack}-{name}-{uuid.uuid4().hex[:12].upper()}"
            context = ResourceContext(self._stack, self._stack_id, name, resource["Type"], generated_name, self._client)
            created = resource_type.create(context, properties)
            policy = resource.get("DeletionPolicy", "Delete")
            self._deployed.pop(name, None)
            self._deployed[name] = DeployedResource(name, resource_type, created, properties, policy, context)
            self._report(name, "CREATE_COMPLETE", "")
            return [old] if old else []
        before = replace(old)
        if properties != old.properties:
            old.created = resource_type.update(old.context, old.created, properties, old.properties)
            old.properties = properties
            self._report(name, "UPDATE_COMPLETE", "")
        old.deletion_policy = resource.get("DeletionPolicy", "Delete")
        return [before] if before.created.name != old.created.name else []

    def _delete(self, old: DeployedResource) -> None:
        if old.deletion_policy in RETAIN:
            self._report(old.logical_resource_id, "DELETE_SKIPPED", "")
            return
        old.resource_type.delete(old.context, old.created, old.properties)
        self._report(old.logical_resource_id, "DELETE_COMPLETE", "")


def _check_names(where: str, found: Mapping[str, Any], supported: Collection[str]) -> None:
    if unknown := sorted(name for name in found if name not in supported):
        raise DeploymentFailed(
            f"{where}: {', '.join(unknown)} is not supported by the local AWS; "
            f"supported: {', '.join(sorted(supported))}"
        )


def _ordered(resources: Resources) -> list[str]:
    try:
        return in_dependency_order(resources)
    except CircularDependency as error:
        raise DeploymentFailed(str(error)) from error


def _must_replace(resource_type: ResourceType, new: Properties, old: DeployedResource) -> bool:
    return any(new.get(name) != old.properties.get(name) for name in resource_type.replaced_on_change_of)
