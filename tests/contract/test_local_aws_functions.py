"""Functions on the local AWS: run from the deployed bundle with the deployed settings, by every kind of invocation."""

import io
import json
import os
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.log import silent
from infra.local.deploy.stack_client import StackClient
from infra.local.processes.server_process import REGION, local_aws
from infra.local.stack.local_stack import LocalStack

DEADLINE_SECS = 120.0
CODE = """
import json, os, sys, time

def handler(event, context):
    print("got", json.dumps(event))
    print(json.dumps({"_aws": {"CloudWatchMetrics": [{"Namespace": "Test", "Dimensions": [["service"]],
        "Metrics": [{"Name": "Calls", "Unit": "Count"}]}]}, "service": "test", "Calls": [1.0]}))
    what = event.get("do") if isinstance(event, dict) else None
    if what == "environment":
        return dict(os.environ)
    if what == "import":
        try:
            __import__(event["name"])
            return "there"
        except ImportError:
            return "not there"
    if what == "context":
        return [context.function_name, context.memory_limit_in_mb, context.get_remaining_time_in_millis(),
            context.invoked_function_arn, context.log_group_name]
    if what == "wait":
        time.sleep(event["secs"])
    if what == "exit":
        os._exit(7)
    if what == "raise":
        raise LookupError("nothing here")
    if what == "memory":
        return len(bytearray(event["mb"] * 1024 * 1024))
    if "Records" in event:
        import boto3
        sqs = boto3.client("sqs")
        failures = []
        for record in event["Records"]:
            body = record["body"]
            sqs.send_message(QueueUrl=os.environ["SEEN"], MessageBody=json.dumps([body, os.getpid()]))
            if body == "bad":
                failures.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failures}
    return event
"""
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def function(timeout_secs: int) -> dict[str, Any]:
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"S3Bucket": "code", "S3Key": "f.zip"},
            "Handler": "code.handler",
            "Runtime": "python3.13",
            "MemorySize": 128,
            "Timeout": timeout_secs,
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "LoggingConfig": {"LogGroup": {"Ref": "Logs"}},
            "Environment": {"Variables": {"GREETING": {"Ref": "Greeting"}, "SEEN": {"Ref": "Seen"}}},
        },
    }


