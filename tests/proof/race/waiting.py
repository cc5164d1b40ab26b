"""Waiting for another process of a race, which may never come."""

import time
from collections.abc import Callable

MAX_WAIT_SECS = 120.0
"""Maximum wait for another job."""


def wait_until(until: Callable[[], bool], *, within_secs: float = MAX_WAIT_SECS) -> None:
    """With a limit, because the other job may have nothing to commit."""
    deadline = time.monotonic() + within_secs
    while not until() and time.monotonic() < deadline:
        time.sleep(0.02)
