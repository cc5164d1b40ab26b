"""The shipped template in accounts with rules of their own: boundaries, paths, tags, partitions, keys,
networks."""

from typing import Any

import pytest

from infra.template.access import ROLE
from infra.template.translate import Template
from tests.stack.test_template import chosen, of, refused

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
FOUR = {"CollectorRole", "DispatcherRole", "SweeperRole", "JobRole"}
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"


def roles(template: Template) -> dict[str, Any]:
    return {name: r["Properties"] for name, r in template["Resources"].items() if r["Type"] == ROLE}


def statements(template: Template, role: str) -> dict[str, Any]:
    (policy,) = of(template, role)["Policies"]
    return {statement["Sid"]: statement for statement in policy["PolicyDocument"]["Statement"]}


def test_the_job_may_ship_its_log() -> None:
    """EMR Serverless asks for all of these rights before a run, even of a log group that exists."""
    granted = statements(chosen(), "JobRole")
    ship = {"logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"}
    assert ({*granted["Log"]["Action"]}, granted["Log"]["Effect"]) == (ship, "Allow")
    assert granted["Log"]["Resource"] == {"Fn::GetAtt": ["JobLogGroup", "Arn"]}
    assert granted["FindLogGroup"]["Action"] == "logs:DescribeLogGroups"


@pytest.mark.parametrize(("mode", "count"), [("create", 5), ("attach", 6)])
def test_every_role_has_the_boundary_and_the_path(mode: str, count: int) -> None:
    found = roles(chosen(PermissionsBoundaryArn=BOUNDARY, LandingBucketMode=mode))
    assert len(found) == count
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


def of_type(template: Template, type_: str) -> list[Any]:
    return [r["Properties"] for r in template["Resources"].values() if r["Type"] == type_]


def test_a_key_encrypts_buckets_queues_and_logs() -> None:
    template, key = chosen(KmsKeyArn=KEY), {"Ref": "KmsKeyArn"}
    for bucket in of_type(template, "AWS::S3::Bucket"):
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
        assert rule["BucketKeyEnabled"] is True
    queues = of_type(template, "AWS::SQS::Queue")
    assert [(q["KmsMasterKeyId"], q["SqsManagedSseEnabled"]) for q in queues] == [(key, False)] * 5
    assert [group["KmsKeyId"] for group in of_type(template, "AWS::Logs::LogGroup")] == [key] * 4
    attaching = chosen(KmsKeyArn=KEY, LandingBucketMode="attach")
    assert [group["KmsKeyId"] for group in of_type(attaching, "AWS::Logs::LogGroup")] == [key] * 5


def test_without_a_key_aws_manages_the_keys() -> None:
    template = chosen()
    for bucket in of_type(template, "AWS::S3::Bucket"):
        assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"] == [
            {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
        ]
    queues = of_type(template, "AWS::SQS::Queue")
    assert [("KmsMasterKeyId" in q, q["SqsManagedSseEnabled"]) for q in queues] == [(False, True)] * 5
    assert not [group for group in of_type(template, "AWS::Logs::LogGroup") if "KmsKeyId" in group]
    assert not [role for role in roles(template) if "kms:" in str(statements(template, role))]


@pytest.mark.parametrize(
    ("parameter", "users", "actions"),
    [
        ("LandingKmsKeyArn", {"JobRole"}, "kms:Decrypt"),
        ("LakeKmsKeyArn", FOUR, ["kms:Decrypt", "kms:GenerateDataKey"]),
        ("ArtifactsKmsKeyArn", FOUR, "kms:Decrypt"),
        ("KmsKeyArn", {*FOUR, "SchedulesRole"}, ["kms:Decrypt", "kms:GenerateDataKey"]),
    ],
)
def test_the_key_of_a_bucket_may_be_used_by_those_who_need_it(parameter: str, users: set[str], actions: Any) -> None:
    template = chosen(**{parameter: KEY})
    grants = {role: [s for s in statements(template, role).values() if "kms:" in str(s)] for role in roles(template)}
    assert {role for role, found in grants.items() if found} == users
    for role in users:
        (grant,) = grants[role]
        assert (grant["Action"], grant["Resource"]) == (actions, {"Ref": parameter})
        assert "kms:ViaService" in grant["Condition"]["StringEquals"]


