"""The patches of moto, and the queues of the local AWS.

Each check runs twice: the local AWS passes it, and unpatched moto fails it. When a new version of moto passes a check
without patches, the second test fails, and the patch can be removed.
"""

import base64
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from infra.local.processes.server_process import LocalAws, local_aws
from infra.local.stack.minimal_stack import MinimalStack, Queue, create_stack
from tests.fixtures_aws import drain, new_stack, send

MIB = 1024 * 1024
EMPTY_ZIP = b"UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="

# moto checks for a key, computes a checksum, then writes; it finds a message, marks it as received, then returns it. A
# sleep between these steps makes the races frequent.
SERVER = """
import time
from moto.s3.responses import S3Response
from moto.sqs.models import Message
from infra.local.moto import server as moto_server
from infra.local.moto import patches
if {patched}:
    patches.install()
for owner, name, secs in ((S3Response, "_get_checksum", 0.5), (Message, "mark_received", 0.05)) if {gaps} else ():
    def slow(*args, original=getattr(owner, name), secs=secs, **kwargs):
        time.sleep(secs)
        return original(*args, **kwargs)
    setattr(owner, name, slow)
moto_server.serve(0, {parent_pid})
"""
# Processor time is counted in ticks of 10 ms.
CLOCK_TICKS_SECS = 0.05

Check = Callable[[LocalAws], None]


def server(*, patched: bool, gaps: bool = False) -> list[str]:
    return [sys.executable, "-c", SERVER.format(patched=patched, gaps=gaps, parent_pid=os.getpid())]


@pytest.fixture(scope="module")
def unpatched() -> Iterator[LocalAws]:
    with local_aws(server(patched=False)) as moto:
        yield moto


@pytest.fixture(scope="module")
def with_gaps() -> Iterator[LocalAws]:
    with local_aws(server(patched=True, gaps=True)) as moto:
        yield moto


@pytest.fixture(scope="module")
def unpatched_with_gaps() -> Iterator[LocalAws]:
    with local_aws(server(patched=False, gaps=True)) as moto:
        yield moto


def records(aws: LocalAws, stack: MinimalStack) -> list[dict[str, Any]]:
    return [record for body in drain(aws, stack.queue) for record in json.loads(body)["Records"]]


def upload_in_parts(aws: LocalAws, bucket: str, key: str) -> None:
    s3 = aws.client("s3")
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    parts = [
        {"PartNumber": number, "ETag": s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, **part)["ETag"]}
        for number, part in enumerate([{"PartNumber": 1, "Body": b"x" * 5 * MIB}, {"PartNumber": 2, "Body": b"y"}], 1)
    ]
    s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})


# Differences between unpatched moto and AWS


def an_upload_in_parts_sends_one_event(aws: LocalAws) -> None:
    stack = new_stack(aws)
    upload_in_parts(aws, stack.landing, "big")
    assert [record["eventName"] for record in records(aws, stack)] == ["ObjectCreated:CompleteMultipartUpload"]


def a_key_in_an_event_is_form_encoded_but_for_its_slashes(aws: LocalAws) -> None:
    stack = new_stack(aws)
    aws.client("s3").put_object(Bucket=stack.landing, Key="date=1//a b+c%é", Body=b"")
    assert records(aws, stack)[0]["s3"]["object"]["key"] == "date%3D1//a+b%2Bc%25%C3%A9"


