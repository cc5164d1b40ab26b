"""The attacher function answers each request of CloudFormation, whatever happens, as the protocol wants it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from logging import StreamHandler
from typing import Any, cast
from urllib.error import HTTPError

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blizzard.errors import ConfigError
from functions.attacher import handler as function
from functions.attacher.composition import NOTHING, Attacher
from functions.attacher.custom_resource import MAX_ANSWER_BYTES, Answer, Request
from functions.attacher.notification import QUEUES, attached
from infra.local.cloudformation.answers import answer_server
from tests.unit.attached_bucket import ACCOUNT, BUCKET, OWN, QUEUE, THEIRS, FakeS3, refused

STACK = f"arn:aws:cloudformation:eu-west-1:{ACCOUNT}:stack/prod/1111-2222"
ID = f"{BUCKET}/{OWN.entry_id}"
PROPERTIES = {"ServiceToken": "arn", "BucketName": BUCKET, "Prefix": OWN.prefix, "QueueArn": QUEUE}


class FakeContext:
    """What Lambda tells a function about its call."""

    aws_request_id = "request-1"
    function_name = "attacher"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:attacher"

    def get_remaining_time_in_millis(self) -> int:
        return 180_000


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "RequestType": kind,
        "ServiceToken": "arn",
        "ResponseURL": answer_server().open(),
        "StackId": STACK,
        "RequestId": "r-1",
        "LogicalResourceId": "AttachedLanding",
        "ResourceType": "Custom::LandingNotification",
        "ResourceProperties": PROPERTIES,
        **more,
    }


@dataclass
class Deployed:
    s3: FakeS3 = field(default_factory=FakeS3)
    log: StringIO = field(default_factory=StringIO)
    client_error: Exception | None = None

    def client(self) -> FakeS3:
        if self.client_error:
            raise self.client_error
        return self.s3

    def ask(self, kind: str, **more: Any) -> Any:
        """The answer that CloudFormation got."""
        request = event(kind, **more)
        function.handler(request, cast("Any", FakeContext()))
        body = answer_server().wait(request["ResponseURL"], 0)
        assert body is not None
        answer = json.loads(body)
        assert [answer.pop(name) for name in ("StackId", "RequestId", "LogicalResourceId")] == [
            STACK,
            "r-1",
            "AttachedLanding",
        ]
        return answer

    def logged(self, name: str) -> list[Any]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["message"] == name]


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    made = Deployed()
    monkeypatch.setattr(function, "attacher", lambda: Attacher(made.client, function.log, lambda _: None))
    output = cast("StreamHandler[Any]", function.logger.registered_handler)
    before = output.setStream(made.log)
    yield made
    output.setStream(before)


def test_a_bucket_is_attached_changed_and_detached(deployed: Deployed) -> None:
    success = {"Status": "SUCCESS", "Reason": "", "PhysicalResourceId": ID}
    assert deployed.ask("Create") == success
    assert deployed.s3.configuration == attached(THEIRS, OWN)
    changed = {**PROPERTIES, "Prefix": ""}
    assert deployed.ask("Update", PhysicalResourceId=ID, ResourceProperties=changed) == success
    assert deployed.s3.configuration[QUEUES][0].keys() == {"Id", "QueueArn", "Events"}
    assert deployed.ask("Delete", PhysicalResourceId=ID) == success
    assert deployed.s3.configuration == THEIRS
    assert [line["entry"] for line in deployed.logged("bucket_attached")] == [OWN.entry_id] * 2
    assert len(deployed.logged("bucket_detached")) == 1


def test_only_another_bucket_has_another_id(deployed: Deployed) -> None:
    """CloudFormation then deletes the one of the old bucket."""
    old = f"old-bucket/{OWN.entry_id}"
    assert deployed.ask("Update", PhysicalResourceId=old)["PhysicalResourceId"] == ID


def test_what_was_never_attached_is_deleted_without_a_look(deployed: Deployed) -> None:
    """So a stack whose bucket belongs to somebody else can be rolled back."""
    deployed.s3.gets = [refused("AccessDenied", status=403)] * 9
    failed = deployed.ask("Create")
    assert (failed["Status"], failed["PhysicalResourceId"]) == ("FAILED", NOTHING)
    assert "access denied" in failed["Reason"]
    assert deployed.ask("Delete", PhysicalResourceId=NOTHING)["Status"] == "SUCCESS"
    assert deployed.logged("attach_failed")[0]["error_kind"] == "NotAttached"


def test_an_attempt_that_failed_leaves_nothing_behind(deployed: Deployed) -> None:
    """It wrote, somebody wrote over it, and so on until there was no more time; then the last write is taken back."""
    deployed.s3.after_put = [lambda _: THEIRS] * 5 + [lambda written: {**written, QUEUES: [*written[QUEUES], OTHER]}]
    deployed.s3.gets = [None] * 11 + [refused("X", status=500)]
    answer = deployed.ask("Create")
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("FAILED", NOTHING)
    assert deployed.s3.configuration == {**THEIRS, QUEUES: [OTHER]}


OTHER = {"Id": "new", "QueueArn": "arn:aws:sqs:eu-west-1:1:q", "Events": ["s3:ObjectRemoved:*"]}


def test_a_failed_update_keeps_the_id_and_the_entry_of_before(deployed: Deployed) -> None:
    deployed.ask("Create")
    before = deployed.s3.configuration
    deployed.s3.puts = [refused("InvalidArgument", "Configuration is ambiguously defined")]
    changed = {**PROPERTIES, "Prefix": "other/"}
    answer = deployed.ask("Update", PhysicalResourceId=ID, ResourceProperties=changed)
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("FAILED", ID)
    assert deployed.s3.configuration == before


@pytest.mark.parametrize("error", [RuntimeError("bug"), ConfigError(["AWS_ENDPOINT_URL: wrong"])], ids=repr)
def test_an_unexpected_error_is_an_answer_too(deployed: Deployed, error: Exception) -> None:
    deployed.client_error = error
    answer = deployed.ask("Create")
    assert answer["Status"] == "FAILED"
    assert str(error) in answer["Reason"]


def test_a_missing_property_is_named(deployed: Deployed) -> None:
    answer = deployed.ask("Create", ResourceProperties={"BucketName": BUCKET})
    assert answer["Reason"] == "AttachedLanding: expected the property QueueArn, found None; set it"


def test_an_answer_that_is_not_taken_lets_lambda_try_again(deployed: Deployed) -> None:
    request = event("Create")
    request["ResponseURL"] += "0"
    with pytest.raises(HTTPError, match="403"):
        function.handler(request, cast("Any", FakeContext()))


@pytest.mark.parametrize("wrong", [{}, {"schedule": "sweep"}, {**event("Create"), "RequestType": "Read"}])
def test_any_other_event_is_refused(deployed: Deployed, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected a request of CloudFormation to a custom resource"):
        function.handler(wrong, cast("Any", FakeContext()))


@given(st.text(st.sampled_from("a\0é😀"), min_size=1, max_size=5000), st.text(st.just("😀"), max_size=100))
@example("😀" * 5000, "😀" * 100)
def test_every_answer_is_within_cloudformations_limit(problem: str, physical_id: str) -> None:
    request = Request("Create", "r" * 36, "https://x", STACK, "AttachedLanding", "", {})
    text = Answer(physical_id, problem).to_json(request)
    assert len(text.encode()) <= MAX_ANSWER_BYTES
    assert json.loads(text)["Status"] == "FAILED"
