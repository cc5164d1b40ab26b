"""`blizzard doctor --stack` on the shipped template: a healthy stack, and faults that somebody plants in it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import boto3  # type: ignore[import-untyped]
import pytest

from blizzard.doctor.check import Verdict
from infra.local.processes.server_calls import LocalCalls
from infra.local.processes.server_process import ACCOUNT_ID, LocalAws
from tests.contract import doctor_faults as faults
from tests.contract.doctor_stack import KEYS, DoctorStack
from tests.contract.every_resource_type import Deployment
from tests.unit.doctor_world import assert_says_what_to_do, wrong
from tests.unit.test_probe_verdict import GOOD


@pytest.fixture(scope="module")
def environment(aws: LocalAws) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment().items():
            patch.setenv(name, value)
        yield patch


@pytest.fixture(scope="module")
def healthy(aws: LocalAws, environment: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> DoctorStack:
    """Each test leaves it as it was."""
    deployed = DoctorStack(aws, tmp_path_factory.mktemp("doctor")).deploy()
    deployed.probed()
    return deployed


def test_a_healthy_stack_has_no_problem_and_no_warning(healthy: DoctorStack) -> None:
    results = healthy.examine()
    assert wrong(results) == []
    skipped = {each.id for each in results if each.id.startswith("aws.") and each.verdict is Verdict.SKIPPED}
    assert skipped == {"aws.last-run", "aws.catalog"}


FAULTS: Mapping[str, tuple[faults.Plant, str, Verdict, str]] = {
    "notifications were removed": (
        faults.removed_notifications,
        "aws.notifications",
        Verdict.PROBLEM,
        "no such notification, so nothing announces objects below raw/date=all/",
    ),
    "a narrower prefix": (
        faults.narrower_notification,
        "aws.notifications",
        Verdict.PROBLEM,
        "with prefix 'raw/date=all/2026/'",
    ),
    "no multipart uploads": (faults.no_multipart_uploads, "aws.notifications", Verdict.PROBLEM, "s3:ObjectCreated:Put"),
    "another queue policy": (faults.changed_policy, "aws.queue-policy", Verdict.PROBLEM, "does not let s3.amazonaws"),
    "few receives": (faults.few_receives, "aws.redrive", Verdict.PROBLEM, "after 1 receives"),
    "a dead event": (faults.dead_event, "aws.events-dead-letters", Verdict.WARNING, "about 1 messages"),
    "a dead wake-up": (faults.dead_wake_up, "aws.wake-dead-letters", Verdict.WARNING, "about 1 messages"),
    "a failed invocation": (faults.failed_invocation, "aws.failed-invocations", Verdict.WARNING, "about 1 messages"),
    "a disabled mapping": (faults.disabled_mapping, "aws.event-sources", Verdict.PROBLEM, "is Disabled"),
    "a function without concurrency": (faults.no_concurrency, "aws.functions", Verdict.PROBLEM, "concurrency of 0"),
    "a disabled schedule": (faults.disabled_schedule, "aws.schedules", Verdict.PROBLEM, "is DISABLED"),
    "a disabled rule": (faults.disabled_rule, "aws.job-state-rule", Verdict.WARNING, "is DISABLED"),
    "a weaker role": (faults.weaker_role, "aws.job-role", Verdict.PROBLEM, "lacks s3:PutObject on arn:aws:s3:::"),
    "an older application": (faults.older_application, "aws.application", Verdict.PROBLEM, "emr-7.5.0"),
    "another log store": (faults.other_log_store, "aws.log-store", Verdict.PROBLEM, "S3SingleDriverLogStore"),
    "the log store's jar is gone": (faults.lost_jar, "aws.log-store", Verdict.PROBLEM, "logstore-0.jar"),
    "another configuration": (faults.other_configuration, "aws.configuration", Verdict.PROBLEM, "config-0.json"),
    "no record of the release": (faults.lost_release, "aws.release", Verdict.WARNING, "has these parameters"),
    "a function of another release": (faults.other_code, "aws.release", Verdict.PROBLEM, "other code than the job's"),
    "a job of another release": (faults.other_archive, "aws.release", Verdict.PROBLEM, "job-1.tar.gz, expected"),
    "an alarm without actions": (faults.silent_alarm, "aws.alarms", Verdict.PROBLEM, "the actions of"),
    "nobody has subscribed": (faults.unheard_topic, "aws.alarm-topic", Verdict.WARNING, "nobody has subscribed"),
    "an alarm is on": (faults.ringing_alarm, "aws.alarm-states", Verdict.PROBLEM, "is on"),
    "no policy of the lake": (faults.no_lake_policy, "aws.lake-policy", Verdict.WARNING, "overwrite segments"),
    "no lifecycle rule": (faults.no_lifecycle, "aws.lake-lifecycle", Verdict.WARNING, "incomplete uploads"),
    "two writers won": (
        faults.probe_of(written={**GOOD["written"], "winners_of_race": 3}),
        "aws.probe",
        Verdict.PROBLEM,
        "3 of several writers were told that they created one object",
    ),
    "a numbered object was overwritten": (
        faults.probe_of(written={**GOOD["written"], "numbers_fenced": False}),
        "aws.probe",
        Verdict.PROBLEM,
        "a PUT without a condition overwrote a numbered object",
    ),
    "another Python": (
        faults.probe_of(driver={**GOOD["driver"], "python": "3.9.1"}),
        "aws.probe",
        Verdict.PROBLEM,
        "Python 3.9.1",
    ),
    "the line of the probe in two events": (
        faults.probe_of(in_two=True, written={**GOOD["written"], "second_put_refused": False}),
        "aws.probe",
        Verdict.PROBLEM,
        "a PUT with If-None-Match overwrote an object",
    ),
    "the probe lacked a right": (faults.denied_right, "aws.probe", Verdict.PROBLEM, "s3:PutObject on s3://"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_under_its_id_alone(healthy: DoctorStack, name: str) -> None:
    plant, check_id, verdict, said = FAULTS[name]
    with contextmanager(plant)(healthy):
        results = healthy.examine_stack()
    assert [each[0] for each in wrong(results)] == [check_id], wrong(results)
    (found,) = (each.finding for each in results if each.id == check_id)
    assert (found.verdict, said in found.found) == (verdict, True), found
    assert_says_what_to_do(found)


def test_a_source_outside_of_the_stacks_buckets_is_found(healthy: DoctorStack) -> None:
    """The job's role has no right there, no event comes from there, and the published file names another place."""
    with contextmanager(faults.moved_source)(healthy):
        found = dict(wrong(healthy.examine_stack()))
    assert "events:landing is in s3://" in found.pop("aws.buckets")
    assert {*found} == {"aws.configuration", "aws.job-role", "aws.notifications"}


