"""Pipes to a process that may hang: who writes or reads gives up if nothing moves."""

import fcntl
import os
import select
from contextlib import suppress

SILENT_SECS = 120
"""How long the process may give no byte of its answer, and take none of a request. An answer is what a footer says, or
a batch of some MiB: milliseconds of work, seconds on a machine that is overloaded. On a damaged file libarrow may loop
for ever."""
_TURN_MS = 1_000
_PIPE_BYTES = 1 << 20
"""What a pipe holds, if the system allows it: less often one of the two waits for the other."""


class Silence(Exception):
    """Nothing moved for too long."""


def prepare(sending: int, receiving: int) -> None:
    """The ends of this process, which `send` and `receive` use from then on."""
    os.set_blocking(sending, False)
    for end in (sending, receiving):
        with suppress(OSError):  # the user has too many large ones
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def send(end: int, data: bytes, silent_secs: int) -> None:
    """Raises Silence, and BrokenPipeError if the process has ended."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(end, left) :]
        except BlockingIOError:
            _wait(end, select.POLLOUT, silent_secs)


def receive(end: int, size: int, silent_secs: int) -> bytearray:
    """Less than `size` bytes if the process has ended. Raises Silence."""
    data = bytearray(size)
    left = memoryview(data)
    while left:
        _wait(end, select.POLLIN, silent_secs)
        found = os.readv(end, [left])
        if not found:
            return data[: size - len(left)]
        left = left[found:]
    return data


def _wait(end: int, event: int, silent_secs: int) -> None:
    """In turns, since time in which this process was stopped itself must not count."""
    poll = select.poll()
    poll.register(end, event)
    for _ in range(silent_secs):
        if poll.poll(_TURN_MS):
            return
    raise Silence
