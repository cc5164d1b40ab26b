"""Rules about buckets, and about state that must outlive the stack."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from infra.template.evaluated import S3_ARN, EvaluatedTemplate, as_list, as_text
from infra.template.findings import RuleFindings
from infra.template.queues import ATTACHED, denies_plain_http
from infra.template.references import references

BUCKET, POLICY = "AWS::S3::Bucket", "AWS::S3::BucketPolicy"
STATEFUL = (
    BUCKET,
    POLICY,
    "AWS::S3Tables::TableBucket",
    "AWS::DynamoDB::Table",
    "AWS::EFS::FileSystem",
    "AWS::RDS::DBInstance",
)
REWRITTEN_KEYS = tuple(
    f"tables/events/_blizzard/{state}"
    for source in ("runs", "pending")
    for state in (
        f"events_{source}/receipts/00000000000000000007.json.gz",
        f"events_{source}/dead_letters/runs_pending_x.json-0123/file.ndjson",
        f"events_{source}_sweep.json",
        f"events_{source}_checkpoint.json",
    )
)
"""Examples of keys that are written more than once."""
WRITES = ("s3:PutObject", "s3:*", "*")


def state_outlives_the_stack(stack: EvaluatedTemplate) -> RuleFindings:
    for name, resource in stack.template["Resources"].items():
        if resource["Type"] not in STATEFUL:
            continue
        if resource.get("UpdateReplacePolicy") != "Retain":
            yield name, "a replacement would delete it; set UpdateReplacePolicy: Retain"
        if resource.get("DeletionPolicy") == "Retain":
            yield (
                name,
                "left by a failed first deployment, it would block the next; set DeletionPolicy: RetainExceptOnCreate",
            )
        elif resource.get("DeletionPolicy") != "RetainExceptOnCreate":
            yield name, "it would be deleted with the stack; set DeletionPolicy: RetainExceptOnCreate"


def rewritten_objects_may_be_overwritten(stack: EvaluatedTemplate) -> RuleFindings:
    """The create-once policy must not match receipts, dead letters and reports, even of a source named `runs` or
    `pending`."""
    for name, policy in stack.of_type(POLICY).items():
        for resource in _created_once(policy):
            for key in REWRITTEN_KEYS:
                if fnmatchcase(key, resource.partition("/")[2]):
                    yield name, f"{resource} covers {key}, which is written again; narrow it"


def buckets_are_private_encrypted_and_require_tls(stack: EvaluatedTemplate) -> RuleFindings:
    for name, bucket in stack.of_type(BUCKET).items():
        blocked = bucket.get("PublicAccessBlockConfiguration", {})
        kinds = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
        if not all(blocked.get(kind) is True for kind in kinds):
            yield name, f"it could be made public; set PublicAccessBlockConfiguration with {', '.join(kinds)}"
        if "BucketEncryption" not in bucket:
            yield name, "its encryption is left to a default; set BucketEncryption"
        owners = [rule.get("ObjectOwnership") for rule in bucket.get("OwnershipControls", {}).get("Rules", ())]
        if owners != ["BucketOwnerEnforced"]:
            yield name, "objects may belong to others; set OwnershipControls to BucketOwnerEnforced"
        if not any(denies_plain_http(policy["PolicyDocument"]) for policy in _policies(stack, name)):
            yield name, "it can be reached without TLS; deny that in a bucket policy (aws:SecureTransport)"


def buckets_expire_old_versions(stack: EvaluatedTemplate) -> RuleFindings:
    """Old versions and unfinished uploads cost money until they are deleted."""
    for name, bucket in stack.of_type(BUCKET).items():
        rules = bucket.get("LifecycleConfiguration", {}).get("Rules", ())
        for what in ("NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"):
            if not any(what in rule and rule["Status"] == "Enabled" for rule in rules):
                yield name, f"nothing expires in it; set a lifecycle rule with {what}"
        if bucket.get("VersioningConfiguration", {}).get("Status") != "Enabled":
            yield name, "objects overwritten or deleted by mistake are lost; set VersioningConfiguration"


def numbered_objects_are_created_once(stack: EvaluatedTemplate) -> RuleFindings:
    """The lake's policy refuses a PUT of a segment or a run record without If-None-Match."""
    required = {f"{S3_ARN}${{LakeBucketName}}/*_blizzard/{part}" for part in ("*/pending/*", "_runs/*")}
    for name, bucket in stack.of_type(BUCKET).items():
        if as_text(bucket.get("BucketName")) != "${LakeBucketName}":
            continue
        denied = {resource for policy in _policies(stack, name) for resource in _created_once(policy)}
        for resource in sorted(required - denied):
            yield name, f"a PUT without If-None-Match could overwrite {resource}; deny it in the bucket policy"


def _created_once(policy: dict[str, Any]) -> Iterator[str]:
    for statement in policy["PolicyDocument"]["Statement"]:
        if (
            statement["Effect"] == "Deny"
            and statement["Action"] == "s3:PutObject"
            and statement.get("Condition")
            == {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}
        ):
            yield from (as_text(resource) for resource in as_list(statement["Resource"]))


