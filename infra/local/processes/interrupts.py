"""Ends a command on Ctrl-C without a traceback, even while it still imports its modules."""

import signal
from collections.abc import Callable


def run_interruptible(load: Callable[[], Callable[[], int]], interrupted_status: int) -> int:
    """Import a command with `load` and run it. Returns its exit status, or `interrupted_status` after a signal."""
    try:
        # Explicitly: a background job of a shell starts with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return load()()
    except KeyboardInterrupt:
        return interrupted_status
