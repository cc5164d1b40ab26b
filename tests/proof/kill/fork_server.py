"""The campaign's side of the fork server: starts processes, waits for them and kills them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from blizzard.environment import variables
from infra.local.processes.checkout import CHECKOUT

KILLED = -signal.SIGKILL


class ForkedProcess:
    """A process that was forked for one piece of work."""

    def __init__(self, fork_server: "ForkServer", pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self._fork_server = fork_server

    def wait(self) -> int:
        """Returns KILLED or the exit status."""
        return int(self._fork_server.ask({"wait": self.pid})["ended"])

    def kill(self) -> None:
        """Only this process, not its group."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def kill_group(self) -> None:
        """For a process that leads its own group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def events(self) -> list[dict[str, Any]]:
        """Its log events, without an incomplete last line."""
        found = []
        for line in self.log.read_text().splitlines() if self.log.exists() else ():
            with suppress(ValueError):
                found.append(json.loads(line))
        return [event for event in found if isinstance(event, dict) and "event" in event]


class ForkServer:
    """Imports `modules` once, for all forked processes. As a context manager, it kills all of them at the end of the
    block."""

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._count = 0
        self._errors = (folder / "server.err").open("w")
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.proof.kill.fork_server_process", *modules],
            cwd=CHECKOUT,
            env={**variables(), "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.kill()  # its forked processes end with it
        self._server.wait()
        self._errors.close()

    def start(
        self, call: str, *, environment: Mapping[str, str] | None = None, group: int = 0, **given: Any
    ) -> ForkedProcess:
        """`call`: `module:function`, called with `given`. `group`: see `fork_server_process`."""
        self._count += 1
        log = self._folder / f"process-{self._count:05d}.log"
        told = {
            "call": call,
            "given": given,
            "environment": {**(environment or {})},
            "group": group,
            "log": str(log),
        }
        return ForkedProcess(self, int(self.ask({"start": told})["pid"]), log)

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(command) + "\n")
        self._server.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise RuntimeError(f"the fork server has exited: {Path(self._errors.name).read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer
