"""A piece of Python in an interpreter of its own: how long it says it took, and the most memory that it ever had."""

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
    """What `python -m module words…` prints as JSON, with the load before it and others' share of the cores. Raises
    ContenderFailed, with what it said on stderr."""
    command = [sys.executable, "-m", module, *map(str, words)]
    before, began, busy, own = load(), time.monotonic(), busy_secs(), _own_secs()
    done = subprocess.run(command, cwd=ROOT, env=dict(variables()), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ContenderFailed(f"{' '.join(command[1:])} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    cores_secs = len(os.sched_getaffinity(0)) * (time.monotonic() - began)
    others_secs = (busy_secs() - busy) - (_own_secs() - own)
    share = max(0.0, others_secs / max(cores_secs, 1e-9))
    answer: dict[str, Any] = json.loads(done.stdout)
    return {**answer, "load_before": before, "others_share": share}


def around(runs: Sequence[dict[str, Any]]) -> list[BackgroundLoad]:
    return [BackgroundLoad(run["load_before"], run["others_share"]) for run in runs]


def _own_secs() -> float:
    """Of processors, this process and those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def peak_bytes() -> int:
    """The most memory that this process ever had. `getrusage` would count that of the process which started it."""
    (kib,) = re.findall(r"^VmHWM:\s+([0-9]+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kib) * 1024
