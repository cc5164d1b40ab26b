"""The poller's events and its treatment of messages, by Lambda's rules."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError  # type: ignore[import-untyped]

from infra.local.functions.poller import FULL_PAYLOAD_BYTES, LambdaPoller, PollerCounts
from infra.local.functions.sqs_event import EventSource, InvocationFailed, Message, failed_ids, record_of

SOURCE = EventSource("http://queue", "arn:aws:sqs:eu-west-1:123456789012:landing-events")
DEADLINE_SECS = 60


@dataclass
class FakeQueue:
    """An SQS client with one queue. Waiting advances its clock; received messages stay invisible until changed."""

    bodies: list[str] = field(default_factory=list)
    now: float = 0.0
    arrivals: dict[float, str] = field(default_factory=dict)
    in_flight: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    visibility: dict[str, int] = field(default_factory=dict)
    broken: Exception | None = None
    """Raised by the next receive, once."""

    def clock(self) -> float:
        return self.now

    def receive_message(self, **kwargs: Any) -> dict[str, Any]:
        if self.broken:
            broken, self.broken = self.broken, None
            raise broken
        self._wait(kwargs["WaitTimeSeconds"])
        assert 1 <= kwargs["MaxNumberOfMessages"] <= 10
        taken, self.bodies = self.bodies[: kwargs["MaxNumberOfMessages"]], self.bodies[kwargs["MaxNumberOfMessages"] :]
        self.in_flight |= {id_of(body): body for body in taken}
        return {"Messages": [message(body) for body in taken]} if taken else {}

    def delete_message_batch(self, **kwargs: Any) -> dict[str, Any]:
        assert 1 <= len(kwargs["Entries"]) <= 10
        self.deleted += [self.in_flight.pop(entry["ReceiptHandle"]) for entry in kwargs["Entries"]]
        return {}

    def change_message_visibility_batch(self, **kwargs: Any) -> dict[str, Any]:
        assert 1 <= len(kwargs["Entries"]) <= 10
        self.visibility |= {entry["ReceiptHandle"]: entry["VisibilityTimeout"] for entry in kwargs["Entries"]}
        return {}

    def _wait(self, secs: float) -> None:
        if not self.bodies:
            self.now += secs or 0.1
        self.bodies += [self.arrivals.pop(due) for due in sorted(self.arrivals) if due <= self.now]


def message(body: str) -> Message:
    return {"MessageId": id_of(body), "ReceiptHandle": id_of(body), "Body": body, "MD5OfBody": "md5"}


def id_of(body: str) -> str:
    return f"id-{body[:9]}"


class Events:
    """Records log events."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def __call__(self, event: str, /, **fields: object) -> None:
        self.lines.append((event, fields))

    def names(self) -> list[str]:
        return [event for event, _ in self.lines]


@dataclass
class Run:
    queue: FakeQueue
    log: Events
    counts: PollerCounts
    batches: list[list[str]]


def poll(queue: FakeQueue, answer: Callable[[list[str]], object], source: EventSource = SOURCE) -> Run:
    """One poll, with a handler that gets the bodies of a batch and returns the response."""
    log, batches = Events(), []

    def handler(event: dict[str, Any], context: Any) -> object:
        batches.append([record["body"] for record in event["Records"]])
        return answer(batches[-1])

    poller = LambdaPoller(queue, source, handler, log, queue.clock)
    poller.poll_once()
    return Run(queue, log, poller.counts, batches)


def report(*bodies: str) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": id_of(body)} for body in bodies]}


def test_processed_messages_are_deleted_and_failed_ones_stay() -> None:
    run = poll(FakeQueue(["a", "b", "c"]), lambda _: report("b"))
    assert run.queue.deleted == ["a", "c"]
    assert run.queue.visibility == {}
    assert run.counts == PollerCounts(invocations=1, succeeded=2, failed=1)


