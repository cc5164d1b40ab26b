"""Rules about KMS keys: what is encrypted with the stack's key, and who may use it."""

from collections.abc import Iterator

from infra.template.access import ROLE, statements
from infra.template.buckets import BUCKET
from infra.template.evaluated import S3_ARN, EvaluatedTemplate, as_list, as_text, branches
from infra.template.findings import RuleFindings
from infra.template.queues import QUEUE
from infra.template.references import references
from infra.template.runtime import LOG_GROUP
from infra.template.translate import Template

KEY = "KmsKeyArn"
NEEDED = {
    "s3:GetObject": {"kms:Decrypt"},
    "s3:PutObject": {"kms:Decrypt", "kms:GenerateDataKey"},
    "sqs:ReceiveMessage": {"kms:Decrypt"},
    "sqs:SendMessage": {"kms:Decrypt", "kms:GenerateDataKey"},
}
"""What a caller must be allowed to do with the key of a bucket or a queue. CloudWatch Logs uses a key by itself."""


def everything_takes_the_key(stack: EvaluatedTemplate) -> RuleFindings:
    for name, resource in stack.with_conditions["Resources"].items():
        if resource["Type"] in (BUCKET, QUEUE, LOG_GROUP) and KEY not in references(resource["Properties"]):
            yield name, f"it is not encrypted with the key of an account that requires one; set {KEY}"


def buckets_have_bucket_keys(stack: EvaluatedTemplate) -> RuleFindings:
    """Without them, KMS is asked for each object."""
    for name, bucket in stack.of_type(BUCKET).items():
        for rule in bucket.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", ()):
            by_kms = rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
            if by_kms and rule.get("BucketKeyEnabled") is not True:
                yield name, "each object costs a request to KMS; set BucketKeyEnabled: true"


def roles_may_use_the_key_of_what_they_touch(stack: EvaluatedTemplate) -> RuleFindings:
    """With a key, a grant for a bucket or a queue is nothing without one for the key. No more than what may be needed
    with any parameters."""
    for role in stack.of_type(ROLE):
        for service in ("s3", "sqs"):
            allowed = _allowed(stack, role, service)
            for action in sorted(_needed(stack.template, role, service) - allowed):
                yield role, f"what it may do in {service} fails without {action}; allow it for {KEY} by {service}"
            for action in sorted(allowed - _needed(stack.with_conditions, role, service)):
                yield role, f"it needs no {action} by {service}; remove it from the statement for {KEY}"


def _encrypted(template: Template) -> Iterator[str]:
    """The beginnings of the ARNs of buckets and queues with the key, as roles write them."""
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == QUEUE and "KmsMasterKeyId" in properties:
            yield f"${{{name}.Arn}}"
        if resource["Type"] == BUCKET and KEY in references(properties.get("BucketEncryption")):
            yield f"{S3_ARN}{as_text(properties['BucketName'])}/"


def _needed(template: Template, role: str, service: str) -> set[str]:
    encrypted = tuple(_encrypted(template))
    return {
        right
        for name, statement in statements(template)
        for resource in branches(statement.get("Resource"))
        if name == role and as_text(resource).startswith(encrypted)
        for action in as_list(statement["Action"])
        if action.startswith(f"{service}:")
        for right in NEEDED.get(action, ())
    }


def _allowed(stack: EvaluatedTemplate, role: str, service: str) -> set[str]:
    return {
        action
        for name, statement in statements(stack.template)
        if name == role and KEY in references(statement.get("Resource"))
        for via in as_list(statement.get("Condition", {}).get("StringEquals", {}).get("kms:ViaService"))
        if as_text(via) == f"{service}.${{AWS::Region}}.${{AWS::URLSuffix}}"
        for action in as_list(statement["Action"])
    }


RULES = (everything_takes_the_key, buckets_have_bucket_keys, roles_may_use_the_key_of_what_they_touch)
