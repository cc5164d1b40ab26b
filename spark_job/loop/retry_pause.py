"""A source that fails or loses a race is paused, and the other sources continue."""

from collections.abc import Callable
from typing import Protocol

from blizzard.errors import BlizzardError, RetryableError
from blizzard.log import Log
from spark_job.loop.ingest import Step


class Retrying(Protocol):
    """Says how long a source is paused (`Ingest`)."""

    def retry_after_secs(self, error: RetryableError | None, failures: int, *, draining: bool) -> float: ...


class RetryPause:
    """Pauses one source after a transient failure or a lost race, longer after more of them in a row."""

    def __init__(self, ingest: Retrying, clock: Callable[[], float], resume_ts: float, *, draining: bool) -> None:
        self.resume_ts = resume_ts
        """The source is paused until then."""
        self.failures = 0
        """Number of failures and lost races since the last success."""
        self._ingest = ingest
        self._clock = clock
        self._draining = draining

    def attempt(self, work: Callable[[], Step]) -> Step | None:
        """The result of the work; None: retry it after the pause. Raises BlizzardError after the last attempt."""
        failure: RetryableError | None = None
        try:
            step = work()
        except RetryableError as error:
            step, failure = Step.LOST, error
        if step is Step.LOST:
            self.failures += 1
            pause_secs = self._ingest.retry_after_secs(failure, self.failures, draining=self._draining)
            self.resume_ts = self._clock() + pause_secs
            return None
        self.failures = 0
        return step


def catch_failure(source_id: str, log: Log, work: Callable[[], object]) -> BlizzardError | None:
    """Do a source's work. If it fails, log and return the error, so that the other sources can continue."""
    try:
        work()
    except BlizzardError as error:
        log_failure(source_id, log, error)
        return error
    return None


def log_failure(source_id: str, log: Log, error: BlizzardError) -> None:
    log("source_failed", source=source_id, kind=type(error).__name__, error=str(error))
