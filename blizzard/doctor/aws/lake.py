"""Checks of the lake bucket's own settings."""

from collections.abc import Sequence
from typing import Any

from blizzard.doctor.aws.stack import Stack, matches, statements, texts
from blizzard.doctor.check import Check, Finding, ok, warning

SAMPLES = ("_blizzard/a_b/pending/00000000000000000001", "_blizzard/_runs/a/00000000000000000001.json")
"""Numbered objects below a table."""
SECTION = "docs/deploy.md#a-lake-that-exists-already"


def _policy(stack: Stack) -> Finding:
    bucket = stack.parameters["LakeBucketName"]
    text = _unless_missing(stack, "get_bucket_policy", "NoSuchBucketPolicy").get("Policy")
    partition = stack.outputs["EventsQueueArn"].split(":")[1]
    prefix = f"arn:{partition}:s3:::{bucket}/{stack.parameters.get('LakePrefix', '')}table/"
    denied = [each for each in statements(text) if _denies_overwriting(each)]
    if all(any(matches(one, prefix + key) for each in denied for one in texts(each["Resource"])) for key in SAMPLES):
        return ok("nobody can overwrite a numbered object")
    return warning(
        f"the policy of {bucket} lets a PUT without a condition overwrite segments and run records",
        expected="the statement NumbersAreTakenOnce",
        advice=f"{SECTION} has it",
    )


def _denies_overwriting(statement: Any) -> bool:
    if_none_match = statement.get("Condition", {}).get("Null", {}).get("s3:if-none-match")
    return statement["Effect"] == "Deny" and if_none_match == "true" and "s3:PutObject" in texts(statement["Action"])


def _lifecycle(stack: Stack) -> Finding:
    found = _unless_missing(stack, "get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration").get(
        "Rules", ()
    )
    rules = [rule for rule in found if rule.get("Status") == "Enabled"]
    if any("AbortIncompleteMultipartUpload" in rule for rule in rules):
        return ok("incomplete uploads are aborted")
    return warning(
        "no lifecycle rule aborts incomplete uploads, so the parts of killed jobs stay and cost",
        expected="a rule with AbortIncompleteMultipartUpload",
        advice=f"{SECTION} says which",
    )


def _unless_missing(stack: Stack, call: str, code: str) -> dict[str, Any]:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]

    try:
        return dict(getattr(stack.client("s3"), call)(Bucket=stack.parameters["LakeBucketName"]))
    except ClientError as error:
        if error.response["Error"]["Code"] != code:
            raise
        return {}


CHECKS: Sequence[Check[Stack]] = (
    Check("aws.lake-policy", _policy, needs=("aws.stack",)),
    Check("aws.lake-lifecycle", _lifecycle, needs=("aws.stack",)),
)