@pytest.mark.parametrize("answer", [None, {}, {"batchItemFailures": []}, {"batchItemFailures": None}, {"status": 200}])
def test_a_response_without_failures_means_success(answer: object) -> None:
    assert poll(FakeQueue(["a", "b"]), lambda _: answer).queue.deleted == ["a", "b"]


@pytest.mark.parametrize(
    "answer",
    [
        "done",
        {"batchItemFailures": "id-a"},
        {"batchItemFailures": ["id-a"]},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"messageId": "id-a"}]},
        {"batchItemFailures": [{"itemIdentifier": "id-a"}, {"itemIdentifier": "somebody else's"}]},
        {"not JSON": {1, 2}},
    ],
    ids=repr,
)
def test_an_invalid_response_fails_the_whole_batch(answer: object) -> None:
    run = poll(FakeQueue(["a", "b"]), lambda _: answer)
    assert run.queue.deleted == []
    assert run.counts == PollerCounts(invocations=1, failed=2, handler_errors=1)


@pytest.mark.parametrize("error", [ZeroDivisionError("by nothing"), SystemExit(1)])
def test_a_handler_that_raises_fails_the_whole_batch_with_the_reason(error: BaseException) -> None:
    def fail(_: list[str]) -> object:
        raise error

    run = poll(FakeQueue(["a", "b"]), fail)
    assert run.queue.deleted == []
    assert run.log.names() == ["lambda_invocation_failed", "lambda_messages_failed"]
    assert type(error).__name__ in str(run.log.lines[0][1]["error"])


def test_a_handler_that_exceeds_its_timeout_fails_even_if_it_responds() -> None:
    queue = FakeQueue(["a"])

    def dawdle(_: list[str]) -> None:
        queue.now += SOURCE.timeout_secs

    run = poll(queue, dawdle)
    assert run.queue.deleted == []
    assert "timed out after 30 seconds" in str(run.log.lines[0][1]["error"])


def test_a_function_without_report_batch_item_failures_succeeds_unless_it_raises() -> None:
    source = replace(SOURCE, report_batch_item_failures=False)
    assert poll(FakeQueue(["a", "b"]), lambda _: report("b"), source).queue.deleted == ["a", "b"]


def test_failed_messages_can_be_retried_sooner_than_on_aws() -> None:
    run = poll(FakeQueue(["a", "b"]), lambda _: report("b"), replace(SOURCE, retry_after_secs=2))
    assert run.queue.visibility == {"id-b": 2}


def test_an_empty_queue_invokes_nothing() -> None:
    run = poll(FakeQueue(), lambda _: None)
    assert (run.batches, run.counts) == ([], PollerCounts())


def test_a_batch_without_a_window_is_one_receive() -> None:
    run = poll(FakeQueue([str(number) for number in range(15)]), lambda _: None, replace(SOURCE, batch_size=4))
    assert run.batches == [["0", "1", "2", "3"]]


def test_a_window_collects_messages_until_it_closes() -> None:
    queue = FakeQueue(["first"], arrivals={2.0: "in time", 7.0: "too late"})
    run = poll(queue, lambda _: None, replace(SOURCE, batch_size=100, window_secs=5))
    assert run.batches == [["first", "in time"]]


def test_a_full_batch_does_not_wait_for_its_window() -> None:
    queue = FakeQueue([str(number) for number in range(30)])
    run = poll(queue, lambda _: None, replace(SOURCE, batch_size=25, window_secs=300))
    assert [len(batch) for batch in run.batches] == [25]
    assert queue.now == 0


def test_a_batch_ends_at_lambdas_payload_limit() -> None:
    queue = FakeQueue([f"{number:03d}" + "x" * 100_000 for number in range(100)])
    run = poll(queue, lambda _: None, replace(SOURCE, batch_size=100, window_secs=5))
    assert FULL_PAYLOAD_BYTES <= sum(map(len, run.batches[0])) <= 6 * 1024 * 1024


def test_more_than_ten_messages_without_a_window_are_refused_as_on_aws() -> None:
    with pytest.raises(ValueError, match="batch_size is 11 and window_secs 0"):
        replace(SOURCE, batch_size=11)


