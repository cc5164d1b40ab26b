"""Retries of transient failures: exponential backoff with jitter, up to a limit of attempts."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from blizzard.errors import StorageUnavailable
from blizzard.log import Log, silent
from blizzard.storage.backoff import backoff_secs

T = TypeVar("T")


class TransientError(Exception):
    """A transient failure of one attempt. Never leaves this package."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.advice = advice
        """What to do besides waiting, as a sentence."""


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `max_attempts`. The wait doubles from `first_backoff_secs`; a random half of it is jitter."""

    max_attempts: int = 8
    first_backoff_secs: float = 0.1
    max_backoff_secs: float = 20.0
    log: Log = silent

    def call(self, operation: str, attempt: Callable[[int], T]) -> T:
        """The first result of `attempt(1)`, `attempt(2)`, … that does not raise TransientError.

        Raises StorageUnavailable after the last attempt. Any other exception is raised at once.
        """
        number = 1
        while True:
            try:
                return attempt(number)
            except TransientError as error:
                if number >= self.max_attempts:
                    raise self._unavailable(operation, error) from error
                self.log("storage_retried", call=operation, attempt=number, error=str(error))
                time.sleep(self._backoff_secs(number))
            number += 1

    def _backoff_secs(self, failed: int) -> float:
        first_secs, max_secs = self.first_backoff_secs, self.max_backoff_secs
        return backoff_secs(failed, first_secs=first_secs, max_secs=max_secs, jitter=random.random())

    def _unavailable(self, operation: str, last: TransientError) -> StorageUnavailable:
        return StorageUnavailable(
            f"{operation}: given up after {self.max_attempts} attempts, the last one failed with: {last}. "
            f"{last.advice or 'Try again later.'} To allow more attempts, raise `retries.max_attempts` of the source "
            "(for the job and the sweeper) or AWS_MAX_ATTEMPTS (for everything else)."
        )
