"""What the dispatcher needs of the service that runs jobs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from blizzard.errors import PermanentError, RetryableError


class Life(StrEnum):
    """Where a run is in its life; the service's own states say it in more words."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Also a run that was cancelled or ran out of time."""


@dataclass(frozen=True, slots=True)
class RunState:
    """`detail` is what the service says about it, for people."""

    life: Life
    detail: str


class StartRefused(PermanentError):
    """The service will not start this run until somebody changes something; no run came of it."""


class StartConflict(RetryableError):
    """The application cannot take a run just now, or the token was used for another request."""


class ServiceBusy(RetryableError):
    """The service throttled, timed out or failed. A start may have happened all the same."""


class ServiceRefused(PermanentError):
    """The service does not let us look at its runs."""


class JobService(Protocol):
    """Starts and shows job runs. Every call may raise ServiceBusy, those that only look ServiceRefused."""

    @property
    def fingerprint(self) -> str:
        """Of all that a start sends beside pipeline and token."""
        ...

    def start(self, pipeline: str, client_token: str) -> str:
        """The id of the run. A token that has started one already gives that very run, even when it has ended.

        Raises StartRefused, StartConflict.
        """
        ...

    def state(self, run_id: str) -> RunState | None:
        """None for a run that the service does not know."""
        ...

    def active(self, pipeline: str) -> str | None:
        """The id of an active run of this pipeline, whoever started it."""
        ...
