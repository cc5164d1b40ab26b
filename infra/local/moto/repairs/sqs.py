"""SQS: as shipped, each call looks at every message of the queue, and receives that overlap get the same ones."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from moto.core.utils import unix_time
from moto.sqs import models
from moto.sqs.exceptions import ReceiptHandleIsInvalid
from moto.sqs.models import Message, Queue, SQSBackend

from infra.local.moto.repairs.message_index import LOCK, MessageIndex
from infra.local.moto.repairs.patching import shallow_copy, wrap

Call = Callable[..., Any]


def index_messages() -> None:
    """In FIFO queues too, where moto loses a message that is sent while another is deleted, gives one to two receivers,
    and looks all the time while it waits for a group."""
    Queue._messages = property(_index_of, _fill_index)  # type: ignore[assignment]
    Queue._messages_lock = property(_condition_of, _share_the_lock)  # type: ignore[assignment]
    wrap(Queue, "approximate_number_of_messages", _counted_by(MessageIndex.visible_count))
    wrap(Queue, "approximate_number_of_messages_delayed", _counted_by(MessageIndex.delayed_count))
    wrap(Queue, "approximate_number_of_messages_not_visible", _counted_by(MessageIndex.in_flight_count))
    wrap(Queue, "delete_message", _delete_by_handle)
    wrap(SQSBackend, "receive_message", _receive_from_index)
    wrap(SQSBackend, "change_message_visibility", _change_by_handle)


def leave_event_source_mappings_to_the_poller() -> None:
    """moto empties a mapped queue inside SendMessage, without running the function unless there is Docker."""
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
    """What moto still does with its own lock must not wait for LOCK while somebody with LOCK waits for it."""
    queue.__dict__["changed"] = threading.Condition(LOCK)


def _counted_by(count: Callable[[MessageIndex], int]) -> Callable[[property], property]:
    def replacement(_: property) -> property:
        return property(lambda queue: count(_index_of(queue)))

    return replacement


def _delete_by_handle(shipped: Call) -> Call:
    @wraps(shipped)
    def delete_message(queue: Queue, receipt_handle: str) -> None:
        with LOCK:
            if receipt_handle not in queue.deleted_messages:
                message = _message_with(queue, receipt_handle)
                queue.deleted_messages.update(handle for handle in message.all_receipt_handles if handle)
                _index_of(queue).remove(message)

    return delete_message


def _change_by_handle(shipped: Call) -> Call:
    @wraps(shipped)
    def change_message_visibility(
        backend: SQSBackend, queue_name: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        queue = backend.get_queue(queue_name)
        with LOCK:
            message = _message_with(queue, receipt_handle)
            message.change_visibility(visibility_timeout)
            _index_of(queue).reschedule(message)

    return change_message_visibility


def _receive_from_index(shipped: Call) -> Call:
    @wraps(shipped)
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
        left = deadline - time.monotonic()
        if left <= 0:
            break
        _index_of(queue).wait(left)
    return taken


def _take(queue: Queue, count: int, visibility_timeout: int) -> list[Message]:
    index = _index_of(queue)
    taken: list[Message] = []
    while len(taken) < count and (message := index.pop_visible()) is not None:
        if _may_be_received(queue, message):
            message.mark_received(visibility_timeout=visibility_timeout)
            taken.append(message)
    # Only now: with a visibility timeout of zero they are visible again at once.
    for message in taken:
        index.reschedule(message)
    return taken


def _take_in_order(queue: Queue, count: int, visibility_timeout: int) -> list[Message]:
    """The oldest first, and none of a group of which another is with somebody."""
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
    """Else it is gone from the queue."""
    if _has_expired(queue, message):
        _index_of(queue).remove(message)
    elif _has_been_tried_too_often(queue, message):
        _move_to_dead_letters(queue, message)
    else:
        return True
    return False


def _has_expired(queue: Queue, message: Message) -> bool:
    sent_ts = message.sent_timestamp / 1000  # type: ignore[operator]
    return bool(sent_ts + queue.message_retention_period <= unix_time())  # type: ignore[attr-defined]


def _has_been_tried_too_often(queue: Queue, message: Message) -> bool:
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
    """As it is now: the next receive changes the handle, perhaps before this one's answer is written."""
    copy = shallow_copy(message)
    models._filter_message_attributes(copy, attribute_names)
    return copy
