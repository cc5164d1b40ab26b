"""A bucket's notifications are changed while S3 refuses, is slow to take effect, or others change them too."""

from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError  # type: ignore[import-untyped]

from blizzard.errors import BucketMissing
from functions.attacher.bucket import PAUSES_SECS, SETTLE_SECS
from functions.attacher.notification import QUEUES, attached, detached
from functions.attacher.refusals import NotAttached
from tests.unit.attached_bucket import ACCOUNT, OWN, THEIRS, FakeS3, Function, refused

TIMEOUT = ReadTimeoutError(endpoint_url="https://s3")
DENIED = refused("AccessDenied", "no identity-based policy allows it", 403)
UNREACHABLE = refused(
    "InvalidArgument",
    "Unable to validate the following destination configurations",
    ArgumentName1="arn:aws:sqs:eu-west-1:123456789012:gone, null",
)
OVERLAP = refused("InvalidArgument", "Configuration is ambiguously defined. Cannot have overlapping suffixes …")


def test_attaching_keeps_what_is_there_and_detaching_restores_it() -> None:
    function = Function()
    function.bucket().attach(OWN)
    assert function.s3.configuration == {**THEIRS, QUEUES: [OWN.entry()]}
    function.bucket().detach(OWN.entry_id)
    assert function.s3.configuration == THEIRS
    assert function.logged == []


def test_destinations_are_checked_when_the_stack_attaches_and_not_when_it_leaves() -> None:
    """A queue of somebody else that is gone by then must not keep the stack from being deleted."""
    function = Function()
    function.bucket().attach(OWN)
    function.bucket().detach(OWN.entry_id)
    assert [request["SkipDestinationValidation"] for request in function.s3.written] == [False, True]


def test_nothing_is_written_when_nothing_has_to_change() -> None:
    function = Function()
    function.bucket().detach(OWN.entry_id)
    function.s3.configuration = dict(attached(THEIRS, OWN))
    function.bucket().attach(OWN)
    assert function.s3.written == []


@pytest.mark.parametrize(
    "error", [DENIED, UNREACHABLE, refused("OperationAborted"), refused("X", status=503), TIMEOUT], ids=repr
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    """A new role's policy and a queue's policy take some seconds to be in effect everywhere."""
    function = Function(FakeS3(puts=[error, error]))
    function.bucket().attach(OWN)
    assert function.s3.configuration == attached(THEIRS, OWN)
    assert [event for event, _ in function.logged] == ["attach_retried"] * 2
    assert function.slept == [0.0, PAUSES_SECS[0], PAUSES_SECS[1], SETTLE_SECS]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DENIED, rf"access denied.*Expected a bucket of the account {ACCOUNT}.*mode eventbridge or sns"),
        (UNREACHABLE, "cannot reach a destination .*:gone, null.*its owner must repair or remove that notification"),
    ],
    ids=["denied", "unreachable"],
)
def test_what_does_not_pass_fails_with_what_to_do(error: Exception, text: str) -> None:
    function = Function(FakeS3(puts=[error] * 9))
    with pytest.raises(NotAttached, match=text):
        function.bucket().attach(OWN)
    assert len(function.s3.written) == len(PAUSES_SECS) + 1
    assert function.s3.configuration == THEIRS


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (refused("PermanentRedirect", "must be addressed"), "another region than the stack"),
        (
            refused("InvalidArgument", "The notification destination service region is not valid for the bucket"),
            "another region than the stack",
        ),
        (refused("MalformedXML", "wrong"), r"S3 refused the notification \(MalformedXML: wrong\)"),
    ],
)
def test_what_cannot_pass_fails_at_once(error: Exception, text: str) -> None:
    function = Function(FakeS3(puts=[error] * 9))
    with pytest.raises(NotAttached, match=text):
        function.bucket().attach(OWN)
    assert len(function.s3.written) == 1


def test_an_overlap_is_refused_with_the_id_of_the_other_notification() -> None:
    other = {"Id": "their-images", "QueueArn": "arn:aws:sqs:eu-west-1:1:q", "Events": ["s3:ObjectCreated:Put"]}
    function = Function(FakeS3({QUEUES: [other]}, puts=[OVERLAP]))
    with pytest.raises(
        NotAttached, match=r"the notification their-images announces some of the same.*eventbridge or sns"
    ):
        function.bucket().attach(OWN)


def test_a_bucket_that_is_missing_cannot_be_attached_and_need_not_be_detached() -> None:
    gone = refused("NoSuchBucket", status=404)
    with pytest.raises(BucketMissing, match=r"there is no such bucket\. Create it, or correct the parameter"):
        Function(FakeS3(gets=[gone])).bucket().attach(OWN)
    function = Function(FakeS3(gets=[gone]))
    function.bucket().detach(OWN.entry_id)
    assert [event for event, _ in function.logged] == ["bucket_gone"]


def test_an_entry_that_somebody_else_overwrites_is_set_again() -> None:
    """Others had read the configuration before it was changed, and write it back with theirs."""
    theirs: dict[str, Any] = {"Id": "new", "TopicArn": "arn:aws:sns:eu-west-1:1:t", "Events": ["s3:ObjectRemoved:*"]}
    changed = {**THEIRS, "TopicConfigurations": [*THEIRS["TopicConfigurations"], theirs]}
    function = Function(FakeS3(after_put=[lambda _: changed]))
    function.bucket().attach(OWN)
    assert function.s3.configuration == attached(changed, OWN)
    assert len(function.s3.written) == 2


def test_an_entry_that_is_overwritten_again_and_again_fails() -> None:
    function = Function(FakeS3(after_put=[lambda _: THEIRS] * 9))
    with pytest.raises(NotAttached, match="was set, and is not there when the configuration is read again"):
        function.bucket().attach(OWN)


def test_an_entry_that_comes_back_is_taken_away_again() -> None:
    with_own = dict(attached(THEIRS, OWN))
    function = Function(FakeS3(with_own, after_put=[lambda _: with_own]))
    function.bucket().detach(OWN.entry_id)
    assert function.s3.configuration == detached(with_own, OWN.entry_id) == THEIRS


def test_a_change_of_others_in_the_meantime_is_logged_and_not_undone() -> None:
    function = Function(FakeS3(after_put=[lambda written: {QUEUES: written[QUEUES]}]))
    function.bucket().attach(OWN)
    assert function.s3.configuration == {QUEUES: [OWN.entry()]}
    assert [(event, fields["entries"]) for event, fields in function.logged] == [
        ("others_changed", ["theirs", "EventBridgeConfiguration"])
    ]


def test_no_attempt_begins_that_would_leave_no_time_to_answer() -> None:
    function = Function(FakeS3(puts=[DENIED] * 9), remaining_secs=76.0)
    with pytest.raises(NotAttached, match="access denied"):
        function.bucket().attach(OWN)
    assert function.remaining_secs > 70.0
    late = Function(remaining_secs=60.0)
    with pytest.raises(NotAttached, match="no time for an attempt"):
        late.bucket().attach(OWN)
    assert late.s3.calls == []
