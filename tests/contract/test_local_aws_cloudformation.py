"""CloudFormation of the local AWS: what a template sets is what the services say, and what nobody knows fails aloud."""

import copy
import io
import json
import uuid
import zipfile
from typing import Any

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from infra.local.deploy.stack_client import Stack, StackFailed
from infra.local.processes.server_process import LocalAws

ANYBODY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
MAY_LOG = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "logs:PutLogEvents", "Resource": {"Fn::GetAtt": ["Logs", "Arn"]}}],
}
OVER_HTTP = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:*",
    "Resource": {"Fn::Sub": "arn:${AWS::Partition}:s3:::${Name}/*"},
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
UNCONDITIONAL = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:PutObject",
    "Resource": {"Fn::Sub": "arn:${AWS::Partition}:s3:::${Name}/*/pending/*"},
    "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
}
TEMPLATE: dict[str, Any] = {
    "Parameters": {
        "Name": {"Type": "String"},
        "Greeting": {"Type": "String", "Default": "hello"},
        "Window": {"Type": "Number", "Default": 7},
        "Label": {"Type": "String", "Default": "emr-spark-8.1.0"},
    },
    "Conditions": {"Never": {"Fn::Equals": ["a", "b"]}},
    "Resources": {
        "Landing": {
            "Type": "AWS::S3::Bucket",
            "DependsOn": "EventsPolicy",
            "DeletionPolicy": "Retain",
            "Properties": {
                "BucketName": {"Ref": "Name"},
                "BucketEncryption": {
                    "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
                },
                "VersioningConfiguration": {"Status": "Enabled"},
                "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
                "PublicAccessBlockConfiguration": {
                    "BlockPublicAcls": True,
                    "BlockPublicPolicy": True,
                    "IgnorePublicAcls": "true",
                    "RestrictPublicBuckets": True,
                },
                "LifecycleConfiguration": {
                    "Rules": [
                        {
                            "Id": "tidy",
                            "Status": "Enabled",
                            "Prefix": "old/",
                            "ExpirationInDays": "3",
                            "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
                        }
                    ]
                },
                "NotificationConfiguration": {
                    "EventBridgeConfiguration": {"EventBridgeEnabled": True},
                    "QueueConfigurations": [
                        {
                            "Event": "s3:ObjectCreated:*",
                            "Queue": {"Fn::GetAtt": ["Events", "Arn"]},
                            "Filter": {"S3Key": {"Rules": [{"Name": "prefix", "Value": "raw/"}]}},
                        }
                    ],
                },
            },
        },
        "LandingPolicy": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {
                "Bucket": {"Ref": "Landing"},
                "PolicyDocument": {"Version": "2012-10-17", "Statement": [OVER_HTTP, UNCONDITIONAL]},
            },
        },
        "Events": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "VisibilityTimeout": 660,
                "SqsManagedSseEnabled": True,
                "RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}, "maxReceiveCount": 5},
            },
        },
        "Dead": {
            "Type": "AWS::SQS::Queue",
            "Properties": {"RedriveAllowPolicy": {"redrivePermission": "allowAll"}, "MessageRetentionPeriod": 1209600},
        },
        "EventsPolicy": {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {
                "Queues": [{"Ref": "Events"}],
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"},
                        {"Ref": "AWS::NoValue"},
                    ],
                },
            },
        },
        "Wakes": {
            "Type": "AWS::SQS::Queue",
            "Properties": {"FifoQueue": True, "DelaySeconds": {"Ref": "Window"}},
        },
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": ANYBODY,
                "Policies": [{"PolicyName": "log", "PolicyDocument": MAY_LOG}],
            },
        },
        "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 14}},
        "Filter": {
            "Type": "AWS::Logs::MetricFilter",
            "Properties": {
                "LogGroupName": {"Ref": "Logs"},
                "FilterPattern": '{ $.event = "batch_committed" }',
                "MetricTransformations": [
                    {
                        "MetricName": "Rows",
                        "MetricNamespace": "Test",
                        "MetricValue": "$.rows",
                        "Dimensions": [{"Key": "source", "Value": "$.source"}],
                    }
                ],
            },
        },
        "Alarm": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmDescription": "look at the queue",
                "Namespace": "AWS/SQS",
                "MetricName": "ApproximateNumberOfMessagesVisible",
                "Dimensions": [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["Dead", "QueueName"]}}],
                "Statistic": "Maximum",
                "Period": "60",
                "EvaluationPeriods": 1,
                "Threshold": 0,
                "ComparisonOperator": "GreaterThanThreshold",
                "TreatMissingData": "notBreaching",
            },
        },
        "Board": {
            "Type": "AWS::CloudWatch::Dashboard",
            "Properties": {"DashboardName": {"Ref": "Name"}, "DashboardBody": '{"widgets": []}'},
        },
        "Function": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"S3Bucket": {"Fn::Sub": "${Name}-code"}, "S3Key": "f.zip"},
                "Handler": "f.handler",
                "Runtime": "python3.13",
                "Architectures": ["arm64"],
                "MemorySize": 256,
                "Timeout": "20",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "LoggingConfig": {"LogGroup": {"Ref": "Logs"}, "LogFormat": "JSON"},
                "Environment": {"Variables": {"GREETING": {"Ref": "Greeting"}, "WINDOW": {"Ref": "Window"}}},
            },
        },
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Events", "Arn"]},
                "FunctionName": {"Ref": "Function"},
                "BatchSize": 500,
                "MaximumBatchingWindowInSeconds": {"Ref": "Window"},
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "ScalingConfig": {"MaximumConcurrency": 4},
            },
        },
        "InvokeConfig": {
            "Type": "AWS::Lambda::EventInvokeConfig",
            "Properties": {
                "FunctionName": {"Ref": "Function"},
                "Qualifier": "$LATEST",
                "MaximumRetryAttempts": 1,
                "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": ["Dead", "Arn"]}}},
            },
        },
        "Permission": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "FunctionName": {"Ref": "Function"},
                "Action": "lambda:InvokeFunction",
                "Principal": "events.amazonaws.com",
                "SourceArn": {"Fn::GetAtt": ["Rule", "Arn"]},
            },
        },
        "Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": [{"Ref": "Name"}]},
                "Targets": [{"Id": "function", "Arn": {"Fn::GetAtt": ["Function", "Arn"]}}],
            },
        },
        "Schedule": {
            "Type": "AWS::Scheduler::Schedule",
            "Properties": {
                "ScheduleExpression": "rate(5 minutes)",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {
                    "Arn": {"Fn::GetAtt": ["Function", "Arn"]},
                    "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                    "Input": '{"schedule": "x"}',
                },
            },
        },
        "Application": {
            "Type": "AWS::EMRServerless::Application",
            "Properties": {
                "Name": {"Ref": "Name"},
                "Type": "Spark",
                "ReleaseLabel": {"Ref": "Label"},
                "Architecture": "ARM64",
                "AutoStopConfiguration": {"Enabled": True, "IdleTimeoutMinutes": {"Ref": "Window"}},
                "SchedulerConfiguration": {"MaxConcurrentRuns": 1, "QueueTimeoutMinutes": 720},
                "MaximumCapacity": {"Cpu": "16 vCPU", "Memory": "72 GB"},
            },
        },
        "NotMade": {"Type": "AWS::SQS::Queue", "Condition": "Never"},
    },
    "Outputs": {"Queue": {"Value": {"Ref": "Events"}}},
}


