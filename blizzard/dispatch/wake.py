"""The wake-up: whoever appended tells the dispatcher which pipelines have a backlog, once in a window.

The queue is FIFO and delays each message by the window's length. All wakes of one pipeline and window have the same
deduplication id, so the queue keeps the first of them and delivers it when the window is over: no append is missed.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from blizzard.errors import BlizzardError, RetryableError
from blizzard.log import Log
from blizzard.storage import json_fields


@dataclass(frozen=True, slots=True)
class Wake:
    """One message, in the words of SQS."""

    pipeline: str
    deduplication_id: str

    @property
    def group_id(self) -> str:
        return self.pipeline

    @property
    def body(self) -> str:
        return json.dumps({"pipeline": self.pipeline})


class NotAWake(ValueError):
    """The text of a message that is no wake-up; a person or another program sent it."""


class WakeNotSent(RetryableError):
    """The queue did not take the message, or its answer was lost."""


class SendWake(Protocol):
    """Puts the message into the queue. Raises WakeNotSent."""

    def __call__(self, wake: Wake, /) -> None: ...


def wake_of(pipeline: str, *, now_ts: float, window_secs: float) -> Wake:
    """`now_ts` must be read after the append that the wake is about."""
    return Wake(pipeline, f"{pipeline}-{math.floor(now_ts / window_secs)}")


def read_wake(body: str) -> str:
    """The pipeline's name. Raises NotAWake."""
    try:
        return json_fields.text(json_fields.mapping(json.loads(body))["pipeline"])
    except json_fields.MALFORMED as error:
        raise NotAWake(f'expected {{"pipeline": "name"}}, found {body!r:.200}') from error


@dataclass(slots=True)
class Waker:
    """Wakes pipelines; what it told the queue in this window it does not say again.

    A wake that cannot be sent is logged and counted, and no error: the dispatcher's schedule is the backstop.
    """

    send: SendWake
    window_secs: float
    log_error: Log
    _sent: dict[str, Wake] = field(default_factory=dict)

    def wake(self, pipelines: Iterable[str], *, now_ts: float) -> int:
        """How many wakes failed. `now_ts`: as in `wake_of`."""
        failed = 0
        for pipeline in dict.fromkeys(pipelines):
            wake = wake_of(pipeline, now_ts=now_ts, window_secs=self.window_secs)
            if self._sent.get(pipeline) == wake:
                continue
            try:
                self.send(wake)
            except BlizzardError as error:
                self.log_error("wake_failed", pipeline=pipeline, error=str(error), error_kind=type(error).__name__)
                failed += 1
            else:
                self._sent[pipeline] = wake
        return failed
