"""A trap for whoever writes a data file: in Spark's Python workers, in the local engine's job, and in the processes
that read beside it."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from blizzard.processes import Call, ReadingProcesses
from spark_job.write.upload import ParquetUpload

_installed: set[Path] = set()
"""Of this process."""


def set_trap(path: str, group: int, pid: int) -> None:
    """Whoever writes a part of a data file next kills the group, or if it is 0 the process."""
    unfinished = Path(f"{path}.{pid}")
    unfinished.write_text(json.dumps([group, pid]))
    unfinished.replace(path)


def _fall(trap: Path) -> None:
    with suppress(FileNotFoundError):
        text = trap.read_text()
        trap.unlink()  # of two who write one goes on
        group, pid = json.loads(text)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL) if group else os.kill(pid, signal.SIGKILL)


def install(trap: Path) -> None:
    """In this process, once."""
    if trap in _installed:
        return
    _installed.add(trap)
    whole: Callable[..., Any] = ParquetUpload.write_row_group

    def write_row_group(self: ParquetUpload, rows: Any) -> None:
        whole(self, rows)
        _fall(trap)

    ParquetUpload.write_row_group = write_row_group  # type: ignore[method-assign]


def hand_to_reading_processes(trap: str) -> None:
    """To those of this process, and this process when it reads itself."""
    whole = ReadingProcesses.map

    def map_trapped(
        self: ReadingProcesses, call: Call, parts: Any, answered: Callable[[str], None] | None = None
    ) -> list[str]:
        return whole(self, Trapped(call, trap), parts, answered)

    ReadingProcesses.map = map_trapped  # type: ignore[method-assign]


class Trapped:
    """A call that takes its trap along to the process that makes it."""

    def __init__(self, call: Call, trap: str) -> None:
        self._call = call
        self._trap = trap

    def __call__(self, part: str) -> str:
        install(Path(self._trap))
        return self._call(part)
