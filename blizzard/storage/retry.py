"""One policy for whatever may succeed on the next try: exponential backoff with jitter, up to a limit."""

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
    """An attempt failed for a reason that may pass; never leaves this package."""

    def __init__(self, said: str, advice: str = "") -> None:
        super().__init__(said)
        self.advice = advice
        """What else than waiting may help, as a sentence."""


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `max_attempts` in all. The wait doubles from `first_backoff_secs`; a random half of it is jitter."""

    max_attempts: int = 8
    first_backoff_secs: float = 0.1
    max_backoff_secs: float = 20.0
    log: Log = silent

    def call(self, what: str, attempt: Callable[[int], T]) -> T:
        """The first result of `attempt(1)`, `attempt(2)`, … that does not raise TransientError.

        Raises StorageUnavailable when the attempts are used up; any other exception at once.
        """
        number = 1
        while True:
            try:
                return attempt(number)
            except TransientError as error:
                if number >= self.max_attempts:
                    raise self._unavailable(what, error) from error
                self.log("storage_retried", call=what, attempt=number, error=str(error))
                time.sleep(self._backoff_secs(number))
            number += 1

    def _backoff_secs(self, failed: int) -> float:
        first_secs, most_secs = self.first_backoff_secs, self.max_backoff_secs
        return backoff_secs(failed, first_secs=first_secs, most_secs=most_secs, jitter=random.random())

    def _unavailable(self, what: str, last: TransientError) -> StorageUnavailable:
        return StorageUnavailable(
            f"{what}: given up after {self.max_attempts} attempts, the last one failed with: {last}. "
            f"{last.advice or 'Try again later.'} In the job and the sweeper `retries` of the source is the limit of "
            "attempts, elsewhere AWS_MAX_ATTEMPTS."
        )
