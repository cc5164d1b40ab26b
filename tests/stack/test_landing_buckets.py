"""Landing buckets of the shipped template that exist already, and further ones."""

from typing import Any

import pytest

from infra.template import access, buckets, queues
from infra.template.findings import findings
from infra.template.translate import Template
from tests.stack.broken_template import GONE, Broken, at
from tests.stack.test_template import chosen, of, refused, unresolved

FURTHER = {
    "LandingBucketName2": "second",
    "LandingPrefix2": "in/",
    "LandingBucketName3": "third",
    "LandingBucketName4": "fourth",
    "LandingPrefix4": "raw/day=1/",
}


def statements(template: Template, role: str) -> dict[str, Any]:
    """Of a role's inline policies, by their Sid."""
    return {s["Sid"]: s for policy in of(template, role)["Policies"] for s in policy["PolicyDocument"]["Statement"]}


def test_an_attached_landing_bucket_keeps_its_owner_and_notifies_the_queue() -> None:
    template = chosen(LandingBucketMode="attach", LandingPrefix="raw/")
    resources = template["Resources"]
    assert not {"LandingBucket", "LandingBucketPolicy", "LandingRule", "LandingSubscription"} & resources.keys()
    assert of(template, "AttachedLanding") == {
        "ServiceToken": {"Fn::GetAtt": ["AttacherFunction", "Arn"]},
        "ServiceTimeout": 900,
        "BucketName": {"Ref": "LandingBucketName"},
        "Prefix": {"Ref": "LandingPrefix"},
        "QueueArn": {"Fn::GetAtt": ["EventsQueue", "Arn"]},
        "Again": {"Ref": "AttachAgain"},
    }
    (admitted,) = [
        s for s in of(template, "EventsQueuePolicy")["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"
    ]
    assert admitted["Condition"]["ArnEquals"] == {"aws:SourceArn": bucket_arn("LandingBucketName")}


def bucket_arn(parameter: str, rest: str = "") -> dict[str, str]:
    return {"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::${{{parameter}}}{rest}"}


def test_the_attacher_may_change_only_the_notifications_of_its_buckets() -> None:
    template = chosen(LandingBucketMode="attach", **FURTHER)
    assert set(statements(template, "AttacherRole")) == {"Log"}
    for number in ("", "2", "3", "4"):
        policy = of(template, f"AttacherPolicy{number}")
        assert policy["RoleName"] == {"Ref": "AttacherRole"}
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert statement["Action"] == ["s3:GetBucketNotification", "s3:PutBucketNotification"]
        assert statement["Resource"] == bucket_arn(f"LandingBucketName{number}")
        # S3 checks that it can send, and the function needs its permission.
        depends = template["Resources"][f"AttachedLanding{number}"]["DependsOn"]
        assert depends == ["EventsQueuePolicy", f"AttacherPolicy{number}"]


def test_another_bucket_gets_another_policy_so_that_the_old_one_can_be_detached() -> None:
    """The update creates the new policy first, and deletes the old one after the notification of its bucket."""
    policy = of(chosen(LandingBucketMode="attach"), "AttacherPolicy")
    assert policy["PolicyName"] == {"Fn::Sub": "attach-${LandingBucketName}"}


def test_only_a_stack_that_attaches_has_an_attacher() -> None:
    others = [
        chosen(),
        chosen(LandingBucketMode="eventbridge"),
        chosen(MoreLandingBucketsMode="eventbridge", **FURTHER),
    ]
    assert [name for template in others for name in template["Resources"] if "ttach" in name] == []
    alone = chosen(LandingBucketName3="third")
    assert {name for name in alone["Resources"] if "ttach" in name} == {
        *("AttachedLanding3", "AttacherPolicy3", "AttacherFunction", "AttacherRole", "AttacherLogGroup")
    }


def test_sweeper_and_job_get_exactly_the_further_buckets_with_their_prefixes() -> None:
    template = chosen(**FURTHER)
    for role, operator in (("SweeperRole", "StringLike"), ("JobRole", "StringLikeIfExists")):
        found = statements(template, role)
        for number in ("2", "3", "4"):
            statement = found[f"ListLanding{number}"]
            assert (statement["Action"], statement["Resource"]) == (
                "s3:ListBucket",
                bucket_arn(f"LandingBucketName{number}"),
            )
            assert statement["Condition"] == {operator: {"s3:prefix": {"Fn::Sub": f"${{LandingPrefix{number}}}*"}}}
        assert not [sid for sid in statements(chosen(), role) if sid[-1] in "234"]
    assert statements(template, "JobRole")["ReadLanding"]["Resource"] == [
        bucket_arn(f"LandingBucketName{number}", f"/${{LandingPrefix{number}}}*") for number in ("", "2", "3", "4")
    ]


def test_further_buckets_are_admitted_to_the_queue_one_by_one() -> None:
    attached = chosen(LandingBucketName2="second", LandingBucketName4="fourth")
    by_sid = {s["Sid"]: s for s in of(attached, "EventsQueuePolicy")["PolicyDocument"]["Statement"]}
    assert by_sid["FromFurtherLandingBuckets"]["Condition"] == {
        "ArnEquals": {"aws:SourceArn": [bucket_arn("LandingBucketName2"), bucket_arn("LandingBucketName4")]},
        "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
    }
    assert "FromFurtherLandingRules" not in by_sid


def test_further_buckets_may_send_through_rules_instead() -> None:
    template = chosen(MoreLandingBucketsMode="eventbridge", LandingBucketName2="second", LandingBucketName3="third")
    rules = {name for name in template["Resources"] if name.startswith("LandingRule")}
    assert rules == {"LandingRule2", "LandingRule3"}
    detail = of(template, "LandingRule2")["EventPattern"]["detail"]
    assert detail == {
        "bucket": {"name": [{"Ref": "LandingBucketName2"}]},
        "object": {"key": [{"prefix": {"Ref": "LandingPrefix2"}}]},
    }
    for queue, sid in (
        ("EventsQueue", "FromFurtherLandingRules"),
        ("EventsDeadLetterQueue", "WhatFurtherLandingRulesCouldNotDeliver"),
    ):
        by_sid = {s["Sid"]: s for s in of(template, f"{queue}Policy")["PolicyDocument"]["Statement"]}
        sources = by_sid[sid]["Condition"]["ArnEquals"]["aws:SourceArn"]
        assert sources == [{"Fn::GetAtt": [rule, "Arn"]} for rule in sorted(rules)]


@pytest.mark.parametrize("landing", ["create", "attach", "eventbridge", "sns"])
@pytest.mark.parametrize("more", ["attach", "eventbridge"])
@pytest.mark.parametrize("names", [{"LandingBucketName3": "third"}, FURTHER], ids=len)
def test_every_reference_resolves(landing: str, more: str, names: dict[str, str]) -> None:
    assert unresolved(chosen(LandingBucketMode=landing, MoreLandingBucketsMode=more, **names)) == set()


def test_further_landing_buckets_differ_from_all_other_buckets() -> None:
    assert refused(**FURTHER) == []
    for number in (2, 3, 4):
        others = {"landing", "lake", "artifacts"} | {FURTHER[f"LandingBucketName{n}"] for n in (2, 3, 4) if n != number}
        for other in sorted(others):
            (text,) = refused(**{**FURTHER, f"LandingBucketName{number}": other})
            assert text.startswith("MoreBucketsAreApart: ")
            assert f"LandingBucketName{number}" in text


# --- Rules ---

FURTHER_SOURCES = "Condition/ArnEquals/aws:SourceArn"
FROM_FURTHER_BUCKETS = at("EventsQueuePolicy", f"PolicyDocument/Statement/3/Fn::If/1/{FURTHER_SOURCES}")
FROM_FURTHER_RULES = at("EventsQueuePolicy", f"PolicyDocument/Statement/4/Fn::If/1/{FURTHER_SOURCES}")
BROKEN = [
    Broken(
        queues.queues_accept_what_sends_to_them,
        "AttachedLanding",
        {at("EventsQueuePolicy", "PolicyDocument/Statement/0/Fn::If/0"): "CreatesLanding"},
    ),
    Broken(
        queues.queues_accept_what_sends_to_them,
        "AttachedLanding3",
        {f"{FROM_FURTHER_BUCKETS}/1": {"Ref": "AWS::NoValue"}},
    ),
    Broken(
        queues.queues_accept_what_sends_to_them,
        "LandingRule4",
        {f"{FROM_FURTHER_RULES}/2": {"Ref": "AWS::NoValue"}},
    ),
    Broken(
        queues.queues_accept_this_account_only,
        "EventsQueuePolicy",
        {f"{FROM_FURTHER_RULES}/2": "arn:aws:events:eu-west-1:*:rule/*"},
    ),
    Broken(
        access.wildcards_have_a_reason,
        "AttacherRole",
        {at("AttacherPolicy", "PolicyDocument/Statement/0/Resource"): "arn:aws:s3:::*"},
    ),
    Broken(buckets.nothing_writes_to_the_landing_prefix, "AttachedLanding2", {"Rules/MoreBucketsAreApart": GONE}),
    Broken(
        buckets.nothing_writes_to_the_landing_prefix,
        "AttachedLanding3",
        {
            at("JobRole", "Policies/0/PolicyDocument/Statement/5/Resource"): {
                "Fn::Sub": "arn:${AWS::Partition}:s3:::${LandingBucketName3}/*"
            }
        },
    ),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: f"{b.rule.__name__}-{'+'.join(b.changes)}")
def test_a_template_that_breaks_a_rule_has_a_finding(broken: Broken) -> None:
    assert broken.where in [finding.where for finding in findings([broken.rule], broken.evaluated_templates())]
