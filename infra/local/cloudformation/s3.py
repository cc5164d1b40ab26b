"""Resource types AWS::S3::*."""

import json
from typing import Any

from infra.local.cloudformation.resource_type import (
    CreatedResource,
    Properties,
    ResourceContext,
    ResourceType,
    UnsupportedResource,
)

_BUCKET = frozenset(
    {
        "BucketName",
        "BucketEncryption",
        "LifecycleConfiguration",
        "NotificationConfiguration",
        "OwnershipControls",
        "PublicAccessBlockConfiguration",
        "Tags",
        "VersioningConfiguration",
    }
)
_RULE = frozenset(
    {
        "AbortIncompleteMultipartUpload",
        "ExpirationInDays",
        "ExpiredObjectDeleteMarker",
        "Id",
        "NoncurrentVersionExpiration",
        "Prefix",
        "Status",
        "TagFilters",
    }
)
_NOTIFICATION = frozenset({"QueueConfigurations", "EventBridgeConfiguration"})


def _create(context: ResourceContext, properties: Properties) -> CreatedResource:
    name = properties.get("BucketName") or context.generated_name.lower()[:63]
    s3 = context.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    resource = CreatedResource(
        name,
        {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{s3.meta.region_name}.amazonaws.com",
        },
    )
    try:
        return _update(context, resource, properties, {})
    except Exception:
        s3.delete_bucket(Bucket=name)
        raise


def _update(context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties) -> CreatedResource:
    s3, bucket = context.client("s3"), resource.name
    for name, change in _CHANGES.items():
        if new.get(name) != old.get(name):
            change(s3, bucket, new.get(name))
    return resource


def _encryption(s3: Any, bucket: str, desired: Any) -> None:
    if not desired:
        s3.delete_bucket_encryption(Bucket=bucket)
        return
    rules = [_encryption_rule(rule) for rule in desired["ServerSideEncryptionConfiguration"]]
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})


def _encryption_rule(rule: Properties) -> Properties:
    by_default = {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]}
    return by_default | ({"BucketKeyEnabled": rule["BucketKeyEnabled"]} if "BucketKeyEnabled" in rule else {})


def _lifecycle(s3: Any, bucket: str, desired: Any) -> None:
    if not desired:
        s3.delete_bucket_lifecycle(Bucket=bucket)
        return
    rules = [_lifecycle_rule(rule) for rule in desired["Rules"]]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def _lifecycle_rule(rule: Properties) -> Properties:
    _reject_unknown(rule, _RULE, "a rule of LifecycleConfiguration")
    desired: Properties = {"Status": rule["Status"], "Filter": _filter(rule)}
    desired |= {"ID": rule["Id"]} if "Id" in rule else {}
    expiration = {
        api: rule[name]
        for name, api in (
            ("ExpirationInDays", "Days"),
            ("ExpiredObjectDeleteMarker", "ExpiredObjectDeleteMarker"),
        )
        if name in rule
    }
    if "Days" in expiration:
        expiration["Days"] = int(expiration["Days"])
    desired |= {"Expiration": expiration} if expiration else {}
    for name in ("NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"):
        if name in rule:
            desired[name] = {key: int(value) for key, value in rule[name].items()}
    return desired


def _filter(rule: Properties) -> Properties:
    tags, prefix = rule.get("TagFilters", []), rule.get("Prefix", "")
    if not tags:
        return {"Prefix": prefix}
    return {"And": {"Prefix": prefix, "Tags": tags}}


def _notification(s3: Any, bucket: str, desired: Any) -> None:
    desired = desired or {}
    _reject_unknown(desired, _NOTIFICATION, "NotificationConfiguration")
    notification: Properties = {
        "QueueConfigurations": [_to_queue(queue) for queue in desired.get("QueueConfigurations", [])]
    }
    flag = desired.get("EventBridgeConfiguration")
    if flag is not None and str(flag.get("EventBridgeEnabled", True)).lower() == "true":
        notification["EventBridgeConfiguration"] = {}
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=notification)


def _to_queue(queue: Properties) -> Properties:
    rules = queue.get("Filter", {}).get("S3Key", {}).get("Rules", [])
    return {"QueueArn": queue["Queue"], "Events": [queue["Event"]]} | (
        {"Filter": {"Key": {"FilterRules": rules}}} if rules else {}
    )


def _ownership(s3: Any, bucket: str, desired: Any) -> None:
    if desired:
        s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=desired)
    else:
        s3.delete_bucket_ownership_controls(Bucket=bucket)


def _public_access(s3: Any, bucket: str, desired: Any) -> None:
    if not desired:
        s3.delete_public_access_block(Bucket=bucket)
        return
    flags = {name: str(value).lower() == "true" for name, value in desired.items()}
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=flags)


def _tags(s3: Any, bucket: str, desired: Any) -> None:
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": desired or []})


def _versioning(s3: Any, bucket: str, desired: Any) -> None:
    status = (desired or {"Status": "Suspended"})["Status"]
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


_CHANGES = {
    "BucketEncryption": _encryption,
    "LifecycleConfiguration": _lifecycle,
    "NotificationConfiguration": _notification,
    "OwnershipControls": _ownership,
    "PublicAccessBlockConfiguration": _public_access,
    "Tags": _tags,
    "VersioningConfiguration": _versioning,
}


def _delete(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("s3").delete_bucket(Bucket=resource.name)


def _reject_unknown(found: Properties, supported: frozenset[str], where: str) -> None:
    if unknown := sorted(found.keys() - supported):
        raise UnsupportedResource(
            f"{where}: {', '.join(unknown)} is not supported by the local AWS; "
            f"supported: {', '.join(sorted(supported))}"
        )


def _create_policy(context: ResourceContext, properties: Properties) -> CreatedResource:
    document = json.dumps(properties["PolicyDocument"])
    context.client("s3").put_bucket_policy(Bucket=properties["Bucket"], Policy=document)
    return CreatedResource(properties["Bucket"])


def _update_policy(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    return _create_policy(context, new)


def _delete_policy(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("s3").delete_bucket_policy(Bucket=resource.name)


RESOURCE_TYPES = [
    ResourceType("AWS::S3::Bucket", _BUCKET, _create, _update, _delete, frozenset({"BucketName"})),
    ResourceType(
        "AWS::S3::BucketPolicy",
        frozenset({"Bucket", "PolicyDocument"}),
        _create_policy,
        _update_policy,
        _delete_policy,
        frozenset({"Bucket"}),
    ),
]
