"""Whole processes, from their start to their exit."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contenders.session import JARS
from benchmarks.engine.old_table import Commits
from benchmarks.process import ROOT, ContenderFailed
from benchmarks.records import EVENT_SCHEMA
from benchmarks.resource_monitor import ResourceMonitor
from blizzard.environment import variables

COMMAND = "import sys; from blizzard.cli import main; sys.exit(main())"
"""As the installed script `blizzard` does."""


@dataclass(frozen=True, slots=True)
class Ended:
    secs: float
    peak_bytes: int


def timed(command: Sequence[str]) -> Ended:
    """Raises ContenderFailed unless it ends with 0."""
    os.sync()  # so that it does not wait for writes of the one before
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=dict(variables()), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with ResourceMonitor(process.pid) as watch:
        output, _ = process.communicate()
    secs = time.monotonic() - began
    if process.returncode != 0:
        raise ContenderFailed(f"{' '.join(command)}: exit code {process.returncode}; it said:\n{output[-3000:]}")
    return Ended(secs, watch.usage().peak_bytes)


def ingestion(config: Path, engine: str) -> list[str]:
    return [sys.executable, "-c", COMMAND, "run", str(config), "--once", "--engine", engine, "--jars", str(JARS)]


def loop(landing: Path, table: Path, processes: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.engine.deltalake_loop", str(landing), str(table), str(processes)]


def bare(landing: Path, folder: Path, processes: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.engine.bare_process", str(landing), str(folder), str(processes)]


def old_table_commits(table: Path, count: int) -> Commits:
    """In a new process, whose memory is measured. Raises ContenderFailed."""
    command = [sys.executable, "-m", "benchmarks.engine.old_table", str(table), str(count)]
    done = subprocess.run(command, cwd=ROOT, env=dict(variables()), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ContenderFailed(f"{' '.join(command)}: exit code {done.returncode}; it said:\n{done.stderr[-3000:]}")
    return Commits(**json.loads(done.stdout))


def config_of(folder: Path, landings: Mapping[str, Path]) -> Path:
    """One pipeline for each landing folder, with its table beside it."""
    pipelines = {
        name: {
            "table_uri": str(folder / "tables" / name),
            "partition_by": ["date"],
            "sources": {"landing": _source(landing)},
        }
        for name, landing in landings.items()
    }
    file = folder / "pipelines.yaml"
    file.write_text(json.dumps({"pipelines": pipelines}))
    return file


def _source(landing: Path) -> dict[str, Any]:
    return {
        "uri": str(landing),
        "schema": EVENT_SCHEMA,
        "pattern": "**/*.gz",
        "partition_columns": {"date": "DATE"},
        "settle_delay_secs": 0,
        "checkpoint": {"interval_files": 25_000, "interval_bytes": "1GiB"},
    }


def copied(paths: Sequence[Path], below: Path, to: Path) -> Path:
    """Hard links of some files of a data set, in the same folders."""
    for path in paths:
        target = to / path.relative_to(below)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)
    return to
