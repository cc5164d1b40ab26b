"""Our own rules: the shipped template passes each of them, and a broken template fails each of them."""

from dataclasses import replace

import pytest

from infra.template import access, buckets, monitoring, queues, runtime
from infra.template.findings import findings
from infra.template.rules import RULES, check
from tests.stack.broken_account import ACCOUNT
from tests.stack.broken_template import GONE, ROOT, Broken, at

LANDED, COLLECTOR = "CollectorFunctionLanded", "CollectorFunction"
STATEMENTS = "Policies/0/PolicyDocument/Statement"
JOB_MAY = at("JobRole", f"{STATEMENTS}/5/Resource")
ANYBODY = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "scheduler.amazonaws.com"}}
ALARM = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"TreatMissingData": "ignore", "AlarmActions": []}}
TRUST = "AssumeRolePolicyDocument/Statement/0"
LAKE_DENIES = at("LakeBucketPolicy", "PolicyDocument/Statement/1")
FROM_TOPIC = at("EventsQueuePolicy", "PolicyDocument/Statement/2/Fn::If/1")
FILES = "$.files"
FROM_THE_LOG = {
    at("CopySecondsFilter", "MetricTransformations/0/MetricName"): "FilesMissed",
    at("FilesMissedAlarm", "Dimensions"): GONE,
}
LAG_OF_TOPIC = at("LagSecondsFilter", "MetricTransformations/0/Dimensions/1/Value")
NOTIFIES = "NotificationConfiguration/QueueConfigurations/0"


def of_the_lake(key: str) -> dict[str, str]:
    return {"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::${{LakeBucketName}}/{key}"}


