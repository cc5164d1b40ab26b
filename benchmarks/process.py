"""Runs a contender in its own process, measures its resource usage, and kills its whole process group at the end."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from benchmarks.contenders import Work
from benchmarks.resource_monitor import ResourceMonitor, ResourceUsage
from blizzard.environment import variables

ROOT = Path(__file__).parents[1]
SCRATCH = ROOT / ".cache" / "bench" / "runs"
TICK_SECS = 2.0


class ContenderFailed(Exception):
    """A contender's process failed."""


class Runner(Protocol):
    """Executes the runs of a contender, as `run_process` does; tests replace it."""

    def __call__(
        self, work: Work, folder: Path, environment: Mapping[str, str], tick: Callable[[], None] = ...
    ) -> tuple[list[dict[str, Any]], ResourceUsage]: ...


def run_process(
    work: Work, folder: Path, environment: Mapping[str, str], tick: Callable[[], None] = lambda: None
) -> tuple[list[dict[str, Any]], ResourceUsage]:
    """Returns each run's result and the resource usage. `tick` is called every few seconds. Raises ContenderFailed."""
    task, answer, log_file = (folder / name for name in ("work.json", "answer.json", "output.log"))
    words = [sys.executable, "-m", "benchmarks.contenders", str(task), str(answer)]
    task.write_text(replace(work, started=time.monotonic()).to_json())
    with log_file.open("w") as log:
        process = subprocess.Popen(
            words, cwd=ROOT, env={**variables(), **environment}, stdout=log, stderr=log, start_new_session=True
        )
        with ResourceMonitor(process.pid) as watch:
            try:
                while process.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(TICK_SECS)
                    tick()
            finally:
                _end(process)
    if process.returncode != 0:
        ended = f"{work.contender} on {work.data.name}: expected exit code 0, found {process.returncode}"
        raise ContenderFailed(f"{ended}; its output ends with:\n{log_file.read_text()[-3000:]}")
    return json.loads(answer.read_text()), watch.usage()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process group: a JVM can outlive its Python process."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def scratch() -> Path:
    """Where contenders of this process write: on the same disk as the data. `clear_scratch` removes it."""
    folder = SCRATCH / str(os.getpid())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def clear_scratch() -> None:
    """Also removes what killed processes left. Folders of processes that still run stay."""
    for folder in SCRATCH.glob("*"):
        if folder.name == str(os.getpid()) or not Path("/proc", folder.name).exists():
            shutil.rmtree(folder, ignore_errors=True)
