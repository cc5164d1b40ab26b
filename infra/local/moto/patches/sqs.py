"""SQS: unpatched, each call scans every message of the queue, and concurrent receives get the same messages."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from moto.core.utils import unix_time
from moto.sqs import models
from moto.sqs.exceptions import ReceiptHandleIsInvalid
from moto.sqs.models import Message, Queue, SQSBackend

from infra.local.moto.patches.message_index import LOCK, MessageIndex
from infra.local.moto.patches.patching import shallow_copy, wrap

Call = Callable[..., Any]


def index_messages() -> None:
    """Also for FIFO queues, where moto loses a message that is sent during a deletion, delivers one message to two
    receivers, and busy-waits for a group."""
    Queue._messages = property(_index_of, _fill_index)  # type: ignore[assignment]
    Queue._messages_lock = property(_condition_of, _share_the_lock)  # type: ignore[assignment]
    wrap(Queue, "approximate_number_of_messages", _counted_by(MessageIndex.visible_count))
    wrap(Queue, "approximate_number_of_messages_delayed", _counted_by(MessageIndex.delayed_count))
    wrap(Queue, "approximate_number_of_messages_not_visible", _counted_by(MessageIndex.in_flight_count))
    wrap(Queue, "delete_message", _delete_by_handle)
    wrap(SQSBackend, "receive_message", _receive_from_index)
    wrap(SQSBackend, "change_message_visibility", _change_by_handle)


def disable_event_source_mappings() -> None:
    """Unpatched, moto empties a mapped queue inside SendMessage, and runs no function unless there is Docker. Here
    `infra/local/functions/poller.py` reads the queue."""
    Queue.lambda_event_source_mappings = property(lambda _: {}, lambda _, __: None)  # type: ignore[assignment]


def _index_of(queue: Queue) -> MessageIndex:
    index: MessageIndex = queue.__dict__["message_index"]
    return index


def _fill_index(queue: Queue, messages: Sequence[Message]) -> None:
    queue.__dict__.setdefault("message_index", MessageIndex()).replace_all(messages)


def _condition_of(queue: Queue) -> threading.Condition:
    condition: threading.Condition = queue.__dict__["changed"]
    return condition


def _share_the_lock(queue: Queue, _: threading.Condition) -> None:
    """moto's own lock becomes LOCK: two locks taken in different orders would deadlock."""
    queue.__dict__["changed"] = threading.Condition(LOCK)


def _counted_by(count: Callable[[MessageIndex], int]) -> Callable[[property], property]:
    def replacement(_: property) -> property:
        return property(lambda queue: count(_index_of(queue)))

    return replacement


def _delete_by_handle(original: Call) -> Call:
    @wraps(original)
    def delete_message(queue: Queue, receipt_handle: str) -> None:
        with LOCK:
            if receipt_handle not in queue.deleted_messages:
                message = _message_with(queue, receipt_handle)
                queue.deleted_messages.update(handle for handle in message.all_receipt_handles if handle)
                _index_of(queue).remove(message)

    return delete_message


def _change_by_handle(original: Call) -> Call:
    @wraps(original)
    def change_message_visibility(
        backend: SQSBackend, queue_name: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        queue = backend.get_queue(queue_name)
        with LOCK:
            message = _message_with(queue, receipt_handle)
            message.change_visibility(visibility_timeout)
            _index_of(queue).reschedule(message)

    return change_message_visibility


def _receive_from_index(original: Call) -> Call:
    @wraps(original)
    def receive_message(
        backend: SQSBackend,
        queue_name: str,
        count: int,
        wait_seconds_timeout: int,
        visibility_timeout: int,
        message_attribute_names: list[str] | None = None,
    ) -> list[Message]:
        queue = backend.get_queue(queue_name)
        with LOCK:
            taken = _wait_for_some(queue, count, wait_seconds_timeout, visibility_timeout)
            return [_as_received(message, message_attribute_names or []) for message in taken]

    return receive_message


def _wait_for_some(queue: Queue, count: int, wait_secs: int, visibility_timeout: int) -> list[Message]:
    deadline = time.monotonic() + wait_secs
    take = _take_in_order if queue.fifo_queue else _take
    while not (taken := take(queue, count, visibility_timeout)):
        remaining_secs = deadline - time.monotonic()
        if remaining_secs <= 0:
            break
        _index_of(queue).wait(remaining_secs)
    return taken


def _take(queue: Queue, count: int, visibility_timeout: int) -> list[Message]:
    index = _index_of(queue)
    taken: list[Message] = []
    while len(taken) < count and (message := index.pop_visible()) is not None:
        if _may_be_received(queue, message):
            message.mark_received(visibility_timeout=visibility_timeout)
            taken.append(message)
    # After the loop: with a visibility timeout of zero a message is visible again at once.
    for message in taken:
        index.reschedule(message)
    return taken


def _take_in_order(queue: Queue, count: int, visibility_timeout: int) -> list[Message]:
    """Oldest first, and none of a group that has a message in flight."""
    index = _index_of(queue)
    busy = {message.group_id for message in index.in_flight()}
    taken: list[Message] = []
    for message in index.visible():
        if len(taken) < count and message.group_id not in busy and _may_be_received(queue, message):
            message.mark_received(visibility_timeout=visibility_timeout)
            taken.append(message)
    for message in taken:
        index.reschedule(message)
    return taken


def _may_be_received(queue: Queue, message: Message) -> bool:
    """False: it expired or moved to the dead-letter queue, and is removed from this one."""
    if _has_expired(queue, message):
        _index_of(queue).remove(message)
    elif _has_reached_max_receives(queue, message):
        _move_to_dead_letters(queue, message)
    else:
        return True
    return False


def _has_expired(queue: Queue, message: Message) -> bool:
    sent_ts = message.sent_timestamp / 1000  # type: ignore[operator]
    return bool(sent_ts + queue.message_retention_period <= unix_time())  # type: ignore[attr-defined]


def _has_reached_max_receives(queue: Queue, message: Message) -> bool:
    if queue.dead_letter_queue is None or not queue.redrive_policy:
        return False
    return bool(message.approximate_receive_count >= queue.redrive_policy["maxReceiveCount"])


def _move_to_dead_letters(queue: Queue, message: Message) -> None:
    if queue.dead_letter_queue is not None:
        _index_of(queue).remove(message)
        message.__dict__["origin"] = queue
        _index_of(queue.dead_letter_queue).append(message)


def _message_with(queue: Queue, receipt_handle: str) -> Message:
    message = _index_of(queue).with_handle(receipt_handle)
    if message is None:
        raise ReceiptHandleIsInvalid
    return message


def _as_received(message: Message, attribute_names: list[str]) -> Message:
    """A copy: the next receive changes the handle, perhaps before the response to this one is written."""
    copy = shallow_copy(message)
    models._filter_message_attributes(copy, attribute_names)
    return copy