class Deployment:
    """A stack of the template above, and how to ask what came of it."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws
        self.name = f"s{uuid.uuid4().hex[:12]}"
        self.stack = Stack(aws, self.name)
        self.put_code("first")

    def put_code(self, text: str) -> None:
        s3 = self.aws.client("s3")
        if f"{self.name}-code" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
            place = {"LocationConstraint": "eu-west-1"}
            s3.create_bucket(Bucket=f"{self.name}-code", CreateBucketConfiguration=place)
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as bundle:
            bundle.writestr("f.py", f"def handler(event, context): return {text!r}\n")
        s3.put_object(Bucket=f"{self.name}-code", Key="f.zip", Body=code.getvalue())

    def create(self, template: dict[str, Any] = TEMPLATE, **parameters: str) -> "Deployment":
        self.stack.create(template, {"Name": self.name, **parameters})
        return self

    def update(self, template: dict[str, Any] = TEMPLATE, **parameters: str) -> None:
        self.stack.update(template, {"Name": self.name, **parameters})

    def attributes(self, name: str) -> dict[str, str]:
        url = self.stack.resources[name]
        found: dict[str, str] = self.aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])[
            "Attributes"
        ]
        return found

    def function(self) -> dict[str, Any]:
        name = self.stack.resources["Function"]
        found: dict[str, Any] = self.aws.client("lambda").get_function_configuration(FunctionName=name)
        return found

    def application(self) -> dict[str, Any]:
        emr = self.aws.client("emr-serverless")
        found: dict[str, Any] = emr.get_application(applicationId=self.stack.resources["Application"])["application"]
        return found


@pytest.fixture(scope="module")
def deployed(aws: LocalAws) -> Deployment:
    """For tests that only look."""
    return Deployment(aws).create()


def changed(name: str, **properties: Any) -> dict[str, Any]:
    """The template with other properties of one resource; None takes one out."""
    template = copy.deepcopy(TEMPLATE)
    found = template["Resources"][name]["Properties"]
    for key, value in properties.items():
        found[key] = value
        if value is None:
            del found[key]
    return template


def without(name: str) -> dict[str, Any]:
    template = copy.deepcopy(TEMPLATE)
    del template["Resources"][name]
    return template


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


def test_a_deployed_notification_announces_objects_below_its_prefix(deployed: Deployment) -> None:
    sqs, url = deployed.aws.client("sqs"), deployed.stack.resources["Events"]
    for key in ("raw/1", "else/2"):
        deployed.aws.client("s3").put_object(Bucket=deployed.name, Key=key, Body=b"")
    keys = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        bodies = [json.loads(message["Body"]) for message in messages]
        keys += [record["s3"]["object"]["key"] for body in bodies for record in body.get("Records", [])]
    assert keys == ["raw/1"]


def test_a_bucket_policy_denies_what_its_conditions_say_and_nothing_else(deployed: Deployment) -> None:
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


def test_logs_and_metrics_are_as_in_the_template(deployed: Deployment) -> None:
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


def test_roles_rules_and_schedules_are_as_in_the_template(deployed: Deployment) -> None:
    resources, function = deployed.stack.resources, deployed.function()["FunctionArn"]
    policy = deployed.aws.client("iam").get_role_policy(RoleName=resources["Role"], PolicyName="log")
    assert resources["Logs"] in policy["PolicyDocument"]["Statement"][0]["Resource"]
    [target] = deployed.aws.client("events").list_targets_by_rule(Rule=resources["Rule"])["Targets"]
    assert target["Arn"] == function
    schedule = deployed.aws.client("scheduler").get_schedule(Name=resources["Schedule"])
    assert (schedule["ScheduleExpression"], schedule["Target"]["Input"]) == ("rate(5 minutes)", '{"schedule": "x"}')
    assert schedule["Target"]["Arn"] == function


def test_a_resource_whose_condition_does_not_hold_is_not_made(deployed: Deployment) -> None:
    assert "NotMade" not in deployed.stack.resources
    assert deployed.stack.outputs == {"Queue": deployed.stack.resources["Events"]}


def test_an_update_of_parameters_reaches_whatever_names_them_and_replaces_nothing(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    before = deployment.stack.resources
    deployment.update(Greeting="good evening", Window="9", Label="emr-spark-8.2.0")
    assert deployment.stack.resources == before
    assert deployment.function()["Environment"]["Variables"] == {"GREETING": "good evening", "WINDOW": "9"}
    assert deployment.attributes("Wakes")["DelaySeconds"] == "9"
    assert deployment.application()["releaseLabel"] == "emr-spark-8.2.0"
    assert deployment.application()["autoStopConfiguration"]["idleTimeoutMinutes"] == 9
    assert "Policy" in deployment.attributes("Events")


def test_an_update_leaves_a_started_application_alone_and_fails(aws: LocalAws) -> None:
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


def test_an_update_of_the_template_adds_changes_and_removes(aws: LocalAws) -> None:
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


def test_what_cannot_be_changed_is_replaced_and_who_refers_to_it_follows(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    old = deployment.attributes("Events")["QueueArn"]
    deployment.update(changed("Events", QueueName=f"{deployment.name}-other"))
    new = deployment.attributes("Events")["QueueArn"]
    assert new.endswith("-other")
    mappings = aws.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    assert new in [mapping["EventSourceArn"] for mapping in mappings]
    assert old not in [mapping["EventSourceArn"] for mapping in mappings]


def test_an_update_that_fails_leaves_everything_as_it_was(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    before = deployment.stack.resources
    template = changed("Function", Timeout=25)
    template["Resources"]["Mapping"]["Properties"]["BatchSize"] = 20_000
    with pytest.raises(StackFailed, match="UPDATE_ROLLBACK_COMPLETE: Mapping"):
        deployment.update(template, Greeting="never heard")
    assert deployment.function()["Timeout"] == 20
    assert deployment.function()["Environment"]["Variables"]["GREETING"] == "hello"
    assert deployment.stack.resources == before


def test_a_deleted_stack_leaves_what_is_retained(aws: LocalAws) -> None:
    deployment = Deployment(aws).create()
    queue, group = deployment.stack.resources["Events"], deployment.stack.resources["Logs"]
    deployment.stack.delete()
    assert deployment.name in [bucket["Name"] for bucket in aws.client("s3").list_buckets()["Buckets"]]
    assert queue not in aws.client("sqs").list_queues().get("QueueUrls", [])
    assert not aws.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}, "does not know AWS::SNS::Topic"),
        (changed("Events", Color="blue"), "Events: the local AWS does not know Color of AWS::SQS::Queue"),
        (changed("Function", MemorySize="much"), "Function: ValueError"),
        (changed("Alarm", Period=60, Statistic="Most"), "Alarm"),
    ],
    ids=["type", "property", "value", "choice"],
)
def test_what_is_not_known_fails_the_deployment_and_leaves_nothing(
    aws: LocalAws, template: dict[str, Any], says: str
) -> None:
    deployment = Deployment(aws)
    with pytest.raises(StackFailed, match=says):
        deployment.create(template)
    queues = aws.client("sqs").list_queues(QueueNamePrefix=deployment.name).get("QueueUrls", [])
    assert (deployment.stack.status, queues) == ("ROLLBACK_COMPLETE", [])
