"""Starts lives and ends them, from the campaign's side."""

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


class Life:
    """A process that was forked for one piece of work."""

    def __init__(self, lives: "Lives", pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self._lives = lives

    def wait(self) -> int:
        """How it ended: KILLED, or its exit status."""
        return int(self._lives.ask({"wait": self.pid})["ended"])

    def kill(self) -> None:
        """Of whatever group it is, only this process."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def kill_group(self) -> None:
        """For a life that leads a group of its own."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def events(self) -> list[dict[str, Any]]:
        """What it logged; its last line may be torn."""
        found = []
        for line in self.log.read_text().splitlines() if self.log.exists() else ():
            with suppress(ValueError):
                found.append(json.loads(line))
        return [event for event in found if isinstance(event, dict) and "event" in event]


class Lives:
    """`modules` are imported once, for all lives. As a context manager: nobody outlives the block."""

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._count = 0
        self._errors = (folder / "server.err").open("w")
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.proof.kill.process", *modules],
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
        self._server.kill()  # and with it all that it has forked
        self._server.wait()
        self._errors.close()

    def start(self, call: str, *, environment: Mapping[str, str] | None = None, group: int = 0, **given: Any) -> Life:
        """`call`: `module:function`, which gets `given`. `group`: see kill_process."""
        self._count += 1
        log = self._folder / f"life-{self._count:05d}.log"
        told = {
            "call": call,
            "given": given,
            "environment": {**(environment or {})},
            "group": group,
            "log": str(log),
        }
        return Life(self, int(self.ask({"start": told})["pid"]), log)

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(command) + "\n")
        self._server.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise RuntimeError(f"the server of lives is gone: {Path(self._errors.name).read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer
