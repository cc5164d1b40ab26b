"""A contender's process: started, watched, and gone with everything that it started."""

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
    """A contender's process did not end well."""


class Runner(Protocol):
    """What does a contender's runs, and says what they answered and what they took (`run_process`)."""

    def __call__(
        self, work: Work, folder: Path, environment: Mapping[str, str], tick: Callable[[], None] = ...
    ) -> tuple[list[dict[str, Any]], ResourceUsage]: ...


def run_process(
    work: Work, folder: Path, environment: Mapping[str, str], tick: Callable[[], None] = lambda: None
) -> tuple[list[dict[str, Any]], ResourceUsage]:
    """What each run answered. `tick` is called now and then meanwhile. Raises ContenderFailed."""
    task, answer, said = (folder / name for name in ("work.json", "answer.json", "said.log"))
    words = [sys.executable, "-m", "benchmarks.contenders", str(task), str(answer)]
    task.write_text(replace(work, started=time.monotonic()).to_json())
    with said.open("w") as log:
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
        ended = f"{work.contender} on {work.data.name} ended with {process.returncode}"
        raise ContenderFailed(f"{ended}:\n{said.read_text()[-3000:]}")
    return json.loads(answer.read_text()), watch.usage()


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole group, such as a JVM that outlives its Python."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def scratch() -> Path:
    """Where this process's contenders write: on the same disk as the data, gone afterwards."""
    folder = SCRATCH / str(os.getpid())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def clear_scratch() -> None:
    """With what processes left that were killed; another one's that still runs stays."""
    for folder in SCRATCH.glob("*"):
        if folder.name == str(os.getpid()) or not Path("/proc", folder.name).exists():
            shutil.rmtree(folder, ignore_errors=True)