TEMPLATE: dict[str, Any] = {
    "Parameters": {"Greeting": {"Type": "String", "Default": "hello"}},
    "Resources": {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "TesterFunction": function(60),
        "HastyFunction": function(5),
        "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/blizzard/test/tester"}},
        "Filter": {
            "Type": "AWS::Logs::MetricFilter",
            "Properties": {
                "LogGroupName": {"Ref": "Logs"},
                "FilterPattern": '{ $.service = "test" }',
                "MetricTransformations": [{"MetricName": "Lines", "MetricNamespace": "Test", "MetricValue": "1"}],
            },
        },
        "Seen": {"Type": "AWS::SQS::Queue"},
        "Failed": {"Type": "AWS::SQS::Queue"},
        "Queue": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "VisibilityTimeout": 120,
                "RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}, "maxReceiveCount": 2},
            },
        },
        "Dead": {"Type": "AWS::SQS::Queue"},
        "Ordered": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True, "VisibilityTimeout": 120}},
        "QueueMapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]},
                "FunctionName": {"Ref": "TesterFunction"},
                "BatchSize": 50,
                "MaximumBatchingWindowInSeconds": 1,
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
            },
        },
        "OrderedMapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Ordered", "Arn"]},
                "FunctionName": {"Ref": "TesterFunction"},
                "BatchSize": 2,
                "ScalingConfig": {"MaximumConcurrency": 2},
            },
        },
        "InvokeConfig": {
            "Type": "AWS::Lambda::EventInvokeConfig",
            "Properties": {
                "FunctionName": {"Ref": "TesterFunction"},
                "Qualifier": "$LATEST",
                "MaximumRetryAttempts": 1,
                "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": ["Failed", "Arn"]}}},
            },
        },
        "Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["tests"]},
                "Targets": [{"Id": "f", "Arn": {"Fn::GetAtt": ["TesterFunction", "Arn"]}}],
            },
        },
        "Schedule": {
            "Type": "AWS::Scheduler::Schedule",
            "Properties": {
                "ScheduleExpression": "rate(365 days)",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {
                    "Arn": {"Fn::GetAtt": ["TesterFunction", "Arn"]},
                    "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                    "Input": '{"Records": [{"body": "by schedule", "messageId": "0"}]}',
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    folder = tmp_path_factory.mktemp("functions")
    with pytest.MonkeyPatch.context() as patch, local_aws() as aws:
        patch.setenv("OF_THIS_PROCESS", "1")
        s3, code = aws.client("s3"), io.BytesIO()
        with zipfile.ZipFile(code, "w") as bundle:
            bundle.writestr("code.py", CODE)
        s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket="code", Key="f.zip", Body=code.getvalue())
        stack = LocalStack(aws, folder, StackClient(aws, "test"), silent, retry_after_secs=0)
        try:
            stack.start()
            stack.deploy(TEMPLATE, {})
            yield stack
        finally:
            stack.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECS
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


def receive(stack: LocalStack, queue: str, count: int) -> list[Any]:
    """The JSON bodies of `count` messages, in the order of receiving."""
    sqs, url, found = stack.client("sqs"), stack.resources[queue], []
    deadline = time.monotonic() + DEADLINE_SECS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages came: {found}"
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found.append(json.loads(message["Body"]) if message["Body"][:1] in "[{" else message["Body"])
    return found


def messages_in(stack: LocalStack, queue: str) -> int:
    """Visible or not."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = stack.client("sqs").get_queue_attributes(QueueUrl=stack.resources[queue], AttributeNames=names)
    return sum(int(count) for count in found["Attributes"].values())


def test_a_function_sees_its_deployed_settings_and_nothing_of_this_process(running: LocalStack) -> None:
    found = running.invoke("TesterFunction", {"do": "environment"}).payload
    assert (found["GREETING"], found["AWS_ACCESS_KEY_ID"]) == ("hello", "tester")
    assert found["AWS_LAMBDA_FUNCTION_NAME"] == running.resources["TesterFunction"]
    assert "OF_THIS_PROCESS" not in found


def test_a_function_imports_only_from_lambdas_packages_and_its_bundle(running: LocalStack) -> None:
    there = {
        name: running.invoke("TesterFunction", {"do": "import", "name": name}).payload
        for name in ("boto3", "code", "json", "pydantic", "blizzard", "infra", "pytest")
    }
    assert [name for name, answer in there.items() if answer == "there"] == ["boto3", "code", "json"]


def test_a_function_gets_lambdas_context(running: LocalStack) -> None:
    name, memory, left_ms, arn, group = running.invoke("TesterFunction", {"do": "context"}).payload
    assert (name, memory, group) == (running.resources["TesterFunction"], "128", "/blizzard/test/tester")
    assert arn.endswith(f":function:{name}")
    assert 30_000 < left_ms <= 60_000


def test_an_api_invocation_returns_response_or_error_and_the_log(running: LocalStack) -> None:
    functions, name = running.client("lambda"), running.resources["TesterFunction"]
    answer = functions.invoke(FunctionName=name, Payload=json.dumps({"a": ["é", 1]}), LogType="Tail")
    assert json.loads(answer["Payload"].read()) == {"a": ["é", 1]}
    assert "FunctionError" not in answer
    answer = functions.invoke(FunctionName=name, Payload=json.dumps({"do": "raise"}))
    found = json.loads(answer["Payload"].read())
    assert (answer["FunctionError"], found["errorType"], found["errorMessage"]) == (
        "Unhandled",
        "LookupError",
        "nothing here",
    )


def test_a_function_is_killed_at_its_timeout_and_the_next_invocation_succeeds(running: LocalStack) -> None:
    outcome = running.invoke("HastyFunction", {"do": "wait", "secs": 60})
    assert outcome.error
    assert outcome.payload["errorMessage"].endswith("Task timed out after 5.00 seconds")
    assert not running.invoke("HastyFunction", {}).error


def test_an_exited_function_process_is_an_error(running: LocalStack) -> None:
    outcome = running.invoke("TesterFunction", {"do": "exit"})
    assert outcome.payload["errorType"] == "Runtime.ExitError"
    assert not running.invoke("TesterFunction", {}).error


def test_the_peak_memory_of_a_function_is_reported(running: LocalStack) -> None:
    assert running.invoke("TesterFunction", {"do": "memory", "mb": 90}).peak_mb > 90
    assert "Max Memory Used" in running.invoke("TesterFunction", {}).log


def test_reported_messages_are_retried_and_end_in_the_dead_letter_queue(running: LocalStack) -> None:
    for body in ("good", "bad"):
        running.client("sqs").send_message(QueueUrl=running.resources["Queue"], MessageBody=body)
    seen = [body for body, _ in receive(running, "Seen", 3)]
    assert sorted(seen) == ["bad", "bad", "good"]
    assert receive(running, "Dead", 1) == ["bad"]


def test_a_redrive_returns_messages_to_their_queue(running: LocalStack) -> None:
    sqs = running.client("sqs")
    sqs.send_message(QueueUrl=running.resources["Dead"], MessageBody="again")
    names = {"QueueUrl": running.resources["Dead"], "AttributeNames": ["QueueArn"]}
    arn = sqs.get_queue_attributes(**names)["Attributes"]["QueueArn"]
    sqs.start_message_move_task(SourceArn=arn)
    assert [body for body, _ in receive(running, "Seen", 1)] == ["again"]
    [task] = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)


def test_messages_of_a_group_keep_their_order(running: LocalStack) -> None:
    sqs, url = running.client("sqs"), running.resources["Ordered"]
    for number in range(8):
        for group in ("a", "b"):
            sqs.send_message(
                QueueUrl=url,
                MessageBody=f"{group}{number}",
                MessageGroupId=group,
                MessageDeduplicationId=uuid.uuid4().hex,
            )
    seen = [body for body, _ in receive(running, "Seen", 16)]
    for group in ("a", "b"):
        assert [body for body in seen if body[0] == group] == [f"{group}{number}" for number in range(8)]


def test_a_deduplication_id_is_accepted_once_in_five_minutes_even_after_deletion(running: LocalStack) -> None:
    sqs, name = running.client("sqs"), uuid.uuid4().hex
    message = {"MessageBody": "once", "MessageGroupId": name, "MessageDeduplicationId": name}
    sqs.send_message(QueueUrl=running.resources["Ordered"], **message)
    assert [body for body, _ in receive(running, "Seen", 1)] == ["once"]
    until(lambda: messages_in(running, "Ordered") == 0)
    sqs.send_message(QueueUrl=running.resources["Ordered"], **message)
    sqs.send_message(QueueUrl=running.resources["Ordered"], **message | {"MessageDeduplicationId": f"{name}-2"})
    assert [body for body, _ in receive(running, "Seen", 1)] == ["once"]
    assert "Messages" not in sqs.receive_message(QueueUrl=running.resources["Seen"], WaitTimeSeconds=1)


def test_an_event_reaches_the_function_of_its_rule(running: LocalStack) -> None:
    name = uuid.uuid4().hex
    running.client("events").put_events(
        Entries=[{"Source": "tests", "DetailType": "t", "Detail": json.dumps({"name": name})}]
    )
    until(lambda: name in running.logs("tester"))


def test_a_failed_async_invocation_is_retried_and_then_sent_to_its_destination(running: LocalStack) -> None:
    name, event = running.resources["TesterFunction"], {"do": "raise", "name": uuid.uuid4().hex}
    running.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event), InvocationType="Event")
    [failure] = receive(running, "Failed", 1)
    assert failure["requestPayload"] == event
    assert failure["requestContext"]["approximateInvokeCount"] == 2
    assert failure["responsePayload"]["errorType"] == "LookupError"
    until(lambda: running.logs("tester").count(f"got {json.dumps(event)}") >= 2)
    assert running.logs("tester").count(f"got {json.dumps(event)}") == 2


def test_a_schedule_invokes_its_function_with_its_input(running: LocalStack) -> None:
    running.fire("Schedule")
    assert [body for body, _ in receive(running, "Seen", 1)] == ["by schedule"]


def test_the_output_of_a_function_is_in_its_log_group_and_metrics(running: LocalStack) -> None:
    marker = uuid.uuid4().hex
    running.invoke("TesterFunction", {"marker": marker})
    logs, cloudwatch = running.client("logs"), running.client("cloudwatch")

    def messages() -> str:
        return json.dumps(logs.filter_log_events(logGroupName="/blizzard/test/tester")["events"])

    def metrics() -> set[str]:
        return {one["MetricName"] for one in cloudwatch.list_metrics(Namespace="Test")["Metrics"]}

    until(lambda: marker in messages())
    until(lambda: metrics() == {"Calls", "Lines"})


def test_requests_are_recorded_by_principal(running: LocalStack) -> None:
    running.client("sqs", "somebody").get_queue_attributes(QueueUrl=running.resources["Dead"])
    found = [request for request in running.requests() if request["principal"] == "somebody"]
    assert [(one["service"], one["target"], one["resource_fields"]) for one in found] == [
        ("sqs", "AmazonSQS.GetQueueAttributes", {"QueueUrl": running.resources["Dead"]})
    ]
    until(lambda: "tester" in {request["principal"] for request in running.requests()})


def test_after_an_update_the_next_invocation_sees_the_new_settings(running: LocalStack) -> None:
    try:
        running.deploy(parameters={"Greeting": "good evening"})
        found = running.invoke("TesterFunction", {"do": "environment"}).payload
        assert found["GREETING"] == "good evening"
    finally:
        running.deploy(parameters={"Greeting": "hello"})


def test_a_closed_stack_leaves_no_process(tmp_path: Path) -> None:
    with local_aws() as aws:
        s3, code = aws.client("s3"), io.BytesIO()
        with zipfile.ZipFile(code, "w") as bundle:
            bundle.writestr("code.py", "import os\ndef handler(event, context): return os.getpid()\n")
        s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket="code", Key="f.zip", Body=code.getvalue())
        stack = LocalStack(aws, tmp_path, StackClient(aws, "test"), silent)
        stack.start()
        stack.deploy(TEMPLATE, {})
        pid = stack.invoke("TesterFunction", {}).payload
        os.kill(pid, 0)
        stack.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
