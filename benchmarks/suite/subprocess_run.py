"""Runs a measuring module in a new interpreter, and reads the background load around it."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import BackgroundLoad, busy_secs, load
from benchmarks.process import ContenderFailed
from blizzard.environment import variables

ROOT = Path(__file__).parents[2]


def run_module(module: str, *words: object) -> dict[str, Any]:
    """Runs `python -m module words…` and returns the JSON object that it prints, with `load_before` and `others_share`
    added. Raises ContenderFailed, with the end of stderr."""
    command = [sys.executable, "-m", module, *map(str, words)]
    before, began, busy, own = load(), time.monotonic(), busy_secs(), _own_secs()
    done = subprocess.run(command, cwd=ROOT, env=dict(variables()), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ContenderFailed(
            f"{' '.join(command[1:])}: expected exit code 0, found {done.returncode}; stderr ends with:\n"
            f"{done.stderr[-3000:]}"
        )
    cores_secs = len(os.sched_getaffinity(0)) * (time.monotonic() - began)
    others_secs = (busy_secs() - busy) - (_own_secs() - own)
    share = max(0.0, others_secs / max(cores_secs, 1e-9))
    answer: dict[str, Any] = json.loads(done.stdout)
    return {**answer, "load_before": before, "others_share": share}


def background_loads(runs: Sequence[dict[str, Any]]) -> list[BackgroundLoad]:
    return [BackgroundLoad(run["load_before"], run["others_share"]) for run in runs]


def _own_secs() -> float:
    """CPU seconds of this process and of ended children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def peak_bytes() -> int:
    """Peak resident memory of this process. `getrusage` would include the process that started it."""
    (kib,) = re.findall(r"^VmHWM:\s+([0-9]+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kib) * 1024
