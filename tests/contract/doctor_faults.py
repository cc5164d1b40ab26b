"""What somebody may do by hand to a deployed stack. Each is undone at the end of its block."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from blizzard.config.load import parse_config
from tests.contract.doctor_stack import DoctorStack

Plant = Callable[[DoctorStack], Iterator[None]]


def _notifications(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Plant:
    """`change`: from the bucket's configuration to another."""

    def plant(world: DoctorStack) -> Iterator[None]:
        s3 = world.aws.client("s3")
        before = s3.get_bucket_notification_configuration(Bucket=world.landing)
        before.pop("ResponseMetadata")
        changed = change(json.loads(json.dumps(before)))
        s3.put_bucket_notification_configuration(Bucket=world.landing, NotificationConfiguration=changed)
        yield
        s3.put_bucket_notification_configuration(Bucket=world.landing, NotificationConfiguration=before)

    return plant


def _narrower(configuration: dict[str, Any]) -> dict[str, Any]:
    (entry,) = configuration["QueueConfigurations"]
    entry["Filter"] = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "raw/date%3Dall/2026/"}]}}
    return configuration


def _only_put(configuration: dict[str, Any]) -> dict[str, Any]:
    (entry,) = configuration["QueueConfigurations"]
    entry["Events"] = ["s3:ObjectCreated:Put"]
    return configuration


removed_notifications = _notifications(lambda configuration: {})
narrower_notification = _notifications(_narrower)
no_multipart_uploads = _notifications(_only_put)


def _queue(name: str, value: Callable[[str], str]) -> Plant:
    """Another value of an attribute of the events' queue."""

    def plant(world: DoctorStack) -> Iterator[None]:
        sqs, url = world.aws.client("sqs"), world.stack.outputs["EventsQueueUrl"]
        before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={name: value(before)})
        yield
        sqs.set_queue_attributes(QueueUrl=url, Attributes={name: before})

    return plant


def _for_another_bucket(policy: str) -> str:
    return policy.replace("-landing", "-other")


changed_policy = _queue("Policy", _for_another_bucket)
few_receives = _queue("RedrivePolicy", lambda redrive: json.dumps({**json.loads(redrive), "maxReceiveCount": 1}))


def _message_in(output: str, **more: str) -> Plant:
    def plant(world: DoctorStack) -> Iterator[None]:
        sqs, url = world.aws.client("sqs"), world.stack.outputs[output]
        sqs.send_message(QueueUrl=url, MessageBody="?", **more)
        yield
        sqs.purge_queue(QueueUrl=url)

    return plant


dead_event = _message_in("EventsDeadLetterQueueUrl")
dead_wake_up = _message_in("WakeDeadLetterQueueUrl", MessageGroupId="g", MessageDeduplicationId="d")
failed_invocation = _message_in("FailedInvocationsQueueUrl")


def disabled_mapping(world: DoctorStack) -> Iterator[None]:
    functions, name = world.aws.client("lambda"), world.stack.outputs["CollectorFunctionName"]
    (mapping,) = functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    yield
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


def no_concurrency(world: DoctorStack) -> Iterator[None]:
    functions, name = world.aws.client("lambda"), world.stack.outputs["SweeperFunctionName"]
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    yield
    functions.delete_function_concurrency(FunctionName=name)


def _disabled(schedule: str) -> Plant:
    def plant(world: DoctorStack) -> Iterator[None]:
        scheduler, name = world.aws.client("scheduler"), world.resource(schedule)
        fields = ("ScheduleExpression", "FlexibleTimeWindow", "Target")
        found = scheduler.get_schedule(Name=name)
        kept = {"Name": name, **{each: found[each] for each in fields}}
        scheduler.update_schedule(**kept, State="DISABLED")
        yield
        scheduler.update_schedule(**kept, State="ENABLED")

    return plant


disabled_schedule = _disabled("SweepScheduled")
disabled_dispatch = _disabled("DispatchScheduled")


def disabled_rule(world: DoctorStack) -> Iterator[None]:
    events, name = world.aws.client("events"), world.resource("JobStateRule")
    events.disable_rule(Name=name)
    yield
    events.enable_rule(Name=name)


def weaker_role(world: DoctorStack) -> Iterator[None]:
    iam, role = world.aws.client("iam"), world.resource("JobRole")
    found = iam.get_role_policy(RoleName=role, PolicyName="ingest")["PolicyDocument"]
    kept = [each for each in found["Statement"] if each["Sid"] != "WriteLake"]
    _put_policy(iam, role, {**found, "Statement": kept})
    yield
    _put_policy(iam, role, found)


def _put_policy(iam: Any, role: str, document: Mapping[str, Any]) -> None:
    iam.put_role_policy(RoleName=role, PolicyName="ingest", PolicyDocument=json.dumps(document))


def older_application(world: DoctorStack) -> Iterator[None]:
    yield from _application(world, {"releaseLabel": "emr-7.5.0"}, {"releaseLabel": "emr-spark-8.1.0"})


