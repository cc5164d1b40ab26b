"""A template with every resource type that the local AWS deploys, and a stack of it."""

import copy
import io
import uuid
import zipfile
from typing import Any

from infra.local.deploy.stack_client import StackClient
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
        "Topic": {"Type": "String"},
        "Greeting": {"Type": "String", "Default": "hello"},
        "Window": {"Type": "Number", "Default": 7},
        "May": {"Type": "String", "Default": "log"},
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
        "Subscription": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {
                "TopicArn": {"Ref": "Topic"},
                "Region": "eu-west-1",
                "Protocol": "sqs",
                "Endpoint": {"Fn::GetAtt": ["Events", "Arn"]},
                "RawMessageDelivery": True,
                "RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}},
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
        "RolePolicy": {
            "Type": "AWS::IAM::RolePolicy",
            "Properties": {
                "RoleName": {"Ref": "Role"},
                "PolicyName": {"Fn::Sub": "may-${May}"},
                "PolicyDocument": MAY_LOG,
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
    """A stack of TEMPLATE, and the settings of its resources as their services return them."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws
        self.name = f"s{uuid.uuid4().hex[:12]}"
        self.stack = StackClient(aws, self.name)
        self.topic = aws.client("sns").create_topic(Name=self.name)["TopicArn"]
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
        self.stack.create(template, {"Name": self.name, "Topic": self.topic, **parameters})
        return self

    def update(self, template: dict[str, Any] = TEMPLATE, **parameters: str) -> None:
        self.stack.update(template, {"Name": self.name, "Topic": self.topic, **parameters})

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


def changed(name: str, **properties: Any) -> dict[str, Any]:
    """TEMPLATE with other properties of one resource; None removes a property."""
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