def a_key_may_have_a_line_feed(aws: LocalAws) -> None:
    bucket, s3 = new_stack(aws).landing, aws.client("s3")
    assert status_of(lambda: s3.put_object(Bucket=bucket, Key="a\nb/c", Body=b"x")) == 200
    assert s3.get_object(Bucket=bucket, Key="a\nb/c")["Body"].read() == b"x"
    assert [listed["Key"] for listed in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["a\nb/c"]


def sequencers_rise(aws: LocalAws) -> None:
    stack = new_stack(aws)
    for _ in range(3):
        aws.client("s3").put_object(Bucket=stack.landing, Key="again", Body=b"")
    sequencers = [record["s3"]["object"].get("sequencer") for record in records(aws, stack)]
    assert None not in sequencers
    assert sequencers == sorted(set(sequencers))


def an_event_of_a_versioned_bucket_names_the_version(aws: LocalAws) -> None:
    stack = new_stack(aws)
    s3 = aws.client("s3")
    s3.put_bucket_versioning(Bucket=stack.landing, VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(Bucket=stack.landing, Key="k", Body=b"")["VersionId"]
    assert records(aws, stack)[0]["s3"]["object"].get("versionId") == version


def a_rule_with_only_a_schedule_gets_no_events(aws: LocalAws) -> None:
    stack = new_stack(aws)
    events = aws.client("events")
    events.put_rule(Name=stack.queue.name, ScheduleExpression="rate(1 minute)")
    events.put_targets(Rule=stack.queue.name, Targets=[{"Id": "queue", "Arn": stack.queue.arn}])
    events.put_events(Entries=[{"Source": "test", "DetailType": "none", "Detail": "{}"}])
    events.remove_targets(Rule=stack.queue.name, Ids=["queue"])
    assert drain(aws, stack.queue) == []


def a_target_that_cannot_be_served_does_not_stop_the_next(aws: LocalAws) -> None:
    stack = new_stack(aws)
    events, function = aws.client("events"), "arn:aws:lambda:eu-west-1:123456789012:function:f"
    events.put_rule(Name=stack.queue.name, EventPattern=json.dumps({"source": [stack.queue.name]}))
    targets = [{"Id": "function", "Arn": function}, {"Id": "queue", "Arn": stack.queue.arn}]
    events.put_targets(Rule=stack.queue.name, Targets=targets)
    try:
        events.put_events(Entries=[{"Source": stack.queue.name, "DetailType": "none", "Detail": "{}"}])
    except ClientError as error:
        raise AssertionError("one target's trouble became the sender's") from error
    assert len(drain(aws, stack.queue)) == 1


def a_mapped_queue_keeps_its_messages_for_the_poller(aws: LocalAws) -> None:
    stack = new_stack(aws)
    name = stack.queue.name
    role = aws.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    code = {"ZipFile": base64.b64decode(EMPTY_ZIP)}
    functions, sqs = aws.client("lambda"), aws.client("sqs")
    functions.create_function(FunctionName=name, Runtime="python3.13", Handler="f.f", Role=role, Code=code)
    functions.create_event_source_mapping(FunctionName=name, EventSourceArn=stack.queue.arn)
    try:
        sqs.send_message(QueueUrl=stack.queue.url, MessageBody="for the poller")
    except ClientError as error:
        raise AssertionError("the function's trouble became the sender's") from error
    received = sqs.receive_message(QueueUrl=stack.queue.url, MessageSystemAttributeNames=["All"])["Messages"]
    assert [message["Attributes"]["ApproximateReceiveCount"] for message in received] == ["1"]


def a_receive_costs_the_same_whatever_the_backlog(aws: LocalAws) -> None:
    stack = new_stack(aws)
    send(aws, stack.queue, 10)
    short_secs = ten_receives_secs(aws, stack.queue)
    send(aws, stack.queue, 300)
    # The fastest of several: the server may collect garbage of other tests.
    long_secs = min(ten_receives_secs(aws, stack.queue) for _ in range(3))
    assert long_secs < 2 * short_secs + CLOCK_TICKS_SECS


def a_conditional_create_has_one_winner(aws: LocalAws) -> None:
    bucket, s3, together = new_stack(aws).landing, aws.client("s3"), Barrier(4)

    def create(writer: int) -> int:
        together.wait()
        return status_of(lambda: s3.put_object(Bucket=bucket, Key="0001", Body=str(writer).encode(), IfNoneMatch="*"))

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(create, range(4))) == [200, 412, 412, 412]


def receives_that_overlap_share_the_messages(aws: LocalAws) -> None:
    stack, together = new_stack(aws), Barrier(4)
    send(aws, stack.queue, 20)

    def receive(_: int) -> list[str]:
        sqs = aws.client("sqs")
        together.wait()
        answer = sqs.receive_message(QueueUrl=stack.queue.url, MaxNumberOfMessages=10)
        return [message["Body"] for message in answer.get("Messages", [])]

    with ThreadPoolExecutor(4) as pool:
        received = [body for bodies in pool.map(receive, range(4)) for body in bodies]
    assert sorted(received) == sorted(str(number) for number in range(20))


def ten_receives_secs(aws: LocalAws, queue: Queue) -> float:
    """In the server's processor time, so that other programs do not count."""
    sqs, before_secs = aws.client("sqs"), processor_secs(aws.pid)
    for _ in range(10):
        sqs.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10)
    return processor_secs(aws.pid) - before_secs


