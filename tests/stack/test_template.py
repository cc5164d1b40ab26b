"""The shipped template: its translation and its parameters."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.template.evaluated import with_conditions_evaluated
from infra.template.parameters import parameter_problems
from infra.template.references import references
from infra.template.rules import placeholder_zip_uris
from infra.template.translate import Template, TranslationError, parse, translate, translate_template

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "template.yaml"
MAKEFILE = (ROOT / "Makefile").read_text()
APPLICATION_ARN = "arn:${AWS::Partition}:emr-serverless:${AWS::Region}:${AWS::AccountId}:/applications/${Application}"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:arrivals"
FUNCTIONS = {"AttacherFunction", "CollectorFunction", "DispatcherFunction", "SweeperFunction"}
REQUIRED = {
    "LandingBucketName": "landing",
    "LakeBucketName": "lake",
    "ArtifactsBucketName": "artifacts",
    "ConfigKey": "blizzard/config-0123456789abcdef.json",
    "JobEntryKey": "blizzard/entry-0123456789abcdef.py",
    "JobArchiveKey": "blizzard/job-0123456789abcdef.tar.gz",
    "LogStoreJarKey": "blizzard/logstore-0123456789abcdef.jar",
}


@cache
def sam() -> Template:
    return parse(TEMPLATE.read_text())


@cache
def deployed() -> Template:
    return translate(TEMPLATE, placeholder_zip_uris(sam()))


def of(template: Template, logical_id: str) -> Any:
    return template["Resources"][logical_id]["Properties"]


# --- Translation ---


def test_each_function_gets_its_code() -> None:
    template = translate(TEMPLATE, {name: f"s3://bucket/code/{name}.zip" for name in FUNCTIONS})
    for name in FUNCTIONS:
        assert of(template, name)["Code"] == {"S3Bucket": "bucket", "S3Key": f"code/{name}.zip"}


def test_the_translation_contains_nothing_of_sam() -> None:
    assert "Transform" not in deployed()
    assert "Globals" not in deployed()
    assert not [r["Type"] for r in deployed()["Resources"].values() if r["Type"].startswith("AWS::Serverless")]


def test_translation_keeps_references_to_parameters() -> None:
    assert of(deployed(), "CollectorFunctionLanded")["MaximumBatchingWindowInSeconds"] == {"Ref": "BatchingWindowSecs"}
    assert deployed()["Parameters"] == sam()["Parameters"]


def test_translation_adds_no_role_and_no_policy() -> None:
    roles = {name for name, r in deployed()["Resources"].items() if r["Type"] == "AWS::IAM::Role"}
    assert roles == {"AttacherRole", "CollectorRole", "DispatcherRole", "SweeperRole", "JobRole", "SchedulesRole"}
    assert not [r for r in roles if "ManagedPolicyArns" in of(deployed(), r)]


def test_translation_does_not_change_the_parsed_template() -> None:
    before = json.dumps(sam(), default=str)
    translate_template(sam(), placeholder_zip_uris(sam()))
    assert json.dumps(sam(), default=str) == before


def test_translation_needs_code_for_exactly_the_templates_functions() -> None:
    with pytest.raises(TranslationError, match=r"expected one for each of .*'SweeperFunction'.*, found \['X'\]"):
        translate(TEMPLATE, {"X": "s3://bucket/x.zip"})


def test_a_template_that_is_not_sam_is_refused() -> None:
    with pytest.raises(TranslationError, match="Transform: expected AWS::Serverless"):
        translate_template({"Resources": {}}, {})


def test_a_template_that_cannot_be_translated_is_refused_with_the_reason() -> None:
    resource = {"Type": "AWS::Serverless::Function", "Properties": {"Handler": "a.b", "Events": {"X": {"Type": "Cow"}}}}
    broken = {"Transform": "AWS::Serverless-2016-10-31", "Resources": {"Milk": resource}}
    with pytest.raises(TranslationError, match="Milk"):
        translate_template(broken, {"Milk": "s3://bucket/milk.zip"})


def test_translation_needs_neither_credentials_nor_a_region() -> None:
    program = (
        "from infra.template.rules import *\n"
        "sam = parse(open('template.yaml').read())\n"
        "print(len(translate_template(sam, placeholder_zip_uris(sam))['Resources']))\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    bare = {**environment, "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=bare, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == len(deployed()["Resources"])
    assert done.stderr == ""


# --- Conditions ---


def chosen(**parameters: str) -> Template:
    defaults = {name: str(p["Default"]) for name, p in sam()["Parameters"].items() if "Default" in p}
    return with_conditions_evaluated(deployed(), {**defaults, **REQUIRED, **parameters})


def test_a_created_landing_bucket_sends_events_directly_to_the_queue() -> None:
    template = chosen(LandingBucketMode="create")
    (notification,) = of(template, "LandingBucket")["NotificationConfiguration"]["QueueConfigurations"]
    assert notification == {"Event": "s3:ObjectCreated:*", "Queue": {"Fn::GetAtt": ["EventsQueue", "Arn"]}}
    assert "LandingRule" not in template["Resources"]
    statements = of(template, "EventsQueuePolicy")["PolicyDocument"]["Statement"]
    assert [s["Principal"] for s in statements if s["Effect"] == "Allow"] == [{"Service": "s3.amazonaws.com"}]


def test_the_queue_lets_the_bucket_in_before_the_bucket_is_made() -> None:
    assert deployed()["Resources"]["LandingBucket"]["DependsOn"] == "EventsQueuePolicy"


def test_a_prefix_limits_which_objects_send_events() -> None:
    own = chosen(LandingPrefix="raw/")
    (notification,) = of(own, "LandingBucket")["NotificationConfiguration"]["QueueConfigurations"]
    encoded = {"Fn::Join": ["%3D", {"Fn::Split": ["=", {"Ref": "LandingPrefix"}]}]}
    assert notification["Filter"] == {"S3Key": {"Rules": [{"Name": "prefix", "Value": encoded}]}}
    foreign = chosen(LandingPrefix="raw/", LandingBucketMode="eventbridge")
    assert of(foreign, "LandingRule")["EventPattern"]["detail"]["object"] == {
        "key": [{"prefix": {"Ref": "LandingPrefix"}}]
    }


def test_an_existing_landing_bucket_sends_events_through_a_rule() -> None:
    template = chosen(LandingBucketMode="eventbridge")
    assert not {"LandingBucket", "LandingBucketPolicy"} & template["Resources"].keys()
    pattern = of(template, "LandingRule")["EventPattern"]
    assert (pattern["source"], pattern["detail-type"]) == (["aws.s3"], ["Object Created"])
    assert pattern["detail"] == {"bucket": {"name": [{"Ref": "LandingBucketName"}]}}
    statements = of(template, "EventsQueuePolicy")["PolicyDocument"]["Statement"]
    assert [s["Principal"] for s in statements if s["Effect"] == "Allow"] == [{"Service": "events.amazonaws.com"}]


def test_a_topic_of_the_landing_bucket_sends_events_through_a_subscription() -> None:
    template = chosen(LandingBucketMode="sns", LandingTopicArn=TOPIC)
    assert not {"LandingBucket", "LandingBucketPolicy", "LandingRule"} & template["Resources"].keys()
    assert of(template, "LandingSubscription") == {
        "TopicArn": {"Ref": "LandingTopicArn"},
        "Protocol": "sqs",
        "Endpoint": {"Fn::GetAtt": ["EventsQueue", "Arn"]},
        "Region": {"Fn::Select": [3, {"Fn::Split": [":", {"Ref": "LandingTopicArn"}]}]},
        "RawMessageDelivery": True,
        "RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": ["EventsDeadLetterQueue", "Arn"]}},
    }
    for queue in ("EventsQueue", "EventsDeadLetterQueue"):
        statements = of(template, f"{queue}Policy")["PolicyDocument"]["Statement"]
        (allowed,) = [s for s in statements if s["Effect"] == "Allow"]
        assert allowed["Principal"] == {"Service": "sns.amazonaws.com"}
        assert allowed["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Ref": "LandingTopicArn"}}}
        assert allowed["Resource"] == {"Fn::GetAtt": [queue, "Arn"]}


def test_a_topic_and_its_mode_are_given_together() -> None:
    assert refused(LandingBucketMode="sns", LandingTopicArn=TOPIC) == []
    (without,) = refused(LandingBucketMode="sns")
    assert without.startswith("TopicIsGiven: ")
    (unused,) = refused(LandingTopicArn=TOPIC)
    assert unused.startswith("TopicIsUsed: ")


def test_the_job_runs_in_an_application_that_exists() -> None:
    own, other = chosen(), chosen(ApplicationId="00f1982r1uukb925")
    assert own["Resources"].keys() - other["Resources"].keys() == {"JobApplication"}
    for template, application in ((own, "JobApplication"), (other, "ApplicationId")):
        name = {"Ref": application}
        variables = of(template, "DispatcherFunction")["Environment"]["Variables"]
        assert variables["BLIZZARD_APPLICATION_ID"] == name
        assert of(template, "JobStateRule")["EventPattern"]["detail"]["applicationId"] == [name]
        assert of(template, "Dashboard")["DashboardBody"]["Fn::Sub"][1] == {"Application": name}
        assert template["Outputs"]["ApplicationId"]["Value"] == name
        statements = {s["Sid"]: s for s in of(template, "DispatcherRole")["Policies"][0]["PolicyDocument"]["Statement"]}
        (trusted,) = of(template, "JobRole")["AssumeRolePolicyDocument"]["Statement"]
        sources = trusted["Condition"]["ArnLike"]["aws:SourceArn"]
        granted = [statements["StartAndFindRuns"]["Resource"], statements["LookAtRuns"]["Resource"], *sources]
        assert [arn["Fn::Sub"] for arn in granted] == [
            [f"{APPLICATION_ARN}{part}", {"Application": name}] for part in ("", "/jobruns/*", "", "/*")
        ]


def test_an_output_is_the_command_of_the_probe() -> None:
    assert deployed()["Outputs"]["ProbeCommand"]["Value"] == {"Fn::Sub": "make probe STACK=${AWS::StackName}"}
    assert re.search(r'^probe: .*\n\t@\$\(BIN\)/python -m infra\.probe --stack "\$\(STACK\)"', MAKEFILE, re.MULTILINE)


def test_an_existing_lake_is_not_changed() -> None:
    made, left = chosen(LakeBucketMode="create"), chosen(LakeBucketMode="existing")
    assert made["Resources"].keys() - left["Resources"].keys() == {"LakeBucket", "LakeBucketPolicy"}


@pytest.mark.parametrize("landing", ["create", "attach", "eventbridge", "sns"])
@pytest.mark.parametrize("lake", ["create", "existing"])
@pytest.mark.parametrize("application", ["", "00f1982r1uukb925"])
def test_every_reference_resolves(landing: str, lake: str, application: str) -> None:
    template = chosen(LandingBucketMode=landing, LakeBucketMode=lake, ApplicationId=application)
    assert unresolved(template) == set()


def unresolved(template: Template) -> set[str]:
    known = template["Resources"].keys() | template["Parameters"].keys()
    named = references([template["Resources"], template["Outputs"]])
    return {name for name in named if not name.startswith("AWS::")} - known


def test_alarms_without_a_topic_have_no_actions() -> None:
    assert "AlarmActions" not in of(chosen(), "FreshnessAlarm")
    with_topic = chosen(AlarmTopicArn="arn:aws:sns:eu-west-1:123456789012:alarms")
    assert of(with_topic, "FreshnessAlarm")["AlarmActions"] == [{"Ref": "AlarmTopicArn"}]


@pytest.mark.parametrize("dispatching", ["on", "off"])
def test_a_pause_disables_exactly_what_invokes_the_dispatcher(dispatching: str) -> None:
    resources = chosen(Dispatching=dispatching, LandingBucketMode="eventbridge")["Resources"]
    switches = {
        "AWS::Scheduler::Schedule": ("State", "ENABLED"),
        "AWS::Events::Rule": ("State", "ENABLED"),
        "AWS::Lambda::EventSourceMapping": ("Enabled", True),
    }
    working = {
        name: resource["Properties"].get(switches[resource["Type"]][0], "as it comes") == switches[resource["Type"]][1]
        for name, resource in resources.items()
        if resource["Type"] in switches and "DispatcherFunction" in references(resource["Properties"])
    }
    runs = dispatching == "on"
    assert working == {"DispatchScheduled": runs, "JobStateRule": runs, "DispatcherFunctionWakes": runs}
    others = [r["Properties"] for n, r in resources.items() if r["Type"] in switches and n not in working]
    assert len(others) == 3
    assert not [other for other in others if {"State", "Enabled"} & other.keys()]


# --- Parameters ---


def refused(**parameters: str) -> list[str]:
    return parameter_problems(sam(), {**REQUIRED, **parameters})


def test_the_parameters_of_publish_are_enough() -> None:
    assert refused() == []


def test_a_parameter_without_a_default_is_required() -> None:
    assert [text.partition(":")[0] for text in parameter_problems(sam(), {})] == sorted(REQUIRED)


def test_an_unknown_parameter_is_refused() -> None:
    assert refused(LandingBucket="x") == ["LandingBucket: the template has no such parameter"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LandingBucketName", "Landing_Bucket"),
        ("LandingBucketName", "ab"),
        ("LandingBucketMode", "existing"),
        ("LandingPrefix", "raw/*"),
        ("LandingBucketName2", "other/raw"),
        ("LandingBucketName4", "s3://other"),
        ("LandingBucketName3", "ab"),
        ("LandingPrefix2", "raw/*"),
        ("MoreLandingBucketsMode", "create"),
        ("LandingPrefix", "raw/?"),
        ("LakeBucketName", "lake/tables"),
        ("LakeBucketName", "lake*"),
        ("LakeBucketMode", "eventbridge"),
        ("ArtifactsBucketName", "s3://artifacts"),
        ("ConfigKey", "pipelines.yaml"),
        ("ConfigKey", "s3://artifacts/config-0123456789abcdef.json"),
        ("JobEntryKey", "entry.py"),
        ("JobArchiveKey", "job-0123456789abcdef.zip"),
        ("LogStoreJarKey", "*/logstore-0123456789abcdef.jar"),
        ("ReleaseLabel", "8.1.0"),
        ("ReleaseLabel", "emr-7.10.0"),
        ("ReleaseLabel", "emr-8.1.0"),
        ("ReleaseLabel", "emr-spark-9.0.0"),
        ("ReleaseLabel", "emr-spark-8.2.1"),
        ("Dispatching", "true"),
        ("JobArchitecture", "arm64"),
        ("DriverCores", "3"),
        ("DriverMemory", "6GB"),
        ("ExecutorDisk", "10G"),
        ("MaxExecutors", "0"),
        ("MaxConcurrentRuns", "many"),
        ("WakeWindowSecs", "901"),
        ("BatchingWindowSecs", "0"),
        ("DispatchSchedule", "every 5 minutes"),
        ("DispatchSchedule", "rate(16 minutes)"),
        ("DispatchSchedule", "rate(1 hour)"),
        ("SweepSchedule", "rate(0 minutes)"),
        ("SweepSchedule", "rate(61 minutes)"),
        ("SweepSchedule", "rate(2 hours)"),
        ("SweepSchedule", "rate(1 day)"),
        ("AlarmTopicArn", "alarms"),
        ("ApplicationId", "arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00f"),
        ("LandingTopicArn", "arrivals"),
        ("LandingTopicArn", "arn:aws:sns:eu-west-1:123456789012:arrivals.fifo"),
        ("LogRetentionDays", "31"),
        ("JobTimeoutMinutes", "1"),
        ("PermissionsBoundaryArn", "boundary"),
        ("PermissionsBoundaryArn", "arn:aws:iam::123456789012:role/boundary"),
        ("RolePath", "teams"),
        ("RolePath", "/teams"),
        ("RolePath", "/teams/*/"),
        ("RunTags", "team"),
        ("RunTags", "team=data, owner=me"),
        ("RunTags", "team=data,"),
        ("KmsKeyArn", "alias/lake"),
        ("SubnetIds", "subnet-0123456789abcdef0, subnet-0fedcba9876543210"),
        ("SecurityGroupIds", "default"),
        ("ProducerPrincipals", "*"),
        ("GlueDatabase", "Analytics"),
        ("GlueDatabase", "analytics/*"),
        ("ProducerPrincipals", "123456789012, 210987654321"),
        ("ProducerPrincipals", "arn:aws:iam::123456789012:user/me"),
        ("LakeKmsKeyArn", "arn:aws:kms:eu-west-1:123456789012:alias/lake"),
    ],
)
def test_an_invalid_value_is_refused(name: str, value: str) -> None:
    (text,) = refused(**{name: value})
    assert text.startswith(f"{name}: ")
    assert text.endswith(f", found {value!r}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LandingPrefix", "raw-events/date=2026/"),
        ("ConfigKey", "config-0123456789abcdef.json"),
        ("ConfigKey", "teams/data/blizzard/config-0123456789abcdef.json"),
        ("Dispatching", "off"),
        ("ExecutorDisk", "200G"),
        ("DispatchSchedule", "cron(0/5 * * * ? *)"),
        ("DispatchSchedule", "rate(15 minutes)"),
        ("SweepSchedule", "rate(1 hour)"),
        ("SweepSchedule", "rate(60 minutes)"),
        ("AlarmTopicArn", "arn:aws-cn:sns:cn-north-1:123456789012:alarms.fifo"),
        ("PermissionsBoundaryArn", "arn:aws-us-gov:iam::123456789012:policy/teams/boundary"),
        ("RolePath", "/teams/data/"),
        ("RunTags", "team=data"),
        ("GlueDatabase", "analytics_prod-1"),
        ("ProducerPrincipals", "210987654321,arn:aws-cn:iam::123456789012:role/teams/exporter"),
        ("KmsKeyArn", "arn:aws-us-gov:kms:us-gov-west-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab"),
        ("RunTags", "team=data,aws/owner=a@example.com,empty="),
    ],
)
def test_a_valid_value_is_accepted(name: str, value: str) -> None:
    assert refused(**{name: value}) == []


def test_landing_lake_and_artifacts_must_be_different_buckets() -> None:
    assert refused(LandingBucketName="lake") == [
        "BucketsAreApart: LandingBucketName and LakeBucketName must differ, or the job's files would send events."
    ]
    assert refused(LandingBucketName="artifacts")[0].startswith(
        "BucketsAreApart: LandingBucketName and ArtifactsBucketName"
    )
    assert refused(ArtifactsBucketName="lake") == []


@pytest.mark.parametrize("kind", ["Driver", "Executor"])
@pytest.mark.parametrize(
    ("cores", "fits", "too_little", "too_much"),
    [("1", "7G", None, "8G"), ("2", "14G", "2G", "16G"), ("4", "27G", "4G", None), ("8", "16G", "8G", None)],
)
def test_memory_must_fit_the_cores(
    kind: str, cores: str, fits: str, too_little: str | None, too_much: str | None
) -> None:
    def answer(memory: str) -> list[str]:
        return refused(**{f"{kind}Cores": cores, f"{kind}Memory": memory})

    assert answer(fits) == []
    for memory in filter(None, (too_little, too_much)):
        (text,) = answer(memory)
        assert text.startswith(f"{kind}Fits{cores}: ")
