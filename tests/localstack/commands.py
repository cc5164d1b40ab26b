"""The `aws` and `sam` commands of a user, pointed at LocalStack."""

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_SECS = 600.0
QUIET = {"SAM_CLI_TELEMETRY": "0", "AWS_PAGER": "", "PYTHONWARNINGS": "ignore"}


class CommandFailed(Exception):
    """A command ended with another status than 0; the text has its output."""


@dataclass(frozen=True)
class Progress:
    """Prints what happens, each line with the seconds since the start."""

    started: float = field(default_factory=time.monotonic)

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.0f} s] {text}", flush=True)

    def wait_for(self, what: str, condition: Callable[[], object], timeout_secs: float = TIMEOUT_SECS) -> None:
        """Ask until `condition` is true. Raises TimeoutError."""
        self(f"waiting: {what}")
        deadline = time.monotonic() + timeout_secs
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not so after {timeout_secs:g} s")
            time.sleep(1)
        self(f"  so it is: {what}")


@dataclass(frozen=True)
class Commands:
    """`programs`: by name. `log`: gets the output of each."""

    programs: Mapping[str, Path]
    folder: Path
    environment: Mapping[str, str]
    log: Path
    progress: Progress

    def run(self, *words: str) -> str:
        """Run the command in `folder`, as a user would type it. Returns its output. Raises CommandFailed."""
        line = " ".join(words)
        started = time.monotonic()
        done = subprocess.run(
            [self.programs[words[0]], *words[1:]],
            cwd=self.folder,
            env={**self.environment, **QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECS,
            check=False,
        )
        with self.log.open("a") as log:
            log.write(f"$ {line}\n{done.stdout}\n")
        if done.returncode:
            raise CommandFailed(f"$ {line}\nended with status {done.returncode}:\n{done.stdout[-6000:]}")
        self.progress(f"$ {line}   ({time.monotonic() - started:.0f} s)")
        return done.stdout
