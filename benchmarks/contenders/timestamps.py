"""When, within a run, something happened, and what was worked until then: noted by a contender, for its report."""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.contenders import Work
from benchmarks.resource_monitor import cpu_secs, tree_cpu_secs

S = TypeVar("S")
SERVER_PID = "server_pid"
"""Of `Work.options`: whose processor time is noted beside the job's own; 0 where there is no server."""


class Timestamps:
    """`at`: by name, monotonic seconds of the first time."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def note(self, name: str) -> None:
        self.at.setdefault(name, time.monotonic())

    def noting_session(self, session: Callable[[], S]) -> Callable[[], S]:
        """The same session; when it is first there, is noted."""

        def noted() -> S:
            found = session()
            self.note("session")
            return found

        return noted


def cpu_secs_so_far(work: Work) -> dict[str, Any]:
    """Seconds of processors so far, of this process with all that it started, and of the server, where they are asked
    for: they are looked up in /proc."""
    if SERVER_PID not in work.options:
        return {}
    server = work.options[SERVER_PID]
    return {"cpu_secs": tree_cpu_secs(os.getpid()), "server_cpu_secs": cpu_secs(server) if server else 0.0}
