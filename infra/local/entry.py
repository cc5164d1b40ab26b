"""How a command begins: an interrupt ends it without a traceback, also while it still imports what it needs."""

import signal
from collections.abc import Callable


def entered(load: Callable[[], Callable[[], int]], interrupted: int) -> int:
    """The exit status of the command that `load` imports; `interrupted` after a SIGINT or a SIGTERM."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with it ignored
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return load()()
    except KeyboardInterrupt:
        return interrupted
