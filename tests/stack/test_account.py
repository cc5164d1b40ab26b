"""The shipped template in accounts with rules of their own: boundaries, paths, tags."""

from typing import Any

import pytest

from infra.template.access import ROLE
from infra.template.translate import Template
from tests.stack.test_template import chosen, of

BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"


def roles(template: Template) -> dict[str, Any]:
    return {name: r["Properties"] for name, r in template["Resources"].items() if r["Type"] == ROLE}


def statements(template: Template, role: str) -> dict[str, Any]:
    (policy,) = of(template, role)["Policies"]
    return {statement["Sid"]: statement for statement in policy["PolicyDocument"]["Statement"]}


def test_every_role_has_the_boundary_and_the_path() -> None:
    found = roles(chosen(PermissionsBoundaryArn=BOUNDARY))
    assert len(found) == 5
    assert {role["PermissionsBoundary"]["Ref"] for role in found.values()} == {"PermissionsBoundaryArn"}
    assert {role["Path"]["Ref"] for role in found.values()} == {"RolePath"}


def test_without_a_boundary_roles_have_none() -> None:
    assert not [name for name, role in roles(chosen()).items() if "PermissionsBoundary" in role]


def test_the_dispatcher_may_tag_runs_only_if_it_does() -> None:
    with_tags = chosen(RunTags="team=data")
    assert of(with_tags, "DispatcherFunction")["Environment"]["Variables"]["BLIZZARD_RUN_TAGS"] == {"Ref": "RunTags"}
    tag = statements(with_tags, "DispatcherRole")["TagRuns"]
    assert tag["Action"] == "emr-serverless:TagResource"
    assert tag["Resource"] == statements(with_tags, "DispatcherRole")["LookAtRuns"]["Resource"]
    assert "TagRuns" not in statements(chosen(), "DispatcherRole")


@pytest.mark.parametrize(
    ("partition", "domain"),
    [("aws", "aws.amazon.com"), ("aws-us-gov", "amazonaws-us-gov.com"), ("aws-cn", "amazonaws.cn")],
)
def test_the_dashboards_address_is_of_the_partitions_console(partition: str, domain: str) -> None:
    text, values = chosen(**{"AWS::Partition": partition})["Outputs"]["DashboardUrl"]["Value"]["Fn::Sub"]
    assert text.startswith("https://${AWS::Region}.console.${Domain}/cloudwatch/")
    assert values == {"Domain": domain}
