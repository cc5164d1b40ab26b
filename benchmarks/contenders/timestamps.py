"""Times and CPU usage at points of a run, recorded by a contender for the report."""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.contenders import Work
from benchmarks.resource_monitor import cpu_secs, tree_cpu_secs

S = TypeVar("S")
SERVER_PID = "server_pid"
"""Key of `Work.options`: process id of the server whose CPU time is recorded too; 0 if there is no server."""


class Timestamps:
    """`at`: monotonic seconds of the first `note` of each name."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def note(self, name: str) -> None:
        self.at.setdefault(name, time.monotonic())

    def noting_session(self, session: Callable[[], S]) -> Callable[[], S]:
        """Wraps the function and notes `session` when it first returns."""

        def noted() -> S:
            found = session()
            self.note("session")
            return found

        return noted


def cpu_secs_so_far(work: Work) -> dict[str, Any]:
    """CPU seconds so far of this process with its descendants, and of the server. Empty unless SERVER_PID is set,
    because reading /proc takes time."""
    if SERVER_PID not in work.options:
        return {}
    server = work.options[SERVER_PID]
    return {"cpu_secs": tree_cpu_secs(os.getpid()), "server_cpu_secs": cpu_secs(server) if server else 0.0}
