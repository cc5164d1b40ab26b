"""Lambda's SQS event source for a Python handler: receives messages, invokes it, deletes or returns the messages."""

import json
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol, Self

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.log import Log
from infra.local.functions.sqs_event import (
    SQS_BATCH,
    EventSource,
    InvocationFailed,
    LambdaContext,
    Message,
    failed_ids,
    record_of,
)

LONG_POLL_SECS = 1
"""Lambda waits 20 s. Short here, because `stop()` may have to wait for it."""
PAUSE_SECS = 0.1
FULL_PAYLOAD_BYTES = 5 * 1024 * 1024
"""Stop receiving above this. Lambda's limit is 6 MB; the difference is room for the last receive."""


@dataclass(frozen=True)
class PollerCounts:
    """Counts of messages; one that fails twice counts twice."""

    invocations: int = 0
    succeeded: int = 0
    failed: int = 0
    handler_errors: int = 0
    poll_errors: int = 0


class SqsClient(Protocol):
    """The methods of boto3's client that are used here."""

    def receive_message(self, **kwargs: Any) -> dict[str, Any]: ...
    def delete_message_batch(self, **kwargs: Any) -> dict[str, Any]: ...
    def change_message_visibility_batch(self, **kwargs: Any) -> dict[str, Any]: ...


Handler = Callable[[dict[str, Any], Any], object]


class LambdaPoller:
    """A thread that invokes one handler, once at a time. Can be used as a context manager."""

    def __init__(
        self,
        sqs: SqsClient,
        source: EventSource,
        handler: Handler,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sqs = sqs
        self._source = source
        self._handler = handler
        self._log = log
        self._clock = clock
        self._counts = PollerCounts()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"poller-{source.function_name}", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def counts(self) -> PollerCounts:
        return self._counts

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for the invocation in flight, if any. Nothing is received afterwards."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def poll_once(self) -> int:
        """Wait up to LONG_POLL_SECS for a batch and invoke the handler with it. Returns the number of messages."""
        messages = self._collect()
        if messages:
            self._process(messages)
        return len(messages)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.poll_once()
            except (BotoCoreError, ClientError) as error:
                self._counts = replace(self._counts, poll_errors=self._counts.poll_errors + 1)
                self._log("lambda_poll_failed", function=self._source.function_name, error=repr(error))
                self._stopping.wait(LONG_POLL_SECS)

    def _collect(self) -> list[Message]:
        messages = self._receive(self._source.batch_size, LONG_POLL_SECS)
        payload_bytes = self._payload_bytes(messages)
        window_end = self._clock() + self._source.window_secs
        while messages and len(messages) < self._source.batch_size and payload_bytes < FULL_PAYLOAD_BYTES:
            remaining_secs = window_end - self._clock()
            if remaining_secs <= 0 or self._stopping.is_set():
                break
            more = self._receive_within(remaining_secs, self._source.batch_size - len(messages))
            payload_bytes += self._payload_bytes(more)
            messages += more
        return messages

    def _receive_within(self, remaining_secs: float, max_messages: int) -> list[Message]:
        """SQS waits only whole seconds, so a shorter wait happens here."""
        wait_secs = min(LONG_POLL_SECS, int(remaining_secs))
        messages = self._receive(max_messages, wait_secs)
        if not messages and not wait_secs:
            self._stopping.wait(min(remaining_secs, PAUSE_SECS))
        return messages

    def _payload_bytes(self, messages: Sequence[Message]) -> int:
        return sum(len(json.dumps(record_of(message, self._source))) for message in messages)

    def _receive(self, max_messages: int, wait_secs: int) -> list[Message]:
        response = self._sqs.receive_message(
            QueueUrl=self._source.queue_url,
            MaxNumberOfMessages=min(SQS_BATCH, max_messages),
            WaitTimeSeconds=wait_secs,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return list(response.get("Messages", []))

    def _process(self, messages: Sequence[Message]) -> None:
        failed = self._invoke(messages)
        done = [message for message in messages if message["MessageId"] not in failed]
        to_retry = [message for message in messages if message["MessageId"] in failed]
        self._delete(done)
        self._make_visible_again(to_retry)
        if to_retry:
            self._log("lambda_messages_failed", function=self._source.function_name, messages=sorted(failed))
        self._counts = replace(
            self._counts,
            invocations=self._counts.invocations + 1,
            succeeded=self._counts.succeeded + len(done),
            failed=self._counts.failed + len(to_retry),
        )

    def _invoke(self, messages: Sequence[Message]) -> frozenset[str]:
        """The ids of the messages that failed."""
        ids = frozenset(message["MessageId"] for message in messages)
        context = self._context()
        try:
            response = self._call(messages, context)
            return failed_ids(response, ids) if self._source.report_batch_item_failures else frozenset()
        except InvocationFailed as error:
            self._counts = replace(self._counts, handler_errors=self._counts.handler_errors + 1)
            self._log(
                "lambda_invocation_failed",
                function=context.function_name,
                request_id=context.aws_request_id,
                messages=len(ids),
                error=str(error),
            )
            return ids

    def _call(self, messages: Sequence[Message], context: LambdaContext) -> object:
        """Event and response are converted to JSON and back, as on AWS."""
        event = json.loads(json.dumps({"Records": [record_of(message, self._source) for message in messages]}))
        try:
            response: object = json.loads(json.dumps(self._handler(event, context)))
        except (Exception, SystemExit) as error:  # on AWS the process would end here
            raise InvocationFailed(traceback.format_exc()) from error
        if not context.get_remaining_time_in_millis():
            raise InvocationFailed(f"Task timed out after {self._source.timeout_secs:g} seconds")
        return response

    def _context(self) -> LambdaContext:
        return LambdaContext(
            function_name=self._source.function_name,
            memory_limit_in_mb=str(self._source.memory_limit_in_mb),
            invoked_function_arn=self._source.function_arn,
            aws_request_id=str(uuid.uuid4()),
            deadline=self._clock() + self._source.timeout_secs,
            clock=self._clock,
        )

    def _delete(self, messages: Sequence[Message]) -> None:
        for entries in _entries(messages):
            response = self._sqs.delete_message_batch(QueueUrl=self._source.queue_url, Entries=entries)
            self._log_rejected_entries("delete", response)

    def _make_visible_again(self, messages: Sequence[Message]) -> None:
        if self._source.retry_after_secs is None:
            return
        for entries in _entries(messages):
            timed = [{**entry, "VisibilityTimeout": self._source.retry_after_secs} for entry in entries]
            response = self._sqs.change_message_visibility_batch(QueueUrl=self._source.queue_url, Entries=timed)
            self._log_rejected_entries("change_visibility", response)

    def _log_rejected_entries(self, what: str, response: Mapping[str, Any]) -> None:
        if refused := response.get("Failed"):
            self._log("lambda_queue_refused", function=self._source.function_name, what=what, refused=refused)


def _entries(messages: Sequence[Message]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(messages), SQS_BATCH):
        chunk = messages[start : start + SQS_BATCH]
        yield [{"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]} for number, message in enumerate(chunk)]