def other_log_store(world: DoctorStack) -> Iterator[None]:
    """One of the application's own settings."""
    properties = {"spark.delta.logStore.s3.impl": "io.delta.storage.S3SingleDriverLogStore"}
    settings = [{"classification": "spark-defaults", "properties": properties}]
    yield from _application(world, {"runtimeConfiguration": settings}, {"runtimeConfiguration": []})


def _application(world: DoctorStack, wrong: dict[str, Any], right: dict[str, Any]) -> Iterator[None]:
    emr, application = world.aws.client("emr-serverless"), world.stack.outputs["ApplicationId"]
    emr.update_application(applicationId=application, clientToken="wrong", **wrong)
    yield
    emr.update_application(applicationId=application, clientToken="right", **right)


def _object(key: str, body: Callable[[DoctorStack], bytes] | None) -> Plant:
    """Another content of an artifact; None: it is deleted."""

    def plant(world: DoctorStack) -> Iterator[None]:
        s3 = world.aws.client("s3")
        before = s3.get_object(Bucket=world.artifacts, Key=key)["Body"].read()
        if body is None:
            s3.delete_object(Bucket=world.artifacts, Key=key)
        else:
            world.put(key, body(world))
        yield
        world.put(key, before)

    return plant


def _other_configuration(world: DoctorStack) -> bytes:
    config = json.loads(world.file.read_text())
    config["pipelines"]["events"]["linger_secs"] = 7
    parse_config(json.dumps(config), {})
    return json.dumps(config).encode()


lost_jar = _object("logstore-0.jar", None)
other_configuration = _object("config-0.json", _other_configuration)


def lost_release(world: DoctorStack) -> Iterator[None]:
    yield from _object(world.release.key, None)(world)


def other_code(world: DoctorStack) -> Iterator[None]:
    """A function that was deployed by hand."""
    functions, name = world.aws.client("lambda"), world.stack.outputs["SweeperFunctionName"]
    functions.update_function_code(FunctionName=name, S3Bucket=world.artifacts, S3Key="functions/Collector.zip")
    yield
    functions.update_function_code(FunctionName=name, S3Bucket=world.artifacts, S3Key="functions/Sweeper.zip")


def other_archive(world: DoctorStack) -> Iterator[None]:
    functions, name = world.aws.client("lambda"), world.stack.outputs["DispatcherFunctionName"]
    found = functions.get_function_configuration(FunctionName=name)["Environment"]
    changed = {**found["Variables"], "BLIZZARD_JOB_ARCHIVE": f"s3://{world.artifacts}/job-1.tar.gz"}
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": changed})
    yield
    functions.update_function_configuration(FunctionName=name, Environment=found)


def moved_source(world: DoctorStack) -> Iterator[None]:
    before = world.file.read_text()
    world.file.write_text(before.replace("raw/date=all/", "elsewhere/"))
    yield
    world.file.write_text(before)


def silent_alarm(world: DoctorStack) -> Iterator[None]:
    cloudwatch, name = world.aws.client("cloudwatch"), world.resource("CircuitOpenAlarm")
    cloudwatch.disable_alarm_actions(AlarmNames=[name])
    yield
    cloudwatch.enable_alarm_actions(AlarmNames=[name])


def unheard_topic(world: DoctorStack) -> Iterator[None]:
    sns = world.aws.client("sns")
    (found,) = sns.list_subscriptions_by_topic(TopicArn=world.topic)["Subscriptions"]
    sns.unsubscribe(SubscriptionArn=found["SubscriptionArn"])
    yield
    sns.subscribe(TopicArn=world.topic, Protocol=found["Protocol"], Endpoint=found["Endpoint"])


def ringing_alarm(world: DoctorStack) -> Iterator[None]:
    cloudwatch, name = world.aws.client("cloudwatch"), world.resource("FreshnessAlarm")
    before = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["StateValue"]
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a test")
    yield
    cloudwatch.set_alarm_state(AlarmName=name, StateValue=before, StateReason="a test")


def no_lake_policy(world: DoctorStack) -> Iterator[None]:
    s3 = world.aws.client("s3")
    before = s3.get_bucket_policy(Bucket=world.lake)["Policy"]
    s3.delete_bucket_policy(Bucket=world.lake)
    yield
    s3.put_bucket_policy(Bucket=world.lake, Policy=before)


def no_lifecycle(world: DoctorStack) -> Iterator[None]:
    s3 = world.aws.client("s3")
    rules = s3.get_bucket_lifecycle_configuration(Bucket=world.lake)["Rules"]
    s3.delete_bucket_lifecycle(Bucket=world.lake)
    yield
    s3.put_bucket_lifecycle_configuration(Bucket=world.lake, LifecycleConfiguration={"Rules": rules})


def probe_of(**found: Any) -> Plant:
    def plant(world: DoctorStack) -> Iterator[None]:
        world.probed(**found)
        yield
        time.sleep(0.002)  # the next line is newer
        world.probed()

    return plant


def denied_right(world: DoctorStack) -> Iterator[None]:
    denied = {"action": "s3:PutObject", "resource": f"s3://{world.lake}/*", "error": "AccessDenied"}
    world.probed(rights={"tried": 9, "denied": [denied]})
    yield
    time.sleep(0.002)  # the next line is newer
    world.probed()
