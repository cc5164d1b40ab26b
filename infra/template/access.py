"""Rules about IAM roles and policies."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from infra.template.evaluated import S3_ARN, EvaluatedTemplate, as_list, as_text, branches
from infra.template.findings import RuleFindings
from infra.template.references import references
from infra.template.translate import Template

ROLE, ROLE_POLICY = "AWS::IAM::Role", "AWS::IAM::RolePolicy"

ALLOWED_WILDCARDS: Mapping[tuple[str, str, str], str] = {
    (
        "CollectorRole",
        "ReadConfiguration",
        "${ArtifactsBucketName}/*config-*.json",
    ): "any configuration: during an update, functions of the version before still read theirs",
    ("CollectorRole", "CreateSegments", "${LakeBucketName}/*_blizzard/*/pending/*"): "tables and sources are named in "
    "the configuration, segments are numbered",
    (
        "CollectorRole",
        "FindThePosition",
        "${LakeBucketName}/*_blizzard/*_checkpoint.json",
    ): "checkpoint copies of every table",
    ("DispatcherRole", "ReadConfiguration", "${ArtifactsBucketName}/*config-*.json"): "as the collector",
    ("DispatcherRole", "ReadState", "${LakeBucketName}/*_blizzard/*/pending/*"): "segments of every table",
    ("DispatcherRole", "ReadState", "${LakeBucketName}/*_blizzard/*/receipts/*"): "looks up which files are settled",
    ("DispatcherRole", "ReadState", "${LakeBucketName}/*_blizzard/*/ledger/*"): "looks up which files are settled",
    ("DispatcherRole", "ReadState", "${LakeBucketName}/*_blizzard/*/bases/*"): "what large checkpoint copies name",
    (
        "DispatcherRole",
        "ReadState",
        "${LakeBucketName}/*_blizzard/*_checkpoint.json",
    ): "checkpoint copies of every table",
    ("DispatcherRole", "ReadState", "${LakeBucketName}/*_blizzard/_runs/*"): "run records of every pipeline",
    ("DispatcherRole", "RecordRuns", "${LakeBucketName}/*_blizzard/_runs/*"): "run records are numbered",
    (
        "DispatcherRole",
        "LookAtRuns",
        "arn:${AWS::Partition}:emr-serverless:${AWS::Region}:${AWS::AccountId}:/applications/${Application}/jobruns/*",
    ): "a run's id is not known before it is started",
    (
        "DispatcherRole",
        "TagRuns",
        "arn:${AWS::Partition}:emr-serverless:${AWS::Region}:${AWS::AccountId}:/applications/${Application}/jobruns/*",
    ): "tags are given with the start of a run",
    ("SweeperRole", "ReadConfiguration", "${ArtifactsBucketName}/*config-*.json"): "as the collector",
    ("SweeperRole", "ReadState", "${LakeBucketName}/*_blizzard/*/pending/*"): "segments of every table",
    ("SweeperRole", "ReadState", "${LakeBucketName}/*_blizzard/*/receipts/*"): "sweeps look up known files there",
    ("SweeperRole", "ReadState", "${LakeBucketName}/*_blizzard/*/ledger/*"): "sweeps look up known files there",
    ("SweeperRole", "ReadState", "${LakeBucketName}/*_blizzard/*/bases/*"): "what large checkpoint copies name",
    ("SweeperRole", "ReadState", "${LakeBucketName}/*_blizzard/*/schema_changes/*"): "sweeps count them as a metric",
    ("SweeperRole", "ReadState", "${LakeBucketName}/*_blizzard/*_checkpoint.json"): "checkpoint copies of every table",
    ("SweeperRole", "ReadState", "${LakeBucketName}/*_blizzard/*_sweep.json"): "its own reports",
    ("SweeperRole", "CreateSegmentsAndReport", "${LakeBucketName}/*_blizzard/*/pending/*"): "as the collector",
    (
        "SweeperRole",
        "CreateSegmentsAndReport",
        "${LakeBucketName}/*_blizzard/*_sweep.json",
    ): "one report for each source",
    (
        "SweeperRole",
        "RegisterTables",
        "arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:table/${GlueDatabase}/*",
    ): "tables are named in the configuration; only of one database",
    ("JobRole", "ReadArtifacts", "${ArtifactsBucketName}/*config-*.json"): "a run that started before an update "
    "still reads its own files",
    ("JobRole", "ReadArtifacts", "${ArtifactsBucketName}/*entry-*.py"): "as its configuration",
    (
        "JobRole",
        "ReadArtifacts",
        "${ArtifactsBucketName}/*job-*.tar.gz",
    ): "as its configuration; executors fetch it later",
    ("JobRole", "ReadArtifacts", "${ArtifactsBucketName}/*logstore-*.jar"): "as its configuration",
    ("JobRole", "ReadLanding", "${LandingBucketName}/${LandingPrefix}*"): "the job reads every landed file",
    ("JobRole", "ReadLanding", "${LandingBucketName2}/${LandingPrefix2}*"): "as the first landing bucket",
    ("JobRole", "ReadLanding", "${LandingBucketName3}/${LandingPrefix3}*"): "as the first landing bucket",
    ("JobRole", "ReadLanding", "${LandingBucketName4}/${LandingPrefix4}*"): "as the first landing bucket",
    ("JobRole", "ReadTopics", "${Topics}/*"): "topics are named in the configuration; only of one cluster",
    ("JobRole", "ReadLake", "${LakeBucketName}/*"): "S3A asks whether a folder above a table is a file",
    ("JobRole", "WriteLake", "${LakeBucketName}/${LakePrefix}*"): "the job writes every table below it",
    ("JobRole", "FindLogGroup", "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:*"): "DescribeLogGroups "
    "supports no narrower resource; EMR Serverless needs it",
}
"""By role, statement and resource (without the ARN prefix of S3): the reason for its `*`."""


DEAD_LETTERS = tuple(
    f"${{LakeBucketName}}/tables/events/_blizzard/events_{source}/dead_letters/{folder}/{name}"
    for source in ("landing", "runs", "pending", "receipts", "ledger", "bases")
    for folder in ("raw_pending_receipts__runs_x_checkpoint.json-0123", "x_sweep.json-0123")
    for name in ("file.ndjson", "records-000000000000.ndjson")
)
"""Keys that must match no readable pattern, even with names of sources and files that look like other state."""


def wildcards_have_a_reason(stack: EvaluatedTemplate) -> RuleFindings:
    for role, statement, pattern in _wildcards(stack.template):
        if (role, statement, pattern) not in ALLOWED_WILDCARDS:
            yield role, f"{statement}: {pattern} has a wildcard; narrow it, or give its reason in ALLOWED_WILDCARDS"


def reasons_have_a_wildcard(stack: EvaluatedTemplate) -> RuleFindings:
    unused = ALLOWED_WILDCARDS.keys() - set(_wildcards(stack.with_conditions))
    for role, statement, pattern in unused:
        yield role, f"{statement}: {pattern} is not in the template; remove its reason from ALLOWED_WILDCARDS"


def statements_have_names(stack: EvaluatedTemplate) -> RuleFindings:
    for role, statement in statements(stack.template):
        if not statement.get("Sid"):
            yield role, f"a statement for {statement['Action']} has no Sid; give it one"


def permissions_are_inline(stack: EvaluatedTemplate) -> RuleFindings:
    """AWS's managed policies grant more than needed, and AWS changes them."""
    for role, properties in stack.of_type(ROLE).items():
        if properties.get("ManagedPolicyArns"):
            yield role, "it has managed policies; write what it needs inline"