CLUSTER = "arn:aws:kafka:us-east-1:123456789012:cluster/events/1234abcd-12ab-34cd-56ef-1234567890ab-1"
TOPICS = CLUSTER.replace(":cluster/", ":topic/")
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:AmazonMSK_events-AbCdEf"
NETWORK = {"SubnetIds": "subnet-0123456789abcdef0", "SecurityGroupIds": "sg-0123456789abcdef0"}


@pytest.mark.parametrize(
    ("security", "settings", "lacks"),
    [
        ({"mechanism": "AWS_MSK_IAM"}, {"KafkaClusterArn": CLUSTER, **NETWORK}, None),
        (
            {"mechanism": "AWS_MSK_IAM"},
            {},
            "kafka-cluster:Connect on the brokers' cluster, since KafkaClusterArn is empty",
        ),
        ({"mechanism": "PLAIN", "secret": SECRET}, {"KafkaSecretArns": f"{SECRET}2,{SECRET}"}, None),
        (
            {"mechanism": "PLAIN", "secret": SECRET},
            {"KafkaSecretArns": f"{SECRET}2"},
            "GetSecretValue on arn:aws:secrets",
        ),
        ({"mechanism": "PLAIN", "secret": "by-name"}, {}, None),
    ],
)
def test_rights_for_brokers_and_their_secret_are_looked_at(
    aws: LocalAws,
    environment: pytest.MonkeyPatch,
    tmp_path: Path,
    security: dict[str, str],
    settings: dict[str, str],
    lacks: str | None,
) -> None:
    found = problems_of_topics(aws, tmp_path, settings, topics=["a"], security=security)
    assert (None if lacks is None else lacks in found.pop("aws.job-role")) == (None if lacks is None else True)
    assert found == {}


def problems_of_topics(aws: LocalAws, folder: Path, settings: dict[str, str], **kafka: object) -> dict[str, str]:
    """Of a stack with these parameters and a source of topics."""
    brokers = {"bootstrap_servers": "b-1.events.kafka.us-east-1.amazonaws.com:9098", **kafka}
    world = DoctorStack(aws, folder, settings, {"clicks": {"kafka": brokers, "format": "envelope"}}).deploy()
    world.probed()
    return dict(wrong(world.examine_stack()))