def processor_secs(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_of(call: Callable[[], Any]) -> int:
    try:
        answer = call()
    except ClientError as error:
        answer = error.response
    return int(answer["ResponseMetadata"]["HTTPStatusCode"])


def the_filter_of_a_notification_is_encoded(aws: LocalAws) -> None:
    stack, s3 = new_stack(aws), aws.client("s3")
    for prefix, sends in (("day=1/", False), ("day%3D1/", True)):
        rules = {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}
        queue = {"QueueArn": stack.queue.arn, "Events": ["s3:ObjectCreated:*"], "Filter": rules}
        configured = {"QueueConfigurations": [queue]}
        s3.put_bucket_notification_configuration(Bucket=stack.landing, NotificationConfiguration=configured)
        drain(aws, stack.queue)
        s3.put_object(Bucket=stack.landing, Key="day=1/a b.json", Body=b"")
        assert len(records(aws, stack)) == sends


CHECKS = [
    the_filter_of_a_notification_is_encoded,
    an_upload_in_parts_sends_one_event,
    a_key_in_an_event_is_form_encoded_but_for_its_slashes,
    a_key_may_have_a_line_feed,
    sequencers_rise,
    an_event_of_a_versioned_bucket_names_the_version,
    a_rule_with_only_a_schedule_gets_no_events,
    a_target_that_cannot_be_served_does_not_stop_the_next,
    a_mapped_queue_keeps_its_messages_for_the_poller,
    a_receive_costs_the_same_whatever_the_backlog,
]
RACES = [a_conditional_create_has_one_winner, receives_that_overlap_share_the_messages]


def named(checks: Sequence[Check]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("check", checks, ids=[check.__name__ for check in checks])


@named(CHECKS)
def test_the_local_aws_behaves_like_aws(check: Check, aws: LocalAws) -> None:
    check(aws)


@named(CHECKS)
def test_moto_as_shipped_differs_from_aws(check: Check, unpatched: LocalAws) -> None:
    with pytest.raises(AssertionError):
        check(unpatched)


@named(RACES)
def test_the_local_aws_is_correct_in_a_race(check: Check, with_gaps: LocalAws) -> None:
    check(with_gaps)


@named(RACES)
def test_moto_as_shipped_is_wrong_in_a_race(check: Check, unpatched_with_gaps: LocalAws) -> None:
    with pytest.raises(AssertionError):
        check(unpatched_with_gaps)


# Queues


def test_a_new_queue_begins_with_a_test_event(aws: LocalAws) -> None:
    name = uuid.uuid4().hex
    stack = create_stack(aws, landing=f"{name}-landing", lake=f"{name}-lake", prefixes=["a/", "b/"])
    assert [json.loads(body)["Event"] for body in drain(aws, stack.queue)] == ["s3:TestEvent"]


def test_only_objects_below_a_prefix_send_events(aws: LocalAws) -> None:
    stack = new_stack(aws, prefixes=["raw/", "other/"])
    for key in ("raw/1", "elsewhere/2", "other/3"):
        aws.client("s3").put_object(Bucket=stack.landing, Key=key, Body=b"")
    assert [record["s3"]["object"]["key"] for record in records(aws, stack)] == ["raw/1", "other/3"]


def test_the_queue_is_encrypted_and_accepts_only_its_bucket(aws: LocalAws, stack: MinimalStack) -> None:
    answer = aws.client("sqs").get_queue_attributes(QueueUrl=stack.queue.url, AttributeNames=["All"])["Attributes"]
    condition = json.loads(answer["Policy"])["Statement"][0]["Condition"]
    assert answer["SqsManagedSseEnabled"] == "true"
    assert condition["ArnLike"] == {"aws:SourceArn": f"arn:aws:s3:::{stack.landing}"}


def test_a_long_poll_ends_with_the_first_message_and_blocks_no_other_call(aws: LocalAws, stack: MinimalStack) -> None:
    sqs = aws.client("sqs")
    with ThreadPoolExecutor() as pool:
        started = time.monotonic()
        poll = pool.submit(sqs.receive_message, QueueUrl=stack.queue.url, WaitTimeSeconds=20)
        sqs.send_message(QueueUrl=stack.queue.url, MessageBody="here")
        assert poll.result()["Messages"][0]["Body"] == "here"
    assert time.monotonic() - started < 10


def test_an_undeleted_message_is_received_again_once_visible(aws: LocalAws, stack: MinimalStack) -> None:
    sqs, url, started = aws.client("sqs"), stack.queue.url, time.monotonic()
    sqs.send_message(QueueUrl=url, MessageBody="again")
    sqs.receive_message(QueueUrl=url, VisibilityTimeout=1)
    again = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, MessageSystemAttributeNames=["All"])["Messages"][0]
    assert (again["Body"], again["Attributes"]["ApproximateReceiveCount"]) == ("again", "2")
    assert 1 <= time.monotonic() - started < 15


@pytest.mark.parametrize("first_secs", [0, 1], ids=["from visible", "from in flight"])
def test_an_extended_visibility_timeout_replaces_the_first_one(
    aws: LocalAws, stack: MinimalStack, first_secs: int
) -> None:
    sqs, url = aws.client("sqs"), stack.queue.url
    sqs.send_message(QueueUrl=url, MessageBody="mine")
    handle = sqs.receive_message(QueueUrl=url, VisibilityTimeout=first_secs)["Messages"][0]["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=60)
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=2)


def test_a_queue_counts_visible_delayed_and_in_flight_messages(aws: LocalAws, stack: MinimalStack) -> None:
    sqs, url = aws.client("sqs"), stack.queue.url
    send(aws, stack.queue, 10)
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=60)
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=3)
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert [answer[f"ApproximateNumberOfMessages{which}"] for which in ("", "NotVisible", "Delayed")] == ["7", "3", "1"]


