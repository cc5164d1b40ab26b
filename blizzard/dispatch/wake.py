"""Wake-ups: collector and sweeper tell the dispatcher which pipelines have a backlog, once in each window of time.

The queue is FIFO and delays each message by the length of the window. All wake-ups of one pipeline and window have the
same deduplication id. The queue keeps the first and delivers it after the window, so that no append is missed.
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
class WakeUp:
    """One SQS message."""

    pipeline: str
    deduplication_id: str

    @property
    def group_id(self) -> str:
        return self.pipeline

    @property
    def body(self) -> str:
        return json.dumps({"pipeline": self.pipeline})


class NotAWakeUp(ValueError):
    """The message is not a wake-up; a person or another program sent it."""


class WakeNotSent(RetryableError):
    """The queue refused the message, or its response was lost."""


class SendWakeUp(Protocol):
    """Sends the message to the queue. Raises WakeNotSent."""

    def __call__(self, wake: WakeUp, /) -> None: ...


def wake_up_for(pipeline: str, *, now_ts: float, window_secs: float) -> WakeUp:
    """`now_ts` must be read after the append that the wake-up announces."""
    return WakeUp(pipeline, f"{pipeline}-{math.floor(now_ts / window_secs)}")


def read_wake_up(body: str) -> str:
    """The pipeline's name. Raises NotAWakeUp."""
    try:
        return json_fields.text(json_fields.mapping(json.loads(body))["pipeline"])
    except json_fields.MALFORMED as error:
        raise NotAWakeUp(f'expected {{"pipeline": "name"}}, found {body!r:.200}') from error


@dataclass(slots=True)
class Waker:
    """Sends wake-ups, each pipeline and window once.

    A wake-up that cannot be sent is logged and counted. It is not an error, since the dispatcher also runs on a
    schedule.
    """

    send: SendWakeUp
    window_secs: float
    log_error: Log
    _sent: dict[str, WakeUp] = field(default_factory=dict)

    def wake(self, pipelines: Iterable[str], *, now_ts: float) -> int:
        """Returns how many wake-ups failed. `now_ts`: as in `wake_up_for`."""
        failed = 0
        for pipeline in dict.fromkeys(pipelines):
            wake = wake_up_for(pipeline, now_ts=now_ts, window_secs=self.window_secs)
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
