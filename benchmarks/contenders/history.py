"""Blizzard in one process, commit after commit; and how large what it keeps becomes."""

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
    """Run number n announces the n-th `files_per_commit` files. Before that some are committed to a table of their own:
    commits of a JVM that starts would hide what grows later."""
    from benchmarks.contenders.long_running_job import LongRunningJob
    from benchmarks.contenders.session import session_of

    spark = session_of(work)
    table, each = Path(work.table(0)), work.settings["checkpoint"]["interval_files"]
    start = LongRunningJob(replace(work, out=f"{work.out}/start"), spark)
    for number in range(work.options["start"]):
        start.announce(work.data.paths[number * each : (number + 1) * each])
        start.drain()
    steady = LongRunningJob(work, spark)

    def run(number: int) -> dict[str, Any]:
        steady.announce(work.data.paths[number * each : (number + 1) * each])
        return {**steady.drain(), "segments": steady.segments(), **kept(table)}

    yield run


def kept(table: Path) -> dict[str, int]:
    """Of the log: files, newest version, newest one with a Delta checkpoint (-1: none); and bytes of the state."""
    names = [file.name for file in (table / "_delta_log").iterdir() if not file.name.startswith(".")]
    found = [(int(match[1]), match[2] == "json") for match in map(_VERSION.fullmatch, names) if match]
    return {
        "log_files": len(names),
        "version": max(version for version, is_commit in found if is_commit),
        "checkpoint_version": max((version for version, is_commit in found if not is_commit), default=-1),
        "state_bytes": (table / "_blizzard" / "events_landing_checkpoint.json").stat().st_size,
    }
