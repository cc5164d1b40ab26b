"""Runs commands whose output matters only when they fail."""

import subprocess
from collections.abc import Mapping, Sequence

from blizzard.errors import SetupError

LAST_LINES = 15


def run_command(what: str, command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
    """`what` names the step in the error; `environ` is the whole environment, None this process's. Raises SetupError
    with the last lines of the output."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environ
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        raise SetupError(f"{what} failed with status {done.returncode}; its last lines:\n{tail}")
