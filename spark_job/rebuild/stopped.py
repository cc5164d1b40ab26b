"""The end of a comparison that a signal wants."""

import threading
from collections.abc import Callable

Check = Callable[[], None]
"""Called between parts of the work. Raises Stopped if there is to be no more of it."""


class Stopped(Exception):
    """A signal has ended a comparison. Nothing was changed by it."""


def never() -> None:
    """Stops nothing."""


def stopped_by(stop: threading.Event) -> Check:
    def check() -> None:
        if stop.is_set():
            raise Stopped

    return check
