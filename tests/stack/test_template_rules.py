"""The rules of our own: the shipped template keeps each of them, and for each there is a template that does not."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.template import access, delivery, keeping, running, watching
from infra.template.findings import Rule, findings
from infra.template.rules import RULES, check, shipped_stacks
from infra.template.stack import Stack, stacks

ROOT = Path(__file__).parents[2]
GONE = object()


@cache
def shipped() -> Stack:
    return shipped_stacks(ROOT)[0]


def test_the_shipped_template_keeps_every_rule() -> None:
    assert [str(finding) for finding in check(ROOT)] == []


@dataclass(frozen=True)
class Broken:
    """What is changed in the shipped template, and where the rule must find it."""

    rule: Rule
    where: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """By path from the template's root, with `/`; GONE takes it away."""
    runbook: Callable[[str], str] = str
    code: Callable[[Any], Any] = lambda code: code

    def stacks(self) -> list[Stack]:
        whole = deepcopy(shipped().whole)
        for path, value in self.changes.items():
            change(whole, path, value)
        return stacks(whole, self.code(shipped().code), self.runbook(shipped().runbook))


def change(template: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split("/")
    place: Any = template
    for folder in folders:
        place = place[int(folder)] if isinstance(place, list) else place[folder]
    key: Any = int(last) if isinstance(place, list) else last
    if value is GONE:
        del place[key]
    elif isinstance(place, list) and key == len(place):
        place.append(value)
    else:
        place[key] = value


def at(logical_id: str, path: str = "") -> str:
    return f"Resources/{logical_id}/Properties/{path}"


LANDED, COLLECTOR = "CollectorFunctionLanded", "CollectorFunction"
NOTIFIED = at("LandingBucket", "NotificationConfiguration")
STATEMENTS = "Policies/0/PolicyDocument/Statement"
JOB_MAY = at("JobRole", f"{STATEMENTS}/5/Resource")
ANYBODY = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "scheduler.amazonaws.com"}}
ALARM = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"TreatMissingData": "missing", "AlarmActions": []}}
TRUST = "AssumeRolePolicyDocument/Statement/0"
LAKE_DENIES = at("LakeBucketPolicy", "PolicyDocument/Statement/1")
FILES = "$.files"


def of_the_lake(key: str) -> dict[str, str]:
    return {"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::${{LakeBucketName}}/{key}"}