def received_while(aws: LocalAws, queue: Queue, receivers: int, *sends: Callable[[], None]) -> list[str]:
    """Send from several threads while others receive and delete. Returns the received bodies."""
    sent = Event()

    def receive() -> list[str]:
        bodies: list[str] = []
        while not sent.is_set():
            bodies += drain(aws, queue, wait_secs=1)
        return bodies + drain(aws, queue, wait_secs=1)

    with ThreadPoolExecutor(receivers + len(sends)) as pool:
        receiving = [pool.submit(receive) for _ in range(receivers)]
        try:
            for sending in [pool.submit(each) for each in sends]:
                sending.result()
        finally:
            sent.set()
        return [body for each in receiving for body in each.result()]


def test_nothing_is_lost_or_doubled_when_sends_receives_and_deletes_overlap(aws: LocalAws, stack: MinimalStack) -> None:
    sends = [partial(send, aws, stack.queue, 100) for _ in range(2)]
    received = received_while(aws, stack.queue, 2, *sends)
    assert sorted(received) == sorted([str(number) for number in range(100)] * 2)


def test_a_fifo_queue_accepts_messages_while_receivers_wait(aws: LocalAws) -> None:
    url = aws.client("sqs").create_queue(QueueName=f"{uuid.uuid4().hex}.fifo", Attributes={"FifoQueue": "true"})[
        "QueueUrl"
    ]

    def send_in(group: str) -> None:
        sqs = aws.client("sqs")
        for number in range(60):
            name = f"{group}{number:02d}"
            sqs.send_message(QueueUrl=url, MessageBody=name, MessageGroupId=group, MessageDeduplicationId=name)

    received = received_while(aws, Queue("fifo", url, ""), 3, *(partial(send_in, group) for group in "abc"))
    assert sorted(received) == [f"{group}{number:02d}" for group in "abc" for number in range(60)]


def test_a_purged_queue_is_empty(aws: LocalAws, stack: MinimalStack) -> None:
    send(aws, stack.queue, 10)
    aws.client("sqs").purge_queue(QueueUrl=stack.queue.url)
    assert drain(aws, stack.queue) == []


def test_a_fifo_queue_keeps_order_and_groups_and_drops_duplicates(aws: LocalAws) -> None:
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName=f"{uuid.uuid4().hex}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for body in ("1", "2", "2", "3"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body)
    first = sqs.receive_message(QueueUrl=url)["Messages"][0]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    assert [first["Body"], *drain(aws, Queue("fifo", url, ""))] == ["1", "2", "3"]
