"""Spark's daemon of Python workers, for workers that fall into a trap: `spark.python.daemon.module` names it."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import daemon

from spark_job.write.upload import ParquetUpload
from tests.proof.kill.jvm import TRAP


def set_trap(path: str, group: int, pid: int) -> None:
    """Whoever writes a part of a data file next kills the group, or if it is 0 the process."""
    unfinished = Path(f"{path}.{pid}")
    unfinished.write_text(json.dumps([group, pid]))
    unfinished.replace(path)


def _fall(trap: Path) -> None:
    with suppress(FileNotFoundError):
        text = trap.read_text()
        trap.unlink()  # of two workers one goes on
        group, pid = json.loads(text)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL) if group else os.kill(pid, signal.SIGKILL)


def install(trap: Path) -> None:
    whole: Callable[..., Any] = ParquetUpload.write_row_group

    def write_row_group(self: ParquetUpload, rows: Any) -> None:
        whole(self, rows)
        _fall(trap)

    ParquetUpload.write_row_group = write_row_group  # type: ignore[method-assign]


if __name__ == "__main__":
    if TRAP in os.environ:
        install(Path(os.environ[TRAP]))
    daemon.manager()
