"""The job service, as the dispatcher uses it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from blizzard.errors import PermanentError, RetryableError


class RunStatus(StrEnum):
    """A run's status. The service's own, more detailed states map to these."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Also: cancelled, or out of time."""


@dataclass(frozen=True, slots=True)
class RunState:
    """`detail`: the service's own description, for people."""

    status: RunStatus
    detail: str


class StartRefused(PermanentError):
    """The service refused the start and will refuse it again until something is changed. No run was started."""


class StartConflict(RetryableError):
    """The application cannot start a run at the moment, or the token was used for another request."""


class ServiceBusy(RetryableError):
    """The service throttled, timed out or failed. A run may have been started all the same."""


class ServiceRefused(PermanentError):
    """The service denies reading its runs."""


class JobService(Protocol):
    """Starts and shows job runs. Every call may raise ServiceBusy; calls that only read may raise ServiceRefused."""

    @property
    def fingerprint(self) -> str:
        """Changes with anything that a start sends, except pipeline and token: release and configuration."""
        ...

    def start(self, pipeline: str, client_token: str) -> str:
        """The id of the run. A token that has started a run already returns that run, even if it has ended.

        Raises StartRefused, StartConflict.
        """
        ...

    def state(self, run_id: str) -> RunState | None:
        """None if the service does not know the run."""
        ...

    def active(self, pipeline: str) -> str | None:
        """The id of an active run of this pipeline, also of one started by hand; None if there is none."""
        ...
