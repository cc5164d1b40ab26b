"""Resource types AWS::IAM::*."""

import json
from typing import Any

from infra.local.cloudformation.resource_type import CreatedResource, Properties, ResourceContext, ResourceType

_ROLE = frozenset(
    {
        "AssumeRolePolicyDocument",
        "Description",
        "ManagedPolicyArns",
        "MaxSessionDuration",
        "Path",
        "PermissionsBoundary",
        "Policies",
        "RoleName",
        "Tags",
    }
)


def _create(context: ResourceContext, properties: Properties) -> CreatedResource:
    iam = context.client("iam")
    name = properties.get("RoleName") or context.generated_name[:64]
    desired = {key: properties[key] for key in ("Description", "Path", "PermissionsBoundary") if key in properties}
    role = iam.create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps(properties["AssumeRolePolicyDocument"]), **desired
    )["Role"]
    resource = CreatedResource(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})
    try:
        return _update(context, resource, properties, {})
    except Exception:
        _delete(context, resource, properties)
        raise


def _update(context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties) -> CreatedResource:
    iam, role = context.client("iam"), {"RoleName": resource.name}
    trust = json.dumps(new["AssumeRolePolicyDocument"])
    iam.update_assume_role_policy(PolicyDocument=trust, **role)
    kept = {policy["PolicyName"] for policy in new.get("Policies", [])}
    for policy in old.get("Policies", []):
        if policy["PolicyName"] not in kept:
            iam.delete_role_policy(PolicyName=policy["PolicyName"], **role)
    for policy in new.get("Policies", []):
        document = json.dumps(policy["PolicyDocument"])
        iam.put_role_policy(PolicyName=policy["PolicyName"], PolicyDocument=document, **role)
    attached, desired = set(old.get("ManagedPolicyArns", [])), set(new.get("ManagedPolicyArns", []))
    for arn in attached - desired:
        iam.detach_role_policy(PolicyArn=arn, **role)
    for arn in desired - attached:
        iam.attach_role_policy(PolicyArn=arn, **role)
    if tags := new.get("Tags"):
        iam.tag_role(Tags=tags, **role)
    if new.get("PermissionsBoundary") != old.get("PermissionsBoundary"):
        _set_boundary(iam, resource.name, new.get("PermissionsBoundary"))
    return resource


def _set_boundary(iam: Any, role: str, boundary: str | None) -> None:
    if boundary:
        iam.put_role_permissions_boundary(RoleName=role, PermissionsBoundary=boundary)
    else:
        iam.delete_role_permissions_boundary(RoleName=role)


def _delete(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    iam, role = context.client("iam"), {"RoleName": resource.name}
    for policy in iam.list_role_policies(**role)["PolicyNames"]:
        iam.delete_role_policy(PolicyName=policy, **role)
    for policy in iam.list_attached_role_policies(**role)["AttachedPolicies"]:
        iam.detach_role_policy(PolicyArn=policy["PolicyArn"], **role)
    iam.delete_role(**role)


def _create_policy(context: ResourceContext, properties: Properties) -> CreatedResource:
    document = json.dumps(properties["PolicyDocument"])
    for role in properties.get("Roles", []):
        context.client("iam").put_role_policy(
            RoleName=role, PolicyName=properties["PolicyName"], PolicyDocument=document
        )
    return CreatedResource(context.generated_name)


def _update_policy(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    _delete_policy(context, resource, old)
    _create_policy(context, new)
    return resource


def _delete_policy(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    for role in properties.get("Roles", []):
        context.client("iam").delete_role_policy(RoleName=role, PolicyName=properties["PolicyName"])


def _create_role_policy(context: ResourceContext, properties: Properties) -> CreatedResource:
    document = json.dumps(properties["PolicyDocument"])
    context.client("iam").put_role_policy(
        RoleName=properties["RoleName"], PolicyName=properties["PolicyName"], PolicyDocument=document
    )
    return CreatedResource(f"{properties['PolicyName']}|{properties['RoleName']}")


def _update_role_policy(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    return _create_role_policy(context, new)


def _delete_role_policy(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("iam").delete_role_policy(RoleName=properties["RoleName"], PolicyName=properties["PolicyName"])


RESOURCE_TYPES = [
    ResourceType("AWS::IAM::Role", _ROLE, _create, _update, _delete, frozenset({"RoleName", "Path"})),
    ResourceType(
        "AWS::IAM::Policy",
        frozenset({"PolicyDocument", "PolicyName", "Roles"}),
        _create_policy,
        _update_policy,
        _delete_policy,
    ),
    ResourceType(
        "AWS::IAM::RolePolicy",
        frozenset({"PolicyDocument", "PolicyName", "RoleName"}),
        _create_role_policy,
        _update_role_policy,
        _delete_role_policy,
        frozenset({"PolicyName", "RoleName"}),
    ),
]