def filters_are_encoded(stack: EvaluatedTemplate) -> RuleFindings:
    """S3 compares the filter of a notification with the encoded key: one with a plain `=` matches nothing."""
    encode = "S3 wants it encoded as %3D; use Fn::Join and Fn::Split"
    for name, bucket in stack.of_type(BUCKET).items():
        for value in (rule["Value"] for notification in _notifications(bucket) for rule in _rules(notification)):
            if isinstance(value, str) and "=" in value:
                yield name, f"the filter {value} has a `=`; {encode}"
            for parameter in references(value) if _decoded(value) == value else ():
                if re.fullmatch(stack.template["Parameters"][parameter].get("AllowedPattern", ".*"), "a=b"):
                    yield name, f"{parameter} may have a `=`; {encode}"


def _decoded(value: Any) -> Any:
    """Of a value in which Fn::Join and Fn::Split encode each `=`, that value; any other as it is."""
    match value:
        case {"Fn::Join": ["%3D", {"Fn::Split": ["=", inner]}]}:
            return inner
    return value


def nothing_writes_to_the_landing_prefix(stack: EvaluatedTemplate) -> RuleFindings:
    """The stack's own writes must not trigger events for landed files. Lambda's loop detection does not cover EMR."""
    for where, bucket, prefix in _notifying_prefixes(stack):
        for role, other, key in _writable_keys(stack):
            if bucket == other and _may_overlap(prefix, key):
                yield where, f"{role} may write {other}/{key}, which would trigger events; separate the two"
            elif bucket != other and not _asserted_different(stack, bucket, other):
                yield where, f"{bucket} and {other} may be the same bucket; assert in Rules that they differ"


def _notifying_prefixes(stack: EvaluatedTemplate) -> Iterator[tuple[str, str, str]]:
    """Logical id, bucket and prefix of everything whose new objects trigger events."""
    for name, bucket in stack.of_type(BUCKET).items():
        for notification in _notifications(bucket):
            prefixes = [as_text(_decoded(rule["Value"])) for rule in _rules(notification) if rule["Name"] == "prefix"]
            yield name, as_text(bucket["BucketName"]), "".join(prefixes)
    for name, attached in stack.of_type(ATTACHED).items():
        yield name, as_text(attached["BucketName"]), as_text(attached["Prefix"])
    for name, rule in stack.of_type("AWS::Events::Rule").items():
        pattern = rule.get("EventPattern", {})
        if "aws.s3" in pattern.get("source", ()):
            keys = pattern["detail"].get("object", {}).get("key", [{"prefix": ""}])
            for bucket in pattern["detail"]["bucket"]["name"]:
                yield name, as_text(bucket), as_text(keys[0]["prefix"])


def _notifications(bucket: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    configured = bucket.get("NotificationConfiguration", {})
    for kind in ("QueueConfigurations", "LambdaConfigurations", "TopicConfigurations"):
        yield from configured.get(kind, ())


def _rules(notification: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    rules: Sequence[Mapping[str, Any]] = notification.get("Filter", {}).get("S3Key", {}).get("Rules", ())
    return rules


def _writable_keys(stack: EvaluatedTemplate) -> Iterator[tuple[str, str, str]]:
    """Role, bucket and key pattern that the role may write."""
    for role, properties in stack.of_type("AWS::IAM::Role").items():
        for policy in properties.get("Policies", ()):
            for statement in policy["PolicyDocument"]["Statement"]:
                if statement["Effect"] == "Allow" and set(as_list(statement.get("Action"))) & set(WRITES):
                    for resource in as_list(statement.get("Resource")):
                        bucket, _, key = as_text(resource).removeprefix(S3_ARN).partition("/")
                        yield role, bucket, key


def _may_overlap(prefix: str, key: str) -> bool:
    fixed = key.partition("*")[0]
    return fixed.startswith(prefix) or prefix.startswith(fixed)


def _asserted_different(stack: EvaluatedTemplate, one: str, other: str) -> bool:
    asserted = [a["Assert"] for rule in stack.template.get("Rules", {}).values() for a in rule["Assertions"]]
    apart = [condition["Fn::Not"][0]["Fn::Equals"] for condition in asserted if "Fn::Not" in condition]
    return any({as_text(side) for side in sides} == {one, other} for sides in apart)


def _policies(stack: EvaluatedTemplate, bucket: str) -> list[dict[str, Any]]:
    policies = stack.of_type(POLICY).values()
    return [policy for policy in policies if bucket in references(policy["Bucket"])]


RULES = (
    state_outlives_the_stack,
    buckets_are_private_encrypted_and_require_tls,
    buckets_expire_old_versions,
    numbered_objects_are_created_once,
    rewritten_objects_may_be_overwritten,
    nothing_writes_to_the_landing_prefix,
    filters_are_encoded,
)