BROKEN = [
    Broken(
        delivery.messages_stay_hidden_while_they_are_worked_on, LANDED, {at("EventsQueue", "VisibilityTimeout"): 659}
    ),
    Broken(delivery.messages_stay_hidden_while_they_are_worked_on, LANDED, {at(COLLECTOR, "Timeout"): 61}),
    Broken(
        delivery.messages_stay_hidden_while_they_are_worked_on,
        LANDED,
        {"Parameters/BatchingWindowSecs/MaxValue": 301},
    ),
    Broken(
        delivery.messages_stay_hidden_while_they_are_worked_on,
        "DispatcherFunctionWakes",
        {at("WakeQueue", "VisibilityTimeout"): GONE},
    ),
    Broken(delivery.large_batches_have_a_window, LANDED, {at(LANDED, "MaximumBatchingWindowInSeconds"): GONE}),
    Broken(delivery.large_batches_have_a_window, LANDED, {"Parameters/BatchingWindowSecs/MinValue": 0}),
    Broken(delivery.readers_are_bounded, LANDED, {at(LANDED, "ScalingConfig"): GONE}),
    Broken(delivery.readers_are_bounded, LANDED, {at(LANDED, "ScalingConfig/MaximumConcurrency"): 1}),
    Broken(delivery.one_bad_message_fails_alone, LANDED, {at(LANDED, "FunctionResponseTypes"): GONE}),
    Broken(delivery.messages_that_fail_are_kept, "EventsQueue", {at("EventsQueue", "RedrivePolicy"): GONE}),
    Broken(
        delivery.messages_that_fail_are_kept, "EventsQueue", {at("EventsQueue", "RedrivePolicy/maxReceiveCount"): 3}
    ),
    Broken(delivery.messages_that_fail_are_kept, "WakeDeadLetterQueue", {at("WakeDeadLetterQueue", "FifoQueue"): GONE}),
    Broken(
        delivery.messages_that_fail_are_kept,
        "EventsDeadLetterQueue",
        {at("EventsDeadLetterQueue", "MessageRetentionPeriod"): 60},
    ),
    Broken(
        delivery.invocations_that_fail_are_kept,
        "SweepScheduled",
        {at("SweepScheduled", "Target/DeadLetterConfig"): GONE},
    ),
    Broken(
        delivery.invocations_that_fail_are_kept, "SweepScheduled", {at("SweepScheduled", "Target/RetryPolicy"): GONE}
    ),
    Broken(
        delivery.invocations_that_fail_are_kept,
        "JobStateRule",
        {at("JobStateRule", "Targets/0/DeadLetterConfig"): GONE},
    ),
    Broken(
        delivery.invocations_that_fail_are_kept, "LandingRule", {at("LandingRule", "Targets/0/DeadLetterConfig"): GONE}
    ),
    Broken(
        delivery.invocations_that_fail_are_kept, "SweeperFunction", {"Resources/SweeperFunctionEventInvokeConfig": GONE}
    ),
    Broken(delivery.queues_are_sealed, "WakeQueue", {at("WakeQueue", "SqsManagedSseEnabled"): GONE}),
    Broken(delivery.queues_are_sealed, "WakeQueue", {"Resources/WakeQueuePolicy": GONE}),
    Broken(
        delivery.queues_are_sealed,
        "WakeQueue",
        {at("WakeQueuePolicy", "PolicyDocument/Statement/0/Condition/Bool"): {"aws:SecureTransport": "true"}},
    ),
    Broken(
        delivery.queues_take_from_this_account_only,
        "FailedInvocationsQueuePolicy",
        {
            at(
                "FailedInvocationsQueuePolicy", "PolicyDocument/Statement/0/Condition/ArnEquals/aws:SourceArn"
            ): "arn:aws:events:*"
        },
    ),
    Broken(
        delivery.queues_take_from_this_account_only,
        "EventsQueuePolicy",
        {at("EventsQueuePolicy", "PolicyDocument/Statement/0/Fn::If/1/Condition/StringEquals"): GONE},
    ),
    Broken(access.wildcards_have_a_reason, "CollectorRole", {at("CollectorRole", f"{STATEMENTS}/0/Action"): ["sqs:*"]}),
    Broken(access.wildcards_have_a_reason, "CollectorRole", {at("CollectorRole", f"{STATEMENTS}/5/Resource"): "*"}),
    Broken(
        access.wildcards_have_a_reason,
        "CollectorRole",
        {
            at("CollectorRole", f"{STATEMENTS}/5/NotResource"): "arn",
            at("CollectorRole", f"{STATEMENTS}/5/Resource"): GONE,
        },
    ),
    Broken(access.reasons_have_a_wildcard, "JobRole", {JOB_MAY: "arn:aws:s3:::lake/tables"}),
    Broken(access.statements_have_names, "JobRole", {at("JobRole", f"{STATEMENTS}/0/Sid"): GONE}),
    Broken(
        access.permissions_are_written_here,
        "CollectorRole",
        {
            at("CollectorRole", "ManagedPolicyArns"): [
                "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
            ]
        },
    ),
    Broken(
        access.roles_are_passed_to_one_service,
        "DispatcherRole",
        {at("DispatcherRole", f"{STATEMENTS}/7/Condition"): GONE},
    ),
    Broken(access.services_act_for_this_account_only, "JobRole", {at("JobRole", f"{TRUST}/Condition"): GONE}),
    Broken(access.services_act_for_this_account_only, "SchedulesRole", {at("SchedulesRole", TRUST): ANYBODY}),
    Broken(access.listing_is_narrowed, "SweeperRole", {at("SweeperRole", f"{STATEMENTS}/1/Condition"): GONE}),
    *(
        Broken(access.functions_read_no_records, role, {at(role, f"{STATEMENTS}/3/Resource"): of_the_lake(key)})
        for role in ("DispatcherRole", "SweeperRole")
        for key in ("*", "*_blizzard/*", "*_blizzard/*/dead_letters/*", "*_blizzard/*pending*", "*_blizzard/*_runs/*")
    ),
    Broken(
        access.functions_read_no_records,
        "CollectorRole",
        {at("CollectorRole", f"{STATEMENTS}/3/Action"): "s3:*", at("CollectorRole", f"{STATEMENTS}/3/Resource"): "*"},
    ),
    Broken(keeping.state_outlives_the_stack, "LakeBucket", {"Resources/LakeBucket/DeletionPolicy": "Delete"}),
    Broken(keeping.state_outlives_the_stack, "LandingBucket", {"Resources/LandingBucket/DeletionPolicy": "Retain"}),
    Broken(keeping.state_outlives_the_stack, "LandingBucket", {"Resources/LandingBucket/UpdateReplacePolicy": GONE}),
    Broken(keeping.state_outlives_the_stack, "LakeBucketPolicy", {"Resources/LakeBucketPolicy/DeletionPolicy": GONE}),
    Broken(
        keeping.buckets_are_sealed,
        "LakeBucket",
        {at("LakeBucket", "PublicAccessBlockConfiguration/BlockPublicPolicy"): False},
    ),
    Broken(keeping.buckets_are_sealed, "LakeBucket", {at("LakeBucket", "BucketEncryption"): GONE}),
    Broken(keeping.buckets_are_sealed, "LakeBucket", {at("LakeBucket", "OwnershipControls"): GONE}),
    Broken(keeping.buckets_are_sealed, "LandingBucket", {"Resources/LandingBucketPolicy": GONE}),
    Broken(
        keeping.buckets_forget, "LakeBucket", {at("LakeBucket", "LifecycleConfiguration/Rules/0/Status"): "Disabled"}
    ),
    Broken(keeping.buckets_forget, "LakeBucket", {at("LakeBucket", "VersioningConfiguration"): GONE}),
    Broken(keeping.numbered_objects_are_created_once, "LakeBucket", {f"{LAKE_DENIES}/Condition/Null": GONE}),
    Broken(keeping.numbered_objects_are_created_once, "LakeBucket", {f"{LAKE_DENIES}/Resource/1": GONE}),
    *(
        Broken(
            keeping.only_numbered_objects_are_created_once,
            "LakeBucketPolicy",
            {f"{LAKE_DENIES}/Resource/1": of_the_lake(key)},
        )
        for key in ("*_blizzard/*_runs/*", "*_blizzard/*pending/*")
    ),
    Broken(
        keeping.nothing_writes_where_files_land,
        "LandingBucket",
        {JOB_MAY: {"Fn::Sub": "arn:${AWS::Partition}:s3:::${LandingBucketName}/*"}},
    ),
    Broken(
        keeping.nothing_writes_where_files_land,
        "LandingRule",
        {JOB_MAY: {"Fn::Sub": "arn:${AWS::Partition}:s3:::${LandingBucketName}/${LandingPrefix}tables/*"}},
    ),
    Broken(keeping.nothing_writes_where_files_land, "LandingBucket", {"Rules/BucketsAreApart": GONE}),
    Broken(running.functions_run_on_what_they_are_packed_for, COLLECTOR, {at(COLLECTOR, "Runtime"): "python3.12"}),
    Broken(running.functions_run_on_what_they_are_packed_for, COLLECTOR, {at(COLLECTOR, "Architectures"): GONE}),
    Broken(running.functions_run_on_what_they_are_packed_for, COLLECTOR, {at(COLLECTOR, "Handler"): "app.handler"}),
    Broken(running.logs_end, COLLECTOR, {at(COLLECTOR, "LoggingConfig/LogGroup"): GONE}),
    Broken(running.logs_end, "JobLogGroup", {at("JobLogGroup", "RetentionInDays"): GONE}),
    Broken(
        running.functions_get_what_they_read,
        "DispatcherFunction",
        {at("DispatcherFunction", "Environment/Variables/BLIZZARD_MAX_FAILURES"): GONE},
    ),
    Broken(
        running.functions_get_what_they_read,
        COLLECTOR,
        {at(COLLECTOR, "Environment/Variables/BLIZZARD_MAX_FAILURES"): "5"},
    ),
    Broken(
        running.functions_get_what_they_read,
        "Globals",
        code=lambda code: replace(code, shared=code.shared | {"BLIZZARD_NEW"}),
    ),
    Broken(running.the_job_is_bounded, "JobApplication", {at("JobApplication", "Type"): "SPARKK"}),
    Broken(running.the_job_is_bounded, "JobApplication", {at("JobApplication", "MaximumCapacity"): GONE}),
    Broken(
        running.the_job_is_bounded, "JobApplication", {at("JobApplication", "AutoStopConfiguration/Enabled"): False}
    ),
    Broken(running.the_job_is_bounded, "JobApplication", {at("JobApplication", "SchedulerConfiguration"): GONE}),
    Broken(
        running.the_job_is_bounded, "JobApplication", {at("JobApplication", "InitialCapacity"): [{"Key": "Driver"}]}
    ),
    Broken(
        running.the_job_is_bounded,
        "JobApplication",
        {at("JobApplication", "RuntimeConfiguration"): [{"Classification": "spark-defaults"}]},
    ),
    Broken(running.parameters_are_explained, "ConfigKey", {"Parameters/ConfigKey/Description": GONE}),
    Broken(running.parameters_are_explained, "ConfigKey", {"Parameters/ConfigKey/ConstraintDescription": GONE}),
    Broken(
        running.parameters_are_explained,
        "LandingPrefix",
        {"Metadata/AWS::CloudFormation::Interface/ParameterLabels/LandingPrefix": GONE},
    ),
    Broken(
        running.parameters_are_explained,
        "LandingPrefix",
        {"Metadata/AWS::CloudFormation::Interface/ParameterGroups/1/Parameters/5": "LandingPrefix"},
    ),
    Broken(running.parameters_are_explained, "ConfigKey", {"Parameters/ConfigKey": GONE}),
    Broken(running.parameters_are_checked, "MaxExecutors", {"Parameters/MaxExecutors/MaxValue": GONE}),
    Broken(running.parameters_are_checked, "LakeBucketName", {"Parameters/LakeBucketName/AllowedPattern": GONE}),
    Broken(
        running.parameters_bring_no_wildcards, "LandingPrefix", {"Parameters/LandingPrefix/AllowedPattern": "^[a-z*]*$"}
    ),
    Broken(running.parameters_are_used, "IdleStopMinutes", {at("JobApplication", "AutoStopConfiguration"): GONE}),
    Broken(
        watching.alarms_say_where_to_look, "RunsFailedAlarm", {at("RunsFailedAlarm", "AlarmDescription"): "It failed."}
    ),
    Broken(
        watching.alarms_say_where_to_look,
        "RunsFailedAlarm",
        runbook=lambda text: text.replace("## A run failed", "## Runs"),
    ),
    Broken(
        watching.alarms_say_where_to_look,
        "RunsFailedAlarm",
        runbook=lambda text: text.replace("`RunsFailedAlarm`", "`RunFailedAlarm`"),
    ),
    Broken(watching.runbook_sections_have_an_alarm, "RunsFailedAlarm", {"Resources/RunsFailedAlarm": GONE}),
    Broken(watching.alarms_tell_somebody, "RunsFailedAlarm", {at("RunsFailedAlarm", "AlarmActions"): GONE}),
    Broken(watching.alarms_tell_somebody, "RunsFailedAlarm", {at("RunsFailedAlarm", "TreatMissingData"): GONE}),
    Broken(
        watching.what_is_put_aside_is_watched, "EventsDeadLetterQueue", {"Resources/EventsDeadLetterQueueAlarm": GONE}
    ),
    Broken(watching.watched_metrics_exist, "FilesMissedAlarm", {at("FilesMissedAlarm", "MetricName"): "FilesMised"}),
    Broken(watching.watched_metrics_exist, "FilesMissedAlarm", {at("FilesMissedAlarm", "Dimensions"): GONE}),
    Broken(watching.watched_metrics_exist, "DeadLettersAlarm", {"Resources/DeadRecordsFilter": GONE}),
    Broken(
        watching.watched_metrics_exist,
        "Dashboard",
        {
            at("Dashboard", "DashboardBody/Fn::Sub"): '{"widgets": [{"properties": {"metrics": '
            '[["Blizzard/${AWS::StackName}", "Nothing", "service", "sweeper", {"label": "nothing"}]]}}]}'
        },
    ),
    Broken(watching.metrics_are_the_stacks_own, "FreshnessAlarm", {at("FreshnessAlarm", "Namespace"): "Blizzard"}),
    Broken(
        watching.metrics_are_the_stacks_own,
        "DeadLettersAlarm",
        {at("DeadLettersAlarm", "Metrics/1/MetricStat/Metric/Namespace"): "Blizzard"},
    ),
    Broken(
        watching.metrics_are_the_stacks_own,
        "DeadFilesFilter",
        {at("DeadFilesFilter", "MetricTransformations/0/MetricNamespace"): "Blizzard"},
    ),
    Broken(
        watching.metrics_are_the_stacks_own,
        "SweeperFunction",
        {at("SweeperFunction", "Environment/Variables/POWERTOOLS_METRICS_NAMESPACE"): GONE},
    ),
    Broken(
        watching.metrics_are_the_stacks_own,
        "Dashboard",
        {
            at("Dashboard", "DashboardBody/Fn::Sub"): '{"widgets": [{"properties": {"metrics": '
            '[["Blizzard", "FilesMissed", "service", "sweeper"]]}}]}'
        },
    ),
    Broken(
        watching.the_job_logs_what_is_filtered,
        "DeadFilesFilter",
        {at("DeadFilesFilter", "FilterPattern"): '{ $.event = "batch_done" }'},
    ),
    Broken(
        watching.the_job_logs_what_is_filtered,
        "DeadFilesFilter",
        {at("DeadFilesFilter", "MetricTransformations/0/MetricValue"): "$.dead"},
    ),
    Broken(
        watching.the_job_logs_what_is_filtered,
        "ReadSecondsFilter",
        {at("ReadSecondsFilter", "MetricTransformations/0/MetricValue"): "$.secs.reading"},
    ),
    Broken(
        watching.the_job_logs_what_is_filtered,
        "ReadSecondsFilter",
        {at("ReadSecondsFilter", "FilterPattern"): '{ $.event = "spark_started" }'},
    ),
    Broken(
        watching.watched_metrics_exist,
        "Dashboard",
        {"Resources/CommitSecondsFilter": GONE},
    ),
    Broken(watching.the_dashboard_shows_every_alarm, "Dashboard", {"Resources/NewAlarm": ALARM}),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: f"{b.rule.__name__}-{'+'.join(b.changes) or 'other'}")
def test_a_template_that_breaks_a_rule_is_found(broken: Broken) -> None:
    assert broken.where in [finding.where for finding in findings([broken.rule], broken.stacks())]


def test_each_rule_has_a_template_that_breaks_it() -> None:
    assert {broken.rule for broken in BROKEN} == set(RULES)


def test_a_finding_says_where_and_by_which_rule() -> None:
    (found,) = findings([delivery.large_batches_have_a_window], BROKEN[4].stacks())
    assert str(found) == (
        "CollectorFunctionLanded: a BatchSize above 10 needs a MaximumBatchingWindowInSeconds of at least 1; set it "
        "[large_batches_have_a_window]"
    )