BROKEN = [
    Broken(queues.messages_stay_hidden_while_they_are_processed, LANDED, {at("EventsQueue", "VisibilityTimeout"): 659}),
    Broken(queues.messages_stay_hidden_while_they_are_processed, LANDED, {at(COLLECTOR, "Timeout"): 61}),
    Broken(
        queues.messages_stay_hidden_while_they_are_processed,
        LANDED,
        {"Parameters/BatchingWindowSecs/MaxValue": 301},
    ),
    Broken(
        queues.messages_stay_hidden_while_they_are_processed,
        "DispatcherFunctionWakes",
        {at("WakeQueue", "VisibilityTimeout"): GONE},
    ),
    Broken(queues.large_batches_have_a_window, LANDED, {at(LANDED, "MaximumBatchingWindowInSeconds"): GONE}),
    Broken(queues.large_batches_have_a_window, LANDED, {"Parameters/BatchingWindowSecs/MinValue": 0}),
    Broken(queues.pollers_are_bounded, LANDED, {at(LANDED, "ScalingConfig"): GONE}),
    Broken(queues.pollers_are_bounded, LANDED, {at(LANDED, "ScalingConfig/MaximumConcurrency"): 1}),
    Broken(queues.one_bad_message_fails_alone, LANDED, {at(LANDED, "FunctionResponseTypes"): GONE}),
    Broken(queues.failed_messages_go_to_a_dead_letter_queue, "EventsQueue", {at("EventsQueue", "RedrivePolicy"): GONE}),
    Broken(
        queues.failed_messages_go_to_a_dead_letter_queue,
        "EventsQueue",
        {at("EventsQueue", "RedrivePolicy/maxReceiveCount"): 3},
    ),
    Broken(
        queues.failed_messages_go_to_a_dead_letter_queue,
        "WakeDeadLetterQueue",
        {at("WakeDeadLetterQueue", "FifoQueue"): GONE},
    ),
    Broken(
        queues.failed_messages_go_to_a_dead_letter_queue,
        "EventsDeadLetterQueue",
        {at("EventsDeadLetterQueue", "MessageRetentionPeriod"): 60},
    ),
    Broken(
        queues.failed_invocations_go_to_a_queue,
        "SweepScheduled",
        {at("SweepScheduled", "Target/DeadLetterConfig"): GONE},
    ),
    Broken(
        queues.failed_invocations_go_to_a_queue, "SweepScheduled", {at("SweepScheduled", "Target/RetryPolicy"): GONE}
    ),
    Broken(
        queues.failed_invocations_go_to_a_queue,
        "JobStateRule",
        {at("JobStateRule", "Targets/0/DeadLetterConfig"): GONE},
    ),
    Broken(
        queues.failed_invocations_go_to_a_queue, "LandingRule", {at("LandingRule", "Targets/0/DeadLetterConfig"): GONE}
    ),
    Broken(
        queues.failed_invocations_go_to_a_queue, "SweeperFunction", {"Resources/SweeperFunctionEventInvokeConfig": GONE}
    ),
    Broken(queues.queues_are_encrypted_and_require_tls, "WakeQueue", {at("WakeQueue", "SqsManagedSseEnabled"): GONE}),
    Broken(queues.queues_are_encrypted_and_require_tls, "WakeQueue", {"Resources/WakeQueuePolicy": GONE}),
    Broken(
        queues.queues_are_encrypted_and_require_tls,
        "WakeQueue",
        {at("WakeQueuePolicy", "PolicyDocument/Statement/0/Condition/Bool"): {"aws:SecureTransport": "true"}},
    ),
    Broken(
        queues.queues_accept_this_account_only,
        "FailedInvocationsQueuePolicy",
        {
            at(
                "FailedInvocationsQueuePolicy", "PolicyDocument/Statement/0/Condition/ArnEquals/aws:SourceArn"
            ): "arn:aws:events:*"
        },
    ),
    Broken(
        queues.queues_accept_this_account_only,
        "EventsQueuePolicy",
        {at("EventsQueuePolicy", "PolicyDocument/Statement/0/Fn::If/1/Condition/StringEquals"): GONE},
    ),
    Broken(
        queues.queues_accept_this_account_only,
        "EventsQueuePolicy",
        {f"{FROM_TOPIC}/Condition/ArnEquals/aws:SourceArn": "arn:aws:sns:*"},
    ),
    Broken(queues.queues_accept_what_sends_to_them, "LandingSubscription", {f"{FROM_TOPIC}/Effect": "Deny"}),
    Broken(
        queues.queues_accept_what_sends_to_them,
        "LandingSubscription",
        {at("EventsDeadLetterQueuePolicy", "PolicyDocument/Statement/1/Fn::If/1"): {"Ref": "AWS::NoValue"}},
    ),
    Broken(
        queues.queues_accept_what_sends_to_them,
        "LandingRule",
        {at("EventsQueuePolicy", "PolicyDocument/Statement/1/Fn::If/1/Resource"): "*"},
    ),
    Broken(
        queues.queues_accept_what_sends_to_them,
        "JobStateRule",
        {at("FailedInvocationsQueuePolicy", "PolicyDocument/Statement/0/Action"): "sqs:ReceiveMessage"},
    ),
    Broken(access.wildcards_have_a_reason, "CollectorRole", {at("CollectorRole", f"{STATEMENTS}/0/Action"): ["sqs:*"]}),
    Broken(access.wildcards_have_a_reason, "CollectorRole", {at("CollectorRole", f"{STATEMENTS}/6/Resource"): "*"}),
    Broken(
        access.wildcards_have_a_reason,
        "CollectorRole",
        {
            at("CollectorRole", f"{STATEMENTS}/6/NotResource"): "arn",
            at("CollectorRole", f"{STATEMENTS}/6/Resource"): GONE,
        },
    ),
    Broken(access.reasons_have_a_wildcard, "JobRole", {JOB_MAY: "arn:aws:s3:::lake/tables"}),
    Broken(access.statements_have_names, "JobRole", {at("JobRole", f"{STATEMENTS}/0/Sid"): GONE}),
    Broken(
        access.permissions_are_inline,
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
    Broken(
        access.listing_is_limited_to_a_prefix, "SweeperRole", {at("SweeperRole", f"{STATEMENTS}/1/Condition"): GONE}
    ),
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
    *ACCOUNT,
    Broken(buckets.state_outlives_the_stack, "LakeBucket", {"Resources/LakeBucket/DeletionPolicy": "Delete"}),
    Broken(buckets.state_outlives_the_stack, "LandingBucket", {"Resources/LandingBucket/DeletionPolicy": "Retain"}),
    Broken(buckets.state_outlives_the_stack, "LandingBucket", {"Resources/LandingBucket/UpdateReplacePolicy": GONE}),
    Broken(buckets.state_outlives_the_stack, "LakeBucketPolicy", {"Resources/LakeBucketPolicy/DeletionPolicy": GONE}),
    Broken(
        buckets.buckets_are_private_encrypted_and_require_tls,
        "LakeBucket",
        {at("LakeBucket", "PublicAccessBlockConfiguration/BlockPublicPolicy"): False},
    ),
    Broken(
        buckets.buckets_are_private_encrypted_and_require_tls,
        "LakeBucket",
        {at("LakeBucket", "BucketEncryption"): GONE},
    ),
    Broken(
        buckets.buckets_are_private_encrypted_and_require_tls,
        "LakeBucket",
        {at("LakeBucket", "OwnershipControls"): GONE},
    ),
    Broken(
        buckets.buckets_are_private_encrypted_and_require_tls, "LandingBucket", {"Resources/LandingBucketPolicy": GONE}
    ),
    Broken(
        buckets.buckets_expire_old_versions,
        "LakeBucket",
        {at("LakeBucket", "LifecycleConfiguration/Rules/0/Status"): "Disabled"},
    ),
    Broken(buckets.buckets_expire_old_versions, "LakeBucket", {at("LakeBucket", "VersioningConfiguration"): GONE}),
    Broken(buckets.numbered_objects_are_created_once, "LakeBucket", {f"{LAKE_DENIES}/Condition/Null": GONE}),
    Broken(buckets.numbered_objects_are_created_once, "LakeBucket", {f"{LAKE_DENIES}/Resource/1": GONE}),
    *(
        Broken(
            buckets.rewritten_objects_may_be_overwritten,
            "LakeBucketPolicy",
            {f"{LAKE_DENIES}/Resource/1": of_the_lake(key)},
        )
        for key in ("*_blizzard/*_runs/*", "*_blizzard/*pending/*")
    ),
    Broken(
        buckets.nothing_writes_to_the_landing_prefix,
        "LandingBucket",
        {JOB_MAY: {"Fn::Sub": "arn:${AWS::Partition}:s3:::${LandingBucketName}/*"}},
    ),
    Broken(
        buckets.nothing_writes_to_the_landing_prefix,
        "LandingRule",
        {JOB_MAY: {"Fn::Sub": "arn:${AWS::Partition}:s3:::${LandingBucketName}/${LandingPrefix}tables/*"}},
    ),
    Broken(buckets.nothing_writes_to_the_landing_prefix, "LandingBucket", {"Rules/BucketsAreApart": GONE}),
    *(
        Broken(
            buckets.filters_are_encoded,
            "LandingBucket",
            {at("LandingBucket", f"{NOTIFIES}/Filter/Fn::If/1/S3Key/Rules/0/Value"): value},
        )
        for value in ({"Ref": "LandingPrefix"}, "raw/date=2026/")
    ),
    Broken(runtime.functions_run_on_the_platform_of_their_bundles, COLLECTOR, {at(COLLECTOR, "Runtime"): "python3.12"}),
    Broken(runtime.functions_run_on_the_platform_of_their_bundles, COLLECTOR, {at(COLLECTOR, "Architectures"): GONE}),
    Broken(
        runtime.functions_run_on_the_platform_of_their_bundles, COLLECTOR, {at(COLLECTOR, "Handler"): "app.handler"}
    ),
    Broken(runtime.logs_expire, COLLECTOR, {at(COLLECTOR, "LoggingConfig/LogGroup"): GONE}),
    Broken(runtime.logs_expire, "JobLogGroup", {at("JobLogGroup", "RetentionInDays"): GONE}),
    Broken(
        runtime.functions_get_the_variables_that_they_read,
        "DispatcherFunction",
        {at("DispatcherFunction", "Environment/Variables/BLIZZARD_MAX_FAILURES"): GONE},
    ),
    Broken(
        runtime.functions_get_the_variables_that_they_read,
        COLLECTOR,
        {at(COLLECTOR, "Environment/Variables/BLIZZARD_MAX_FAILURES"): "5"},
    ),
    Broken(
        runtime.functions_get_the_variables_that_they_read,
        "Globals",
        code=lambda code: replace(code, shared=code.shared | {"BLIZZARD_NEW"}),
    ),
    Broken(runtime.the_job_is_bounded, "JobApplication", {at("JobApplication", "Type"): "SPARKK"}),
    Broken(runtime.the_job_is_bounded, "JobApplication", {at("JobApplication", "MaximumCapacity"): GONE}),
    Broken(
        runtime.the_job_is_bounded, "JobApplication", {at("JobApplication", "AutoStopConfiguration/Enabled"): False}
    ),
    Broken(runtime.the_job_is_bounded, "JobApplication", {at("JobApplication", "SchedulerConfiguration"): GONE}),
    Broken(
        runtime.the_job_is_bounded, "JobApplication", {at("JobApplication", "InitialCapacity"): [{"Key": "Driver"}]}
    ),
    Broken(
        runtime.the_job_is_bounded,
        "JobApplication",
        {at("JobApplication", "RuntimeConfiguration"): [{"Classification": "spark-defaults"}]},
    ),
    Broken(runtime.parameters_are_explained, "ConfigKey", {"Parameters/ConfigKey/Description": GONE}),
    Broken(runtime.parameters_are_explained, "ConfigKey", {"Parameters/ConfigKey/ConstraintDescription": GONE}),
    Broken(
        runtime.parameters_are_explained,
        "LandingPrefix",
        {"Metadata/AWS::CloudFormation::Interface/ParameterLabels/LandingPrefix": GONE},
    ),
    Broken(
        runtime.parameters_are_explained,
        "LandingPrefix",
        {"Metadata/AWS::CloudFormation::Interface/ParameterGroups/1/Parameters/5": "LandingPrefix"},
    ),
    Broken(runtime.parameters_are_explained, "ConfigKey", {"Parameters/ConfigKey": GONE}),
    Broken(runtime.parameters_are_checked, "MaxExecutors", {"Parameters/MaxExecutors/MaxValue": GONE}),
    Broken(runtime.parameters_are_checked, "LakeBucketName", {"Parameters/LakeBucketName/AllowedPattern": GONE}),
    Broken(
        runtime.parameters_bring_no_wildcards, "LandingPrefix", {"Parameters/LandingPrefix/AllowedPattern": "^[a-z*]*$"}
    ),
    Broken(runtime.parameters_are_used, "IdleStopMinutes", {at("JobApplication", "AutoStopConfiguration"): GONE}),
    Broken(
        monitoring.alarms_link_to_the_runbook,
        "RunsFailedAlarm",
        {at("RunsFailedAlarm", "AlarmDescription"): "It failed."},
    ),
    Broken(
        monitoring.alarms_link_to_the_runbook,
        "RunsFailedAlarm",
        runbook=lambda text: text.replace("## A run failed", "## Runs"),
    ),
    Broken(
        monitoring.alarms_link_to_the_runbook,
        "RunsFailedAlarm",
        runbook=lambda text: text.replace("`RunsFailedAlarm`", "`RunFailedAlarm`"),
    ),
    Broken(monitoring.runbook_sections_have_an_alarm, "RunsFailedAlarm", {"Resources/RunsFailedAlarm": GONE}),
    Broken(monitoring.alarms_notify, "RunsFailedAlarm", {at("RunsFailedAlarm", "AlarmActions"): GONE}),
    Broken(monitoring.alarms_notify, "RunsFailedAlarm", {at("RunsFailedAlarm", "TreatMissingData"): GONE}),
    *(
        Broken(monitoring.alarms_notify, name, broken)
        for name in ("FreshnessAlarm", "SweeperSilentAlarm")
        for broken in (
            {at(name, "TreatMissingData"): "breaching"},
            {at(name, "InsufficientDataActions"): GONE},
        )
    ),
    Broken(
        monitoring.unread_queues_have_an_alarm, "EventsDeadLetterQueue", {"Resources/EventsDeadLetterQueueAlarm": GONE}
    ),
    Broken(monitoring.watched_metrics_exist, "FilesMissedAlarm", {at("FilesMissedAlarm", "MetricName"): "FilesMised"}),
    Broken(monitoring.watched_metrics_exist, "FilesMissedAlarm", {at("FilesMissedAlarm", "Dimensions"): GONE}),
    Broken(
        monitoring.watched_metrics_exist,
        "DeadLettersAlarm",
        {at("DeadLettersAlarm", "Metrics/1/MetricStat/Metric/Dimensions"): GONE},
    ),
    Broken(
        monitoring.watched_metrics_exist,
        "Dashboard",
        {
            at("Dashboard", "DashboardBody/Fn::Sub"): '{"widgets": [{"properties": {"metrics": '
            '[["Blizzard/${AWS::StackName}", "Nothing", "service", "sweeper", {"label": "nothing"}]]}}]}'
        },
    ),
    Broken(monitoring.alarms_do_not_read_the_log, "FilesMissedAlarm", FROM_THE_LOG),
    Broken(monitoring.metrics_are_the_stacks_own, "FreshnessAlarm", {at("FreshnessAlarm", "Namespace"): "Blizzard"}),
    Broken(
        monitoring.metrics_are_the_stacks_own,
        "DeadLettersAlarm",
        {at("DeadLettersAlarm", "Metrics/1/MetricStat/Metric/Namespace"): "Blizzard"},
    ),
    Broken(
        monitoring.metrics_are_the_stacks_own,
        "TrimSecondsFilter",
        {at("TrimSecondsFilter", "MetricTransformations/0/MetricNamespace"): "Blizzard"},
    ),
    Broken(
        monitoring.metrics_are_the_stacks_own,
        "SweeperFunction",
        {at("SweeperFunction", "Environment/Variables/POWERTOOLS_METRICS_NAMESPACE"): GONE},
    ),
    Broken(
        monitoring.metrics_are_the_stacks_own,
        "Dashboard",
        {
            at("Dashboard", "DashboardBody/Fn::Sub"): '{"widgets": [{"properties": {"metrics": '
            '[["Blizzard", "FilesMissed", "service", "sweeper"]]}}]}'
        },
    ),
    Broken(
        monitoring.the_job_logs_the_filtered_events,
        "TrimSecondsFilter",
        {at("TrimSecondsFilter", "FilterPattern"): '{ $.event = "batch_done" }'},
    ),
    Broken(
        monitoring.the_job_logs_the_filtered_events,
        "TrimSecondsFilter",
        {at("TrimSecondsFilter", "MetricTransformations/0/MetricValue"): "$.dead"},
    ),
    Broken(
        monitoring.the_job_logs_the_filtered_events,
        "ReadSecondsFilter",
        {at("ReadSecondsFilter", "MetricTransformations/0/MetricValue"): "$.secs.reading"},
    ),
    Broken(
        monitoring.the_job_logs_the_filtered_events,
        "ReadSecondsFilter",
        {at("ReadSecondsFilter", "FilterPattern"): '{ $.event = "spark_started" }'},
    ),
    Broken(monitoring.the_job_logs_the_filtered_events, "LagSecondsFilter", {LAG_OF_TOPIC: "$.topics"}),
    Broken(
        monitoring.watched_metrics_exist,
        "Dashboard",
        {"Resources/CommitSecondsFilter": GONE},
    ),
    Broken(monitoring.the_dashboard_shows_every_alarm, "Dashboard", {"Resources/NewAlarm": ALARM}),
]


def test_the_shipped_template_passes_every_rule() -> None:
    assert [str(finding) for finding in check(ROOT)] == []


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: f"{b.rule.__name__}-{'+'.join(b.changes) or 'other'}")
def test_a_template_that_breaks_a_rule_has_a_finding(broken: Broken) -> None:
    assert broken.where in [finding.where for finding in findings([broken.rule], broken.evaluated_templates())]


def test_each_rule_has_a_template_that_breaks_it() -> None:
    assert {broken.rule for broken in BROKEN} == set(RULES)


def test_a_finding_says_where_and_by_which_rule() -> None:
    (found,) = findings([queues.large_batches_have_a_window], BROKEN[4].evaluated_templates())
    assert str(found) == (
        "CollectorFunctionLanded: a BatchSize above 10 needs a MaximumBatchingWindowInSeconds of at least 1; set it "
        "[large_batches_have_a_window]"
    )