def roles_are_passed_to_one_service(stack: EvaluatedTemplate) -> RuleFindings:
    for role, statement in statements(stack.template):
        passed = statement.get("Condition", {}).get("StringEquals", {}).get("iam:PassedToService")
        if "iam:PassRole" in as_list(statement["Action"]) and passed is None:
            yield role, f"{statement.get('Sid')}: the role may be passed to any service; set iam:PassedToService"


def services_act_for_this_account_only(stack: EvaluatedTemplate) -> RuleFindings:
    """Except Lambda, which assumes a role only for a function in the role's account."""
    for role, properties in stack.of_type(ROLE).items():
        for statement in properties["AssumeRolePolicyDocument"]["Statement"]:
            lambda_itself = statement["Principal"] == {"Service": "lambda.amazonaws.com"}
            if not lambda_itself and "aws:SourceAccount" not in str(statement.get("Condition", {})):
                yield role, "a service may assume it for any account; set aws:SourceAccount"


def listing_is_limited_to_a_prefix(stack: EvaluatedTemplate) -> RuleFindings:
    """Functions list only the prefixes of their state and sources."""
    for role, statement in statements(stack.template):
        narrowed = "s3:prefix" in str(statement.get("Condition", {}))
        if role != "JobRole" and "s3:ListBucket" in as_list(statement["Action"]) and not narrowed:
            yield role, f"{statement.get('Sid')}: it may list the whole bucket; set a condition on s3:prefix"


def functions_read_no_records(stack: EvaluatedTemplate) -> RuleFindings:
    """Functions may not read dead letters, which hold customers' records."""
    functions = stack.of_type("AWS::Lambda::Function").values()
    roles = {role for function in functions for role in references(function["Role"])}
    for role, statement in statements(stack.template):
        reads = any(fnmatchcase("s3:getobject", action.lower()) for action in as_list(statement.get("Action")))
        if role not in roles or not reads:
            continue
        for resource in as_list(statement.get("Resource")):
            pattern = as_text(resource).removeprefix(S3_ARN)
            if any(fnmatchcase(key, pattern) for key in DEAD_LETTERS):
                yield role, f"{statement.get('Sid')}: {pattern} lets it read dead letters; narrow it"


def statements(template: Template) -> Iterator[tuple[str, dict[str, Any]]]:
    """Role and statement, for each Allow statement. Of a template with conditions, the statements of all branches."""
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        policies = [(name, it) for it in properties.get("Policies", ())] if resource["Type"] == ROLE else []
        if resource["Type"] == ROLE_POLICY:
            policies += [(role, properties) for role in references(properties["RoleName"])]
        for role, policy in policies:
            for statement in branches(policy["PolicyDocument"]["Statement"]):
                if statement["Effect"] == "Allow":
                    yield role, statement


def _wildcards(template: Template) -> Iterator[tuple[str, str, str]]:
    for role, statement in statements(template):
        parts = [*branches(statement.get("Action")), *branches(statement.get("Resource"))]
        if "NotAction" in statement or "NotResource" in statement:
            parts.append("*")
        for part in parts:
            text = as_text(part).removeprefix(S3_ARN)
            if "*" in text:
                yield role, statement.get("Sid", ""), text


RULES = (
    wildcards_have_a_reason,
    reasons_have_a_wildcard,
    statements_have_names,
    permissions_are_inline,
    roles_are_passed_to_one_service,
    services_act_for_this_account_only,
    listing_is_limited_to_a_prefix,
    functions_read_no_records,
)
