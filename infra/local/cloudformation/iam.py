"""AWS::IAM::…"""

import json

from infra.local.cloudformation.resource_type import Kind, Made, Place, Properties

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


def _create(place: Place, properties: Properties) -> Made:
    iam = place.client("iam")
    name = properties.get("RoleName") or place.generated[:64]
    wanted = {key: properties[key] for key in ("Description", "Path", "PermissionsBoundary") if key in properties}
    role = iam.create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps(properties["AssumeRolePolicyDocument"]), **wanted
    )["Role"]
    made = Made(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})
    try:
        return _update(place, made, properties, {})
    except Exception:
        _delete(place, made, properties)
        raise


def _update(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    iam, role = place.client("iam"), {"RoleName": made.name}
    trust = json.dumps(new["AssumeRolePolicyDocument"])
    iam.update_assume_role_policy(PolicyDocument=trust, **role)
    kept = {policy["PolicyName"] for policy in new.get("Policies", [])}
    for policy in old.get("Policies", []):
        if policy["PolicyName"] not in kept:
            iam.delete_role_policy(PolicyName=policy["PolicyName"], **role)
    for policy in new.get("Policies", []):
        document = json.dumps(policy["PolicyDocument"])
        iam.put_role_policy(PolicyName=policy["PolicyName"], PolicyDocument=document, **role)
    attached, wanted = set(old.get("ManagedPolicyArns", [])), set(new.get("ManagedPolicyArns", []))
    for arn in attached - wanted:
        iam.detach_role_policy(PolicyArn=arn, **role)
    for arn in wanted - attached:
        iam.attach_role_policy(PolicyArn=arn, **role)
    if tags := new.get("Tags"):
        iam.tag_role(Tags=tags, **role)
    return made


def _delete(place: Place, made: Made, properties: Properties) -> None:
    iam, role = place.client("iam"), {"RoleName": made.name}
    for policy in iam.list_role_policies(**role)["PolicyNames"]:
        iam.delete_role_policy(PolicyName=policy, **role)
    for policy in iam.list_attached_role_policies(**role)["AttachedPolicies"]:
        iam.detach_role_policy(PolicyArn=policy["PolicyArn"], **role)
    iam.delete_role(**role)


def _create_policy(place: Place, properties: Properties) -> Made:
    document = json.dumps(properties["PolicyDocument"])
    for role in properties.get("Roles", []):
        place.client("iam").put_role_policy(RoleName=role, PolicyName=properties["PolicyName"], PolicyDocument=document)
    return Made(place.generated)


def _update_policy(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    _delete_policy(place, made, old)
    _create_policy(place, new)
    return made


def _delete_policy(place: Place, made: Made, properties: Properties) -> None:
    for role in properties.get("Roles", []):
        place.client("iam").delete_role_policy(RoleName=role, PolicyName=properties["PolicyName"])


KINDS = [
    Kind("AWS::IAM::Role", _ROLE, _create, _update, _delete, frozenset({"RoleName", "Path"})),
    Kind(
        "AWS::IAM::Policy",
        frozenset({"PolicyDocument", "PolicyName", "Roles"}),
        _create_policy,
        _update_policy,
        _delete_policy,
    ),
]
