"""SQS: unpatched, a change of any attribute drops the queue's policy, and redrive is missing."""

import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import unix_time, unix_time_millis
from moto.sqs.exceptions import SQSException
from moto.sqs.models import Message, Queue, SQSBackend
from moto.sqs.responses import SQSResponse

from infra.local.moto.patches.message_index import LOCK
from infra.local.moto.patches.patching import wrap

DEDUPLICATION_SECS = 300.0
Call = Callable[..., Any]


def keep_policy_on_attribute_changes() -> None:
    Queue.redrive_allow_policy = None  # type: ignore[attr-defined]
    Queue.BASE_ATTRIBUTES = [*Queue.BASE_ATTRIBUTES, "RedriveAllowPolicy"]
    wrap(Queue, "_set_attributes", _keep_policy)


def deduplicate_for_five_minutes() -> None:
    """A FIFO queue drops a second message with the same id within five minutes, even if the first one was deleted."""
    wrap(Queue, "add_message", _once_per_id)


def support_redrive() -> None:
    SQSResponse.start_message_move_task = _start_move  # type: ignore[attr-defined]
    SQSResponse.list_message_move_tasks = _list_moves  # type: ignore[attr-defined]


def _keep_policy(original: Call) -> Call:
    @wraps(original)
    def set_attributes(queue: Queue, attributes: dict[str, Any], now: float | None = None) -> None:
        policy = attributes["Policy"] if "Policy" in attributes else getattr(queue, "policy", None)
        original(queue, attributes, now)
        queue.policy = policy or None

    return set_attributes


def _once_per_id(original: Call) -> Call:
    @wraps(original)
    def add_message(queue: Queue, message: Message) -> None:
        if not queue.fifo_queue or not message.deduplication_id:
            original(queue, message)
            return
        with LOCK:
            sent: dict[str, float] = queue.__dict__.setdefault("sent_ids", {})
            now = unix_time()
            for name in [name for name, at in sent.items() if now - at >= DEDUPLICATION_SECS]:
                del sent[name]
            if message.deduplication_id in sent:
                return
            sent[message.deduplication_id] = now
            original(queue, message)

    return add_message


def _start_move(response: SQSResponse) -> ActionResult:
    """Moves all visible messages at once, to DestinationArn or else to the queue that each came from."""
    backend: SQSBackend = response.sqs_backend
    source = _queue(backend, response._get_param("SourceArn"))
    destination_arn = response._get_param("DestinationArn")
    origins = [queue for queue in backend.queues.values() if queue.dead_letter_queue is source]
    if not origins:
        raise SQSException("InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
    with LOCK:
        messages = [message for message in source._messages if message.visible]
        for message in messages:
            source._messages.remove(message)
            destination = (
                _queue(backend, destination_arn) if destination_arn else message.__dict__.get("origin", origins[0])
            )
            _send_again(destination, message)
    task = {
        "TaskHandle": str(uuid.uuid4()),
        "Status": "COMPLETED",
        "SourceArn": source.queue_arn,
        "ApproximateNumberOfMessagesMoved": len(messages),
        "ApproximateNumberOfMessagesToMove": len(messages),
        "StartedTimestamp": int(unix_time_millis()),
    } | ({"DestinationArn": destination_arn} if destination_arn else {})
    source.__dict__.setdefault("move_tasks", []).insert(0, task)
    return ActionResult({"TaskHandle": task["TaskHandle"]})


def _send_again(destination: Queue, message: Message) -> None:
    again = Message(message.id, message.body, message.system_attributes)
    again.message_attributes, again.group_id = message.message_attributes, message.group_id
    # A new id: a redriven message must not count as a duplicate of the first one.
    again.deduplication_id = str(uuid.uuid4()) if message.deduplication_id else None
    again.sequence_number = message.sequence_number
    again.mark_sent(delay_seconds=0)
    destination.add_message(again)


def _list_moves(response: SQSResponse) -> ActionResult:
    source = _queue(response.sqs_backend, response._get_param("SourceArn"))
    tasks = source.__dict__.get("move_tasks", [])
    return ActionResult({"Results": tasks[: int(response._get_param("MaxResults") or 1)]})


def _queue(backend: SQSBackend, arn: str) -> Queue:
    return backend.get_queue(arn.split(":")[-1])
