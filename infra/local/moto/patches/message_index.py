"""The messages of one queue, indexed so that no call scans all of them."""

import heapq
import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from moto.core.utils import unix_time_millis
from moto.sqs.models import Message

LOCK = threading.RLock()
"""One lock for all queues, so that a message moves to a dead-letter queue atomically."""


class MessageIndex:
    """Replaces moto's list (append, remove, iterate, len), and tracks when each message becomes visible.

    Every call takes LOCK. Hold it across calls that belong together.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(LOCK)
        self._serial = itertools.count()
        self.replace_all(())

    def replace_all(self, messages: Iterable[Message]) -> None:
        with LOCK:
            initial = list(messages)
            self._all: dict[Message, None] = {}
            self._visible: OrderedDict[Message, None] = OrderedDict()
            self._delayed: set[Message] = set()
            self._by_handle: dict[str, Message] = {}
            self._due: list[tuple[float, int, Message]] = []
            for message in initial:
                self.append(message)

    def append(self, message: Message) -> None:
        with LOCK:
            self._all[message] = None
            if message.delayed:
                self._delayed.add(message)
            self.reschedule(message)

    def remove(self, message: Message) -> None:
        with LOCK:
            del self._all[message]
            self._visible.pop(message, None)
            self._delayed.discard(message)
            for handle in _handles(message):
                self._by_handle.pop(handle, None)

    def __iter__(self) -> Iterator[Message]:
        with LOCK:
            return iter(list(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def with_handle(self, receipt_handle: str) -> Message | None:
        """The message that was received with this handle, in its latest receive or an earlier one."""
        return self._by_handle.get(receipt_handle)

    def reschedule(self, message: Message) -> None:
        """Call after the message was received or its visibility changed."""
        with LOCK:
            if message.receipt_handle:
                self._by_handle[message.receipt_handle] = message
            due = max(message.visible_at, message.delayed_until)
            if due > unix_time_millis():
                self._visible.pop(message, None)
                heapq.heappush(self._due, (due, next(self._serial), message))
            else:
                self._show(message)
            self._changed.notify_all()

    def pop_visible(self) -> Message | None:
        """The next message to deliver. It stays in the queue: the caller removes or reschedules it."""
        with LOCK:
            self._show_due_messages()
            return self._visible.popitem(last=False)[0] if self._visible else None

    def visible(self) -> list[Message]:
        """In the order of sending."""
        with LOCK:
            self._show_due_messages()
            return [message for message in self._all if message in self._visible]

    def in_flight(self) -> list[Message]:
        """Received, not deleted, and not visible again."""
        with LOCK:
            self._show_due_messages()
            return [m for m in self._all if m not in self._visible and m not in self._delayed]

    def wait(self, timeout_secs: float) -> None:
        """Wait until the queue changes or a message becomes due. The caller holds LOCK; waiting releases it."""
        next_due = (self._due[0][0] - unix_time_millis()) / 1000 if self._due else timeout_secs
        self._changed.wait(max(0.001, min(timeout_secs, next_due)))

    def visible_count(self) -> int:
        with LOCK:
            self._show_due_messages()
            return len(self._visible)

    def delayed_count(self) -> int:
        with LOCK:
            self._show_due_messages()
            return len(self._delayed)

    def in_flight_count(self) -> int:
        with LOCK:
            return len(self._all) - self.visible_count() - self.delayed_count()

    def _show_due_messages(self) -> None:
        now = unix_time_millis()
        while self._due and self._due[0][0] <= now:
            message = heapq.heappop(self._due)[2]
            # If its visibility was extended meanwhile, the heap has a later entry for it.
            if message in self._all and max(message.visible_at, message.delayed_until) <= now:
                self._show(message)

    def _show(self, message: Message) -> None:
        self._delayed.discard(message)
        self._visible.setdefault(message)


def _handles(message: Message) -> list[str]:
    return [handle for handle in message.all_receipt_handles if handle]
