"""CloudFormation of the local AWS: services return what the template sets, and unknown names fail the deployment."""

import json
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from infra.local.deploy.stack_client import StackFailed
from infra.local.processes.server_process import LocalAws
from tests.contract.every_resource_type import Deployment, changed, without


@pytest.fixture(scope="module")
def deployed(aws: LocalAws) -> Deployment:
    """For tests that change nothing."""
    return Deployment(aws).create()


def test_a_bucket_has_every_setting_of_its_template(deployed: Deployment) -> None:
    s3, bucket = deployed.aws.client("s3"), {"Bucket": deployed.name}
    [rule] = s3.get_bucket_encryption(**bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert s3.get_bucket_versioning(**bucket)["Status"] == "Enabled"
    assert s3.get_bucket_ownership_controls(**bucket)["OwnershipControls"]["Rules"] == [
        {"ObjectOwnership": "BucketOwnerEnforced"}
    ]
    assert set(s3.get_public_access_block(**bucket)["PublicAccessBlockConfiguration"].values()) == {True}
    [lifecycle] = s3.get_bucket_lifecycle_configuration(**bucket)["Rules"]
    assert (lifecycle["ID"], lifecycle["Expiration"], lifecycle["Filter"]) == ("tidy", {"Days": 3}, {"Prefix": "old/"})
    assert lifecycle["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert lifecycle["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    notification = s3.get_bucket_notification_configuration(**bucket)
    assert "EventBridgeConfiguration" in notification
    assert notification["QueueConfigurations"][0]["QueueArn"] == deployed.attributes("Events")["QueueArn"]


def test_a_deployed_notification_sends_events_below_its_prefix(deployed: Deployment) -> None:
    sqs, url = deployed.aws.client("sqs"), deployed.stack.resources["Events"]
    for key in ("raw/1", "else/2"):
        deployed.aws.client("s3").put_object(Bucket=deployed.name, Key=key, Body=b"")
    keys = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        bodies = [json.loads(message["Body"]) for message in messages]
        keys += [record["s3"]["object"]["key"] for body in bodies for record in body.get("Records", [])]
    assert keys == ["raw/1"]


def test_a_subscription_has_every_setting_of_its_template_and_delivers(aws: LocalAws) -> None:
    deployed = Deployment(aws).create()
    sns, sqs = aws.client("sns"), aws.client("sqs")
    [subscription] = sns.list_subscriptions_by_topic(TopicArn=deployed.topic)["Subscriptions"]
    assert subscription["Endpoint"] == deployed.attributes("Events")["QueueArn"]
    found = sns.get_subscription_attributes(SubscriptionArn=subscription["SubscriptionArn"])["Attributes"]
    assert found["RawMessageDelivery"] == "true"
    assert json.loads(found["RedrivePolicy"]) == {"deadLetterTargetArn": deployed.attributes("Dead")["QueueArn"]}
    sns.publish(TopicArn=deployed.topic, Message="as it is")
    url, bodies = deployed.stack.resources["Events"], []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        bodies += [message["Body"] for message in messages]
    assert "as it is" in bodies
    deployed.update(changed("Subscription", RawMessageDelivery=None))
    found = sns.get_subscription_attributes(SubscriptionArn=subscription["SubscriptionArn"])["Attributes"]
    assert found.get("RawMessageDelivery") != "true"
    deployed.update(without("Subscription"))
    assert sns.list_subscriptions_by_topic(TopicArn=deployed.topic)["Subscriptions"] == []


def test_a_bucket_policy_denies_only_what_its_conditions_match(deployed: Deployment) -> None:
    s3, there = deployed.aws.client("s3"), {"Bucket": deployed.name, "Body": b""}
    s3.put_object(Key="t/pending/1", IfNoneMatch="*", **there)
    s3.put_object(Key="t/other/1", **there)
    with pytest.raises(ClientError, match="403"):
        s3.put_object(Key="t/pending/2", **there)


def test_queues_have_every_setting_of_their_template(deployed: Deployment) -> None:
    events, dead, wakes = (deployed.attributes(name) for name in ("Events", "Dead", "Wakes"))
    assert (events["VisibilityTimeout"], events["SqsManagedSseEnabled"]) == ("660", "true")
    redrive = {"deadLetterTargetArn": dead["QueueArn"], "maxReceiveCount": 5}
    assert json.loads(events["RedrivePolicy"]) == redrive
    assert len(json.loads(events["Policy"])["Statement"]) == 1
    assert json.loads(dead["RedriveAllowPolicy"]) == {"redrivePermission": "allowAll"}
    assert dead["MessageRetentionPeriod"] == "1209600"
    assert (wakes["FifoQueue"], wakes["DelaySeconds"]) == ("true", "7")
    assert wakes["QueueArn"].endswith(".fifo")


def test_a_function_has_every_setting_of_its_template(deployed: Deployment) -> None:
    found, functions = deployed.function(), deployed.aws.client("lambda")
    assert (found["Timeout"], found["MemorySize"], found["Architectures"]) == (20, 256, ["arm64"])
    assert found["Environment"]["Variables"] == {"GREETING": "hello", "WINDOW": "7"}
    assert found["LoggingConfig"] == {"LogGroup": deployed.stack.resources["Logs"], "LogFormat": "JSON"}
    [mapping] = functions.list_event_source_mappings(FunctionName=found["FunctionName"])["EventSourceMappings"]
    assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (500, 7)
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 4}
    config = functions.get_function_event_invoke_config(FunctionName=found["FunctionName"])
    assert config["MaximumRetryAttempts"] == 1
    assert config["DestinationConfig"]["OnFailure"]["Destination"] == deployed.attributes("Dead")["QueueArn"]
    policy = json.loads(functions.get_policy(FunctionName=found["FunctionName"])["Policy"])
    assert policy["Statement"][0]["Principal"] == {"Service": "events.amazonaws.com"}


def test_an_application_has_every_setting_of_its_template(deployed: Deployment) -> None:
    found = deployed.application()
    assert (found["name"], found["type"], found["releaseLabel"]) == (deployed.name, "Spark", "emr-spark-8.1.0")
    assert found["architecture"] == "ARM64"
    assert found["schedulerConfiguration"] == {"maxConcurrentRuns": 1, "queueTimeoutMinutes": 720}
    assert found["autoStopConfiguration"] == {"enabled": True, "idleTimeoutMinutes": 7}
    assert found["maximumCapacity"] == {"cpu": "16 vCPU", "memory": "72 GB"}


def test_logs_and_metrics_match_the_template(deployed: Deployment) -> None:
    logs, cloudwatch, resources = (
        deployed.aws.client("logs"),
        deployed.aws.client("cloudwatch"),
        deployed.stack.resources,
    )
    [group] = logs.describe_log_groups(logGroupNamePrefix=resources["Logs"])["logGroups"]
    assert group["retentionInDays"] == 14
    [found] = logs.describe_metric_filters(logGroupName=resources["Logs"])["metricFilters"]
    assert found["filterPattern"] == '{ $.event = "batch_committed" }'
    assert found["metricTransformations"][0]["dimensions"] == {"source": "$.source"}
    [alarm] = cloudwatch.describe_alarms(AlarmNames=[resources["Alarm"]])["MetricAlarms"]
    assert (alarm["Threshold"], alarm["Period"], alarm["TreatMissingData"]) == (0.0, 60, "notBreaching")
    assert alarm["Dimensions"][0]["Value"] == deployed.attributes("Dead")["QueueArn"].split(":")[-1]
    assert cloudwatch.get_dashboard(DashboardName=deployed.name)["DashboardBody"] == '{"widgets": []}'


def test_roles_rules_and_schedules_match_the_template(deployed: Deployment) -> None:
    resources, function = deployed.stack.resources, deployed.function()["FunctionArn"]
    policy = deployed.aws.client("iam").get_role_policy(RoleName=resources["Role"], PolicyName="log")
    assert resources["Logs"] in policy["PolicyDocument"]["Statement"][0]["Resource"]
    [target] = deployed.aws.client("events").list_targets_by_rule(Rule=resources["Rule"])["Targets"]
    assert target["Arn"] == function
    schedule = deployed.aws.client("scheduler").get_schedule(Name=resources["Schedule"])
    assert (schedule["ScheduleExpression"], schedule["Target"]["Input"]) == ("rate(5 minutes)", '{"schedule": "x"}')
    assert schedule["Target"]["Arn"] == function


def test_a_policy_of_a_role_is_replaced_when_its_name_changes(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    iam, role = aws.client("iam"), deployment.stack.resources["Role"]
    assert set(iam.list_role_policies(RoleName=role)["PolicyNames"]) == {"log", "may-log"}
    deployment.update(May="sing")
    assert set(iam.list_role_policies(RoleName=role)["PolicyNames"]) == {"log", "may-sing"}
    deployment.update(without("RolePolicy"))
    assert iam.list_role_policies(RoleName=role)["PolicyNames"] == ["log"]


def test_a_resource_with_a_false_condition_is_not_created(deployed: Deployment) -> None:
    assert "NotMade" not in deployed.stack.resources
    assert deployed.stack.outputs == {"Queue": deployed.stack.resources["Events"]}


def test_a_parameter_update_changes_its_users_and_replaces_nothing(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    before = deployment.stack.resources
    deployment.update(Greeting="good evening", Window="9", Label="emr-spark-8.2.0")
    assert deployment.stack.resources == before
    assert deployment.function()["Environment"]["Variables"] == {"GREETING": "good evening", "WINDOW": "9"}
    assert deployment.attributes("Wakes")["DelaySeconds"] == "9"
    assert deployment.application()["releaseLabel"] == "emr-spark-8.2.0"
    assert deployment.application()["autoStopConfiguration"]["idleTimeoutMinutes"] == 9
    assert "Policy" in deployment.attributes("Events")


def test_an_update_of_a_started_application_fails_and_changes_nothing(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    emr, application = aws.client("emr-serverless"), deployment.stack.resources["Application"]
    emr.start_application(applicationId=application)
    with pytest.raises(StackFailed, match=r"Application: .*\[CREATED, STOPPED\]. Current status: STARTED"):
        deployment.update(Label="emr-spark-8.2.0")
    assert (deployment.application()["state"], deployment.application()["releaseLabel"]) == (
        "STARTED",
        "emr-spark-8.1.0",
    )
    emr.stop_application(applicationId=application)
    deployment.update(Label="emr-spark-8.2.0")
    assert deployment.application()["releaseLabel"] == "emr-spark-8.2.0"


def test_a_template_update_adds_changes_and_removes_resources(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    deployment.update(without("Schedule"))
    assert "Schedule" not in deployment.stack.resources
    names = [one["Name"] for one in aws.client("scheduler").list_schedules()["Schedules"]]
    assert not [name for name in names if name.startswith(f"{deployment.name}-")]
    deployment.update(changed("Events", VisibilityTimeout=None, DelaySeconds=3))
    assert "Schedule" in deployment.stack.resources
    assert deployment.attributes("Events")["VisibilityTimeout"] == "30"
    assert deployment.attributes("Events")["DelaySeconds"] == "3"
    assert "Policy" in deployment.attributes("Events")


def test_an_immutable_property_replaces_the_resource_and_updates_references(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    old = deployment.attributes("Events")["QueueArn"]
    deployment.update(changed("Events", QueueName=f"{deployment.name}-other"))
    new = deployment.attributes("Events")["QueueArn"]
    assert new.endswith("-other")
    mappings = aws.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    assert new in [mapping["EventSourceArn"] for mapping in mappings]
    assert old not in [mapping["EventSourceArn"] for mapping in mappings]


def test_a_failed_update_is_rolled_back(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    before = deployment.stack.resources
    template = changed("Function", Timeout=25)
    template["Resources"]["Mapping"]["Properties"]["BatchSize"] = 20_000
    with pytest.raises(StackFailed, match="UPDATE_ROLLBACK_COMPLETE: Mapping"):
        deployment.update(template, Greeting="never heard")
    assert deployment.function()["Timeout"] == 20
    assert deployment.function()["Environment"]["Variables"]["GREETING"] == "hello"
    assert deployment.stack.resources == before


def test_a_deleted_stack_keeps_retained_resources(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    queue, group = deployment.stack.resources["Events"], deployment.stack.resources["Logs"]
    deployment.stack.delete()
    assert deployment.name in [bucket["Name"] for bucket in aws.client("s3").list_buckets()["Buckets"]]
    assert queue not in aws.client("sqs").list_queues().get("QueueUrls", [])
    assert not aws.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (
            {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}},
            "Topic: AWS::SNS::Topic is not supported by the local AWS",
        ),
        (changed("Events", Color="blue"), "Events: AWS::SQS::Queue: Color is not supported by the local AWS"),
        (changed("Function", MemorySize="much"), "Function: ValueError"),
        (changed("Alarm", Period=60, Statistic="Most"), "Alarm"),
    ],
    ids=["type", "property", "value", "choice"],
)
def test_an_unknown_name_or_value_fails_the_deployment_and_leaves_nothing(
    aws: LocalAws, template: dict[str, Any], reason: str
) -> None:
    deployment = Deployment(aws)
    with pytest.raises(StackFailed, match=reason):
        deployment.create(template)
    queues = aws.client("sqs").list_queues(QueueNamePrefix=deployment.name).get("QueueUrls", [])
    assert (deployment.stack.status, queues) == ("ROLLBACK_COMPLETE", [])


def test_a_role_keeps_to_its_boundary_and_path(aws: LocalAws) -> None:
    def boundary() -> str | None:
        role = aws.client("iam").get_role(RoleName=deployment.stack.resources["Role"])["Role"]
        found: str | None = role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        return found

    iam, names = aws.client("iam"), [f"limit-{uuid.uuid4().hex}" for _ in range(2)]
    limit = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
    one, other = (
        iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(limit))["Policy"]["Arn"] for name in names
    )
    deployment = Deployment(aws).create(changed("Role", PermissionsBoundary=one, Path="/teams/"))
    assert boundary() == one
    deployment.update(changed("Role", PermissionsBoundary=other, Path="/teams/"))
    assert boundary() == other
    before = deployment.stack.resources["Role"]
    deployment.update(changed("Role", Path="/teams/"))
    assert (boundary(), deployment.stack.resources["Role"]) == (None, before)
    deployment.update(changed("Role", Path="/others/"))
    assert iam.get_role(RoleName=deployment.stack.resources["Role"])["Role"]["Path"] == "/others/"


def test_a_log_group_keeps_to_its_key(aws: LocalAws) -> None:
    def key() -> str | None:
        [group] = logs.describe_log_groups(logGroupNamePrefix=deployment.stack.resources["Logs"])["logGroups"]
        found: str | None = group.get("kmsKeyId")
        return found

    logs, arn = aws.client("logs"), "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    deployment = Deployment(aws).create()
    assert key() is None
    deployment.update(changed("Logs", KmsKeyId=arn))
    assert key() == arn
    deployment.update()
    assert key() is None


def test_an_application_is_in_its_network(aws: LocalAws) -> None:
    network = {"SubnetIds": ["subnet-0123456789abcdef0"], "SecurityGroupIds": ["sg-0123456789abcdef0"]}
    deployment = Deployment(aws).create(changed("Application", NetworkConfiguration=network))
    assert deployment.application()["networkConfiguration"] == {
        "subnetIds": network["SubnetIds"],
        "securityGroupIds": network["SecurityGroupIds"],
    }
