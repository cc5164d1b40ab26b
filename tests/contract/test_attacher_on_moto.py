"""The attacher's requests against the notification API of the local S3, and how that API answers."""

import time
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from blizzard.errors import BucketMissing
from functions.attacher.bucket import BucketNotifications, Patience
from functions.attacher.notification import Attachment
from functions.attacher.refusals import NotAttached
from infra.local.processes.server_process import ACCOUNT_ID, REGION, LocalAws

FAMILY = "blizzard-prod-"
CREATED = ["s3:ObjectCreated:*"]


def queue(aws: LocalAws) -> str:
    """The ARN of a new queue."""
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName=f"q-{uuid.uuid4().hex}")["QueueUrl"]
    return str(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"])


def everything(aws: LocalAws) -> dict[str, Any]:
    """Each kind of notification, some with ids and filters, none for what begins with `raw/`."""
    topic = aws.client("sns").create_topic(Name=f"t-{uuid.uuid4().hex}")["TopicArn"]
    function = f"arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:theirs"
    images = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "a%3Db/"}, {"Name": "suffix", "Value": ".png"}]}}
    return {
        "TopicConfigurations": [{"TopicArn": topic, "Events": ["s3:ObjectRemoved:*", "s3:ObjectRestore:Post"]}],
        "QueueConfigurations": [{"Id": "theirs", "QueueArn": queue(aws), "Events": CREATED, "Filter": images}],
        "LambdaFunctionConfigurations": [
            {
                "Id": "resize é",
                "LambdaFunctionArn": function,
                "Events": ["s3:ObjectCreated:Put"],
                "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "more/"}]}},
            }
        ],
        "EventBridgeConfiguration": {},
    }


def current(aws: LocalAws, bucket: str) -> dict[str, Any]:
    found = aws.client("s3").get_bucket_notification_configuration(Bucket=bucket)
    return {name: value for name, value in found.items() if name != "ResponseMetadata"}


def notifications(aws: LocalAws, bucket: str) -> BucketNotifications:
    patience = Patience(lambda _: None, lambda: 180.0, 70.0)
    return BucketNotifications(aws.client("s3"), bucket, ACCOUNT_ID, patience, lambda *_, **__: None)


def attachment(aws: LocalAws, prefix: str = "raw/") -> Attachment:
    return Attachment(f"{FAMILY}AttachedLanding", FAMILY, queue(aws), prefix)


def test_every_kind_of_notification_is_the_same_before_and_after(aws: LocalAws, bucket: str) -> None:
    aws.client("s3").put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=everything(aws))
    before, own = current(aws, bucket), attachment(aws, "raw/day=1/")
    assert [len(before.get(kind, ())) for kind in everything(aws)] == [1, 1, 1, 0]
    notifications(aws, bucket).attach(own)
    during = current(aws, bucket)
    assert during["QueueConfigurations"] == [*before["QueueConfigurations"], own.entry()]
    assert {**during, "QueueConfigurations": before["QueueConfigurations"]} == before
    notifications(aws, bucket).detach(own.entry_id)
    assert current(aws, bucket) == before


def test_a_bucket_without_notifications_has_none_afterwards(aws: LocalAws, bucket: str) -> None:
    own = attachment(aws)
    notifications(aws, bucket).attach(own)
    assert current(aws, bucket) == {"QueueConfigurations": [own.entry()]}
    notifications(aws, bucket).detach(own.entry_id)
    assert current(aws, bucket) == {}


def test_an_attached_bucket_sends_events_below_the_prefix(aws: LocalAws, bucket: str) -> None:
    own = attachment(aws, "raw/day=1/")
    notifications(aws, bucket).attach(own)
    sqs, s3 = aws.client("sqs"), aws.client("s3")
    url = sqs.get_queue_url(QueueName=own.queue_arn.rpartition(":")[2])["QueueUrl"]
    for key in ("raw/day=1/x", "raw/day=2/x"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    bodies = [message["Body"] for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]]
    assert ['"s3:TestEvent"' in body for body in bodies] == [True, False]
    assert "raw/day%3D1/x" in bodies[1]


@pytest.mark.parametrize(
    ("events", "rules", "refused"),
    [
        (CREATED, {}, True),
        (["s3:ObjectCreated:Put"], {"prefix": "raw/a/"}, True),
        (CREATED, {"suffix": ".gz"}, True),
        (CREATED, {"prefix": "other/"}, False),
        (["s3:ObjectRemoved:*"], {}, False),
    ],
)
def test_s3_refuses_overlaps_and_the_error_names_the_other_notification(
    aws: LocalAws, bucket: str, events: list[str], rules: dict[str, str], refused: bool
) -> None:
    other: dict[str, Any] = {"Id": "theirs", "QueueArn": queue(aws), "Events": events}
    if rules:
        other["Filter"] = {"Key": {"FilterRules": [{"Name": name, "Value": value} for name, value in rules.items()]}}
    configuration = {"QueueConfigurations": [other]}
    aws.client("s3").put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration)
    if not refused:
        notifications(aws, bucket).attach(attachment(aws))
        return
    with pytest.raises(NotAttached, match=r"the notification theirs announces some of the same objects"):
        notifications(aws, bucket).attach(attachment(aws))
    assert current(aws, bucket) == configuration


def test_suffixes_that_differ_do_not_overlap(aws: LocalAws, bucket: str) -> None:
    """As in the examples of S3's documentation: overlapping prefixes are allowed then."""

    def entry(name: str, suffix: str) -> dict[str, Any]:
        rules = [{"Name": "prefix", "Value": "raw/"}, {"Name": "suffix", "Value": suffix}]
        return {"Id": name, "QueueArn": queue(aws), "Events": CREATED, "Filter": {"Key": {"FilterRules": rules}}}

    def configure(*suffixes: str) -> None:
        configuration = {"QueueConfigurations": [entry(suffix, suffix) for suffix in suffixes]}
        aws.client("s3").put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration)

    configure("jpg", "png")
    with pytest.raises(ClientError, match=r"\(InvalidArgument\).*overlapping suffixes"):
        configure("jpg", "pg")


def test_a_queue_of_another_region_is_refused(aws: LocalAws, bucket: str) -> None:
    own = Attachment("x", "x", f"arn:aws:sqs:eu-north-1:{ACCOUNT_ID}:q", "")
    with pytest.raises(NotAttached, match="another region than the stack"):
        notifications(aws, bucket).attach(own)


def test_a_bucket_that_is_gone_is_missing_for_the_one_and_enough_for_the_other(aws: LocalAws) -> None:
    gone = notifications(aws, f"gone-{time.time_ns()}")
    with pytest.raises(BucketMissing):
        gone.attach(attachment(aws))
    gone.detach("x")
