"""Rules about buckets and about what must outlive the stack."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from infra.template.delivery import denies_plain_http
from infra.template.findings import Found
from infra.template.stack import S3_ARN, Stack, listed, references, written

BUCKET, POLICY = "AWS::S3::Bucket", "AWS::S3::BucketPolicy"
STATEFUL = (
    BUCKET,
    POLICY,
    "AWS::S3Tables::TableBucket",
    "AWS::DynamoDB::Table",
    "AWS::EFS::FileSystem",
    "AWS::RDS::DBInstance",
)
PUT_AGAIN = tuple(
    f"tables/events/_blizzard/{state}"
    for source in ("runs", "pending")
    for state in (
        f"events_{source}/receipts/00000000000000000007.json.gz",
        f"events_{source}/dead_letters/runs_pending_x.json-0123/file.ndjson",
        f"events_{source}_sweep.json",
        f"events_{source}_checkpoint.json",
    )
)
"""Keys of state that is written more than once."""
WRITES = ("s3:PutObject", "s3:*", "*")


def state_outlives_the_stack(stack: Stack) -> Found:
    for name, resource in stack.template["Resources"].items():
        if resource["Type"] not in STATEFUL:
            continue
        if resource.get("UpdateReplacePolicy") != "Retain":
            yield name, "it would go when it is replaced; set UpdateReplacePolicy: Retain"
        if resource.get("DeletionPolicy") == "Retain":
            yield (
                name,
                "what a failed first deployment leaves blocks the next; set DeletionPolicy: RetainExceptOnCreate",
            )
        elif resource.get("DeletionPolicy") != "RetainExceptOnCreate":
            yield name, "it would go with the stack; set DeletionPolicy: RetainExceptOnCreate"


def only_numbered_objects_are_created_once(stack: Stack) -> Found:
    """What is put again, such as receipts, dead letters and reports, must not fall under the lake's refusal. A source
    may well be called `runs` or `pending`."""
    for name, policy in stack.of_type(POLICY).items():
        for resource in _created_once(policy):
            for key in PUT_AGAIN:
                if fnmatchcase(key, resource.partition("/")[2]):
                    yield name, f"{resource} covers {key}, which is put again; narrow it"


def buckets_are_sealed(stack: Stack) -> Found:
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


def buckets_forget(stack: Stack) -> Found:
    """Versions and unfinished uploads are paid for until somebody deletes them."""
    for name, bucket in stack.of_type(BUCKET).items():
        rules = bucket.get("LifecycleConfiguration", {}).get("Rules", ())
        for what in ("NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"):
            if not any(what in rule and rule["Status"] == "Enabled" for rule in rules):
                yield name, f"nothing ends in it; set a lifecycle rule with {what}"
        if bucket.get("VersioningConfiguration", {}).get("Status") != "Enabled":
            yield name, "what is overwritten or deleted by mistake is gone; set VersioningConfiguration"


def numbered_objects_are_created_once(stack: Stack) -> Found:
    """The lake's policy refuses a PUT of a segment or a run record without If-None-Match."""
    wanted = {f"{S3_ARN}${{LakeBucketName}}/*_blizzard/{part}" for part in ("*/pending/*", "_runs/*")}
    for name, bucket in stack.of_type(BUCKET).items():
        if written(bucket.get("BucketName")) != "${LakeBucketName}":
            continue
        denied = {resource for policy in _policies(stack, name) for resource in _created_once(policy)}
        for resource in sorted(wanted - denied):
            yield name, f"a PUT without If-None-Match could overwrite {resource}; deny it in the bucket policy"


def _created_once(policy: dict[str, Any]) -> Iterator[str]:
    for statement in policy["PolicyDocument"]["Statement"]:
        if (
            statement["Effect"] == "Deny"
            and statement["Action"] == "s3:PutObject"
            and statement.get("Condition")
            == {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}
        ):
            yield from (written(resource) for resource in listed(statement["Resource"]))


def nothing_writes_where_files_land(stack: Stack) -> Found:
    """What the stack writes must not be announced as landed: Lambda's own loop detection does not see EMR."""
    for where, bucket, prefix in _announced(stack):
        for role, other, key in _written(stack):
            if bucket == other and _may_meet(prefix, key):
                yield where, f"{role} may write {other}/{key}, which would be announced; separate the two"
            elif bucket != other and not _asserted_apart(stack, bucket, other):
                yield where, f"nothing keeps {bucket} and {other} from being the same bucket; assert it in Rules"


def _announced(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """Logical id, bucket and prefix of everything whose new objects are announced."""
    for name, bucket in stack.of_type(BUCKET).items():
        notifications = bucket.get("NotificationConfiguration", {})
        for kind in ("QueueConfigurations", "LambdaConfigurations", "TopicConfigurations"):
            for notification in notifications.get(kind, ()):
                rules = notification.get("Filter", {}).get("S3Key", {}).get("Rules", ())
                prefixes = [written(rule["Value"]) for rule in rules if rule["Name"] == "prefix"]
                yield name, written(bucket["BucketName"]), "".join(prefixes)
    for name, rule in stack.of_type("AWS::Events::Rule").items():
        pattern = rule.get("EventPattern", {})
        if "aws.s3" in pattern.get("source", ()):
            keys = pattern["detail"].get("object", {}).get("key", [{"prefix": ""}])
            for bucket in pattern["detail"]["bucket"]["name"]:
                yield name, written(bucket), written(keys[0]["prefix"])


def _written(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """Role, bucket and key of everything that a role may write."""
    for role, properties in stack.of_type("AWS::IAM::Role").items():
        for policy in properties.get("Policies", ()):
            for statement in policy["PolicyDocument"]["Statement"]:
                if statement["Effect"] == "Allow" and set(listed(statement.get("Action"))) & set(WRITES):
                    for resource in listed(statement.get("Resource")):
                        bucket, _, key = written(resource).removeprefix(S3_ARN).partition("/")
                        yield role, bucket, key


def _may_meet(prefix: str, key: str) -> bool:
    fixed = key.partition("*")[0]
    return fixed.startswith(prefix) or prefix.startswith(fixed)


def _asserted_apart(stack: Stack, one: str, other: str) -> bool:
    asserted = [a["Assert"] for rule in stack.template.get("Rules", {}).values() for a in rule["Assertions"]]
    apart = [condition["Fn::Not"][0]["Fn::Equals"] for condition in asserted if "Fn::Not" in condition]
    return any({written(side) for side in sides} == {one, other} for sides in apart)


def _policies(stack: Stack, bucket: str) -> list[dict[str, Any]]:
    policies = stack.of_type(POLICY).values()
    return [policy for policy in policies if bucket in references(policy["Bucket"])]


RULES = (
    state_outlives_the_stack,
    buckets_are_sealed,
    buckets_forget,
    numbered_objects_are_created_once,
    only_numbered_objects_are_created_once,
    nothing_writes_where_files_land,
)