def test_a_record_has_lambdas_form() -> None:
    received = {
        **message("body"),
        "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1706450400000"},
        "MessageAttributes": {
            "text": {"StringValue": "t", "DataType": "String"},
            "bytes": {"BinaryValue": b"\x00", "DataType": "Binary"},
        },
        "MD5OfMessageAttributes": "md5-too",
    }
    lists: dict[str, list[str]] = {"stringListValues": [], "binaryListValues": []}
    assert record_of(received, SOURCE) == {
        "messageId": "id-body",
        "receiptHandle": "id-body",
        "body": "body",
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1706450400000"},
        "messageAttributes": {
            "text": {**lists, "stringValue": "t", "dataType": "String"},
            "bytes": {**lists, "binaryValue": "AA==", "dataType": "Binary"},
        },
        "md5OfBody": "md5",
        "md5OfMessageAttributes": "md5-too",
        "eventSource": "aws:sqs",
        "eventSourceARN": SOURCE.queue_arn,
        "awsRegion": "eu-west-1",
    }


def test_the_context_names_the_function_and_counts_down() -> None:
    queue, seen = FakeQueue(["a"]), []

    def look(_: dict[str, Any], context: Any) -> None:
        seen.append((context.function_name, context.invoked_function_arn, context.memory_limit_in_mb))
        queue.now += 10.5
        seen.append(context.get_remaining_time_in_millis())

    LambdaPoller(queue, SOURCE, look, Events(), queue.clock).poll_once()
    assert seen == [("collector", "arn:aws:lambda:eu-west-1:123456789012:function:collector", "256"), 19_500]


def test_each_invocation_has_its_own_request_id() -> None:
    queue, seen = FakeQueue(["a", "b"]), set()
    poller = LambdaPoller(
        queue, replace(SOURCE, batch_size=1), lambda _, context: seen.add(context.aws_request_id), Events()
    )
    assert [poller.poll_once(), poller.poll_once()] == [1, 1]
    assert len(seen) == 2


def test_unknown_ids_are_reported_with_those_of_the_batch() -> None:
    with pytest.raises(InvocationFailed, match=r"names \['id-x'\]; the batch has \['id-a'\]"):
        failed_ids(report("x"), frozenset({"id-a"}))


def test_a_poller_survives_an_unavailable_queue_and_reports_it() -> None:
    queue, log, received = FakeQueue(["a"]), Events(), threading.Event()
    queue.broken = EndpointConnectionError(endpoint_url="http://queue")
    with LambdaPoller(queue, SOURCE, lambda *_: received.set(), log) as poller:
        wait_until(lambda: poller.counts.poll_errors > 0)
        assert received.wait(DEADLINE_SECS)
    assert log.names() == ["lambda_poll_failed"]


def test_a_stopped_poller_finishes_its_invocation_and_receives_no_more() -> None:
    queue, entered, release = FakeQueue(["a"]), threading.Event(), threading.Event()

    def handler(*_: object) -> None:
        entered.set()
        assert release.wait(DEADLINE_SECS)
        queue.bodies.append("b")

    poller = LambdaPoller(queue, SOURCE, handler, Events())
    poller.start()
    assert entered.wait(DEADLINE_SECS)
    threading.Thread(target=lambda: poller._stopping.wait(DEADLINE_SECS) and release.set(), daemon=True).start()
    poller.stop()
    assert (queue.deleted, queue.bodies) == (["a"], ["b"])


def test_a_refused_deletion_is_reported() -> None:
    class Refusing(FakeQueue):
        def delete_message_batch(self, **kwargs: Any) -> dict[str, Any]:
            return {"Failed": [{"Id": "0", "Code": "ReceiptHandleIsInvalid"}]}

    run = poll(Refusing(["a"]), lambda _: None)
    assert json.dumps(run.log.lines[0]).count("ReceiptHandleIsInvalid") == 1


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(DEADLINE_SECS * 100):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("the condition did not come true in time")
