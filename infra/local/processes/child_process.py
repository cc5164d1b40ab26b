"""A Python module run as a child process whose JSON output lines are read as events."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from blizzard.environment import variables
from infra.local.processes.checkout import CHECKOUT

STOP_TIMEOUT_SECS = 15.0


class ChildProcess:
    """Leads a process group of its own. As a context manager it stops the whole group at the end of the block.

    `command`: the module and its arguments. `environment` extends this process's own. Output goes to `log`. `events`
    gets each line of standard output that is a JSON object.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self._log: IO[str] = log.open("a", buffering=1)
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=CHECKOUT,
            env={**variables(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self.events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._log.write(line)
            if line.startswith("{"):
                self.events.put(json.loads(line))

    @property
    def exit_status(self) -> int | None:
        """None while the process runs."""
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL to the whole group, so that no signal handler runs."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, then SIGKILL after STOP_TIMEOUT_SECS. A second Ctrl-C does not interrupt this."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_SECS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._signal(signal.SIGKILL)  # what is left of the group, such as a JVM that is shutting down
        self._reader.join(10)
        self._log.close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return