@pytest.mark.parametrize(
    ("topics", "named", "lacks"),
    [
        ({"topics": ["clicks"]}, f"{TOPICS}/orders,{TOPICS}/clicks", None),
        ({"topics": ["clicks"]}, f"{TOPICS}/cl*", None),
        ({"topic_pattern": "cl.*"}, f"{TOPICS}/cl*", None),
        ({"topics": ["clicks"]}, f"{TOPICS}/orders", f"kafka-cluster:ReadData on {TOPICS}/clicks"),
    ],
)
def test_topics_that_the_stack_may_read_are_looked_at(
    aws: LocalAws,
    environment: pytest.MonkeyPatch,
    tmp_path: Path,
    topics: dict[str, object],
    named: str,
    lacks: str | None,
) -> None:
    settings = {"KafkaClusterArn": CLUSTER, "KafkaTopicArns": named, **NETWORK}
    found = problems_of_topics(aws, tmp_path, settings, security={"mechanism": "AWS_MSK_IAM"}, **topics)
    said = found.pop("aws.job-role", None)
    assert said is None if lacks is None else lacks in str(said)
    assert found == {}


def test_an_unknown_stack_is_one_problem(healthy: DoctorStack) -> None:
    results = healthy.examine(stack="nowhere")
    ((check_id, text),) = wrong(results)
    assert check_id == "aws.stack"
    assert "nowhere" in text
    assert all(each.verdict is Verdict.SKIPPED for each in results if each.area == "aws" and each.id != "aws.stack")


def test_a_paused_stack_that_gets_its_events_by_eventbridge(
    aws: LocalAws, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paused = DoctorStack(aws, tmp_path, {"LandingBucketMode": "eventbridge", "Dispatching": "off"}).deploy()
    paused.probed()
    found = dict(wrong(paused.examine_stack()))
    assert found == {
        "aws.dispatching": "the stack is paused: no run is started",
        "aws.notifications": "the bucket does not send to EventBridge",
    }
    aws.client("s3").put_bucket_notification_configuration(
        Bucket=paused.landing, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    assert [*dict(wrong(paused.examine_stack()))] == ["aws.dispatching"]
    aws.client("events").disable_rule(Name=paused.resource("LandingRule"))
    assert "is DISABLED" in dict(wrong(paused.examine_stack()))["aws.notifications"]
    aws.client("events").enable_rule(Name=paused.resource("LandingRule"))
    for state, expected in (("FAILED", ["aws.dispatching", "aws.last-run"]), ("SUCCESS", ["aws.dispatching"])):
        end_a_run(paused, state)
        assert [*dict(wrong(paused.examine_stack()))] == expected


def end_a_run(stack: DoctorStack, state: str) -> None:
    application = stack.stack.outputs["ApplicationId"]
    started = stack.aws.client("emr-serverless").start_job_run(
        applicationId=application,
        clientToken=state,
        executionRoleArn=f"arn:aws:iam::{ACCOUNT_ID}:role/job",
        jobDriver={"sparkSubmit": {"entryPoint": "s3://artifacts/entry.py"}},
    )
    for each in ("RUNNING", state):
        LocalCalls(stack.aws.endpoint).report_run(application, started["jobRunId"], each, "no memory")


def test_a_stack_that_gets_its_events_by_a_topic_and_from_another_region(
    aws: LocalAws, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    topic = aws.client("sns").create_topic(Name=f"landing-{tmp_path.name}")["TopicArn"]
    stack = DoctorStack(aws, tmp_path, {"LandingBucketMode": "sns", "LandingTopicArn": topic})
    far = {"LandingBucketName2": f"{stack.name}-far", "MoreLandingBucketsMode": "eventbridge"}
    stack.bucket(far["LandingBucketName2"], "us-west-2")
    stack.settings.update(far)
    stack.deploy()
    stack.probed()
    results = stack.examine_stack()
    assert {each.subject for each in results if each.id == "aws.notifications"} == {
        f"s3://{stack.landing}",
        f"s3://{stack.name}-far",
    }
    assert f"{stack.name}-far is in us-west-2" in dict(wrong(results))["aws.regions"]
    assert [each[0] for each in wrong(results)] == ["aws.regions", "aws.notifications", "aws.notifications"]
    boto3.client(
        "s3", region_name="us-west-2", endpoint_url=aws.endpoint, **KEYS
    ).put_bucket_notification_configuration(
        Bucket=f"{stack.name}-far", NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    entry = {"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}
    aws.client("s3").put_bucket_notification_configuration(
        Bucket=stack.landing, NotificationConfiguration={"TopicConfigurations": [entry]}
    )
    assert [*dict(wrong(stack.examine_stack()))] == ["aws.regions"]
    (subscribed,) = aws.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    aws.client("sns").unsubscribe(SubscriptionArn=subscribed["SubscriptionArn"])
    assert "does not subscribe" in dict(wrong(stack.examine_stack()))["aws.notifications"]


def test_a_stack_of_something_else_is_no_stack_of_blizzards(healthy: DoctorStack) -> None:
    other = Deployment(healthy.aws).create()
    results = healthy.examine(stack=other.name)
    ((check_id, text),) = wrong(results)
    assert (check_id, "without the output DispatcherFunctionName" in text) == ("aws.stack", True)