NETWORK = {"SubnetIds": "subnet-0123456789abcdef0,subnet-0fedcba9876543210", "SecurityGroupIds": "sg-0123456789abcdef0"}


def test_the_job_runs_in_the_subnets_and_the_functions_do_not() -> None:
    template = chosen(**NETWORK)
    assert of(template, "JobApplication")["NetworkConfiguration"] == {
        name: {"Fn::Split": [",", {"Ref": name}]} for name in NETWORK
    }
    assert not [name for name, r in template["Resources"].items() if "VpcConfig" in r.get("Properties", {})]
    assert "NetworkConfiguration" not in of(chosen(), "JobApplication")


def test_subnets_security_groups_and_an_own_application_belong_together() -> None:
    assert refused(**NETWORK) == []
    for name, rule in (("SubnetIds", "SubnetsHaveGroups"), ("SecurityGroupIds", "GroupsHaveSubnets")):
        (text,) = refused(**{name: NETWORK[name]})
        assert text.startswith(f"{rule}: With {name}")
    (text,) = refused(**NETWORK, ApplicationId="00f1982r1uukb925")
    assert text.startswith("SubnetsHaveGroups: With ApplicationId")


def landing_policy(**parameters: str) -> dict[str, Any]:
    template = chosen(ProducerPrincipals="210987654321", **parameters)
    return {s["Sid"]: s for s in of(template, "LandingBucketPolicy")["PolicyDocument"]["Statement"]}


def test_producers_in_other_accounts_may_write_below_the_prefix_and_nothing_else() -> None:
    policy, principals = landing_policy(), {"AWS": {"Fn::Split": [",", {"Ref": "ProducerPrincipals"}]}}
    allowed = [statement for statement in policy.values() if statement["Effect"] == "Allow"]
    assert allowed == [
        {
            "Sid": "ProducersWrite",
            "Effect": "Allow",
            "Principal": principals,
            "Action": ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
            "Resource": {"Fn::Sub": "arn:${AWS::Partition}:s3:::${LandingBucketName}/${LandingPrefix}*"},
        }
    ]
    assert policy["NoSecretKeysOfProducers"]["Principal"] == principals


@pytest.mark.parametrize(("parameters", "only"), [({}, "none"), ({"KmsKeyArn": KEY}, {"Ref": "KmsKeyArn"})])
def test_producers_may_use_no_key_that_the_job_may_not(parameters: dict[str, str], only: Any) -> None:
    name = "s3:x-amz-server-side-encryption-aws-kms-key-id"
    refused_keys = landing_policy(**parameters)["NoKeysOfProducers"]
    assert (refused_keys["Effect"], refused_keys["Action"]) == ("Deny", "s3:PutObject")
    assert refused_keys["Condition"] == {"Null": {name: "false"}, "StringNotEquals": {name: only}}


def test_without_producers_the_policy_allows_nothing() -> None:
    statements_ = of(chosen(), "LandingBucketPolicy")["PolicyDocument"]["Statement"]
    assert [statement["Sid"] for statement in statements_] == ["OnlyByTls"]


def test_producers_need_the_bucket_of_the_stack() -> None:
    assert refused(ProducerPrincipals="210987654321") == []
    (text,) = refused(ProducerPrincipals="210987654321", LandingBucketMode="eventbridge")
    assert text.startswith("ProducersWriteToTheOwnBucket: ")


def test_only_the_sweeper_may_register_tables_and_in_one_database() -> None:
    template = chosen(GlueDatabase="analytics")
    assert [role for role in roles(template) if "glue:" in str(statements(template, role))] == ["SweeperRole"]
    grant = statements(template, "SweeperRole")["RegisterTables"]
    assert grant["Action"] == ["glue:GetTable", "glue:CreateTable"]
    here = "arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:"
    assert [resource["Fn::Sub"].removeprefix(here) for resource in grant["Resource"]] == [
        "catalog",
        "database/${GlueDatabase}",
        "table/${GlueDatabase}/*",
    ]
    assert not [role for role in roles(chosen()) if "glue:" in str(statements(chosen(), role))]
