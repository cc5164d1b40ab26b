"""A piece of Python in an interpreter of its own: how long it says it took, and the most memory that it ever had."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.process import ContenderFailed
from blizzard.environment import variables

ROOT = Path(__file__).parents[2]


def fresh(module: str, *words: object) -> dict[str, Any]:
    """What `python -m module words…` prints as JSON. Raises ContenderFailed, with what it said on stderr."""
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, env=dict(variables()), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ContenderFailed(f"{' '.join(command[1:])} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def peak_bytes() -> int:
    """The most memory that this process ever had. `getrusage` would count that of the process which started it."""
    (kib,) = re.findall(r"^VmHWM:\s+([0-9]+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kib) * 1024
