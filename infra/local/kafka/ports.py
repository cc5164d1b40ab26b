"""Free ports of 127.0.0.1 that stay free while a broker is down."""

import os
import socket
from itertools import count

# Below those that Linux gives to outgoing connections, one of which could otherwise take the port of a broker that is
# to be started again.
FIRST, NUMBER = 20_000, 12_000
_STEP = 7919
_tries = count()


def free_ports(wanted: int) -> list[int]:
    """Different ones in each call, and, most likely, in each process."""
    found: list[int] = []
    while len(found) < wanted:
        port = FIRST + (os.getpid() * _STEP + next(_tries)) % NUMBER
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found
