"""Rules about what an account may require of every stack: roles, names, partitions, other accounts."""

import json
import re

from infra.template.access import ROLE
from infra.template.buckets import POLICY
from infra.template.evaluated import EvaluatedTemplate, as_list, as_text
from infra.template.findings import RuleFindings
from infra.template.references import references

NAME_OF = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::EMRServerless::Application": "Name",
    "AWS::Events::Rule": "Name",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::Scheduler::Schedule": "Name",
}
WRITES = {"s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"}
ONE_PARTITION = re.compile(r"arn:aws[a-z-]*:\w*")
LOG_GROUPS = "/blizzard/"


def roles_keep_to_the_boundary(stack: EvaluatedTemplate) -> RuleFindings:
    """Where an account requires a boundary or a path, it refuses a role without them."""
    for name, resource in stack.with_conditions["Resources"].items():
        for key, parameter in (("Path", "RolePath"), ("PermissionsBoundary", "PermissionsBoundaryArn")):
            if resource["Type"] == ROLE and parameter not in references(resource["Properties"].get(key)):
                yield name, f"an account that requires a {key} would refuse it; set {key} to {parameter}"


def names_begin_with_the_stacks(stack: EvaluatedTemplate) -> RuleFindings:
    """So that the stack's name is a prefix for all of them, as it is for names that CloudFormation generates."""
    for name, resource in stack.template["Resources"].items():
        given = resource.get("Properties", {}).get(NAME_OF.get(resource["Type"], ""))
        text = as_text(given).removeprefix(LOG_GROUPS)
        if given is not None and not text.startswith("${AWS::StackName}"):
            yield name, f"expected a name that begins with ${{AWS::StackName}}, or none, found {text}"


def roles_have_generated_names(stack: EvaluatedTemplate) -> RuleFindings:
    for name, role in stack.of_type(ROLE).items():
        if "RoleName" in role:
            yield name, "with a name of its own, CAPABILITY_IAM is not enough to deploy it; remove RoleName"


def arns_name_the_partition(stack: EvaluatedTemplate) -> RuleFindings:
    """A stack in GovCloud or China has ARNs of its own partition."""
    for section in ("Resources", "Outputs"):
        for name, item in stack.with_conditions.get(section, {}).items():
            for found in sorted(set(ONE_PARTITION.findall(json.dumps(item)))):
                yield name, f"{found} is of one partition; write arn:${{AWS::Partition}}: in Fn::Sub"


def outsiders_may_only_write(stack: EvaluatedTemplate) -> RuleFindings:
    """Nobody gets more from a bucket's policy than the right to write; the stack's roles have policies of their own."""
    for name, policy in stack.of_type(POLICY).items():
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Effect"] != "Allow":
                continue
            more = sorted(set(as_list(statement["Action"])) - WRITES)
            if more or "ProducerPrincipals" not in references(statement["Principal"]):
                what = ", ".join(more) or "something"
                yield name, f"{statement['Sid']}: it allows {what} to others; allow only writing, to ProducerPrincipals"
            for resource in as_list(statement["Resource"]):
                if not as_text(resource).endswith("/${LandingPrefix}*"):
                    yield name, f"{statement['Sid']}: expected only keys below LandingPrefix, found {as_text(resource)}"


RULES = (
    roles_keep_to_the_boundary,
    names_begin_with_the_stacks,
    roles_have_generated_names,
    arns_name_the_partition,
    outsiders_may_only_write,
)
