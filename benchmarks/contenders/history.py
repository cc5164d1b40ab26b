"""A long-running Blizzard job that reports the size of its log and state after each commit."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.contenders import Run, Work

TITLE = "Blizzard"
UNSUPPORTED: dict[str, str] = {}
_VERSION = re.compile(r"([0-9]{20})\.(json|checkpoint.*parquet|checkpoint.*json)")


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    """Each run announces and commits the files of one commit. Before the first run, some commits go to a separate
    table, because the slow first commits of a JVM would hide later growth."""
    from benchmarks.contenders.long_running_job import LongRunningJob
    from benchmarks.contenders.session import session_of

    spark = session_of(work)
    table, each = Path(work.table(0)), work.settings["checkpoint"]["interval_files"]
    warm_up = LongRunningJob(replace(work, out=f"{work.out}/start"), spark)
    for number in range(work.options["start"]):
        warm_up.announce(work.data.paths[number * each : (number + 1) * each])
        warm_up.drain()
    job = LongRunningJob(work, spark)

    def run(number: int) -> dict[str, Any]:
        job.announce(work.data.paths[number * each : (number + 1) * each])
        return {**job.drain(), "segments": job.segments(), **sizes_of(table)}

    yield run


def sizes_of(table: Path) -> dict[str, int]:
    """Files in the log, newest version, newest version with a Delta checkpoint (-1: none), and bytes of the state."""
    names = [file.name for file in (table / "_delta_log").iterdir() if not file.name.startswith(".")]
    found = [(int(match[1]), match[2] == "json") for match in map(_VERSION.fullmatch, names) if match]
    return {
        "log_files": len(names),
        "version": max(version for version, is_commit in found if is_commit),
        "checkpoint_version": max((version for version, is_commit in found if not is_commit), default=-1),
        "state_bytes": (table / "_blizzard" / "events_landing_checkpoint.json").stat().st_size,
    }
