"""`python -m tests.unit.killed_run …`: the job, which kills itself right after its first commit."""

import os
import signal
from typing import Any

from blizzard.log import JsonLog

_whole = JsonLog.__call__


def _log(self: JsonLog, event: str, /, **fields: Any) -> None:
    _whole(self, event, **fields)
    if event == "batch_committed":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    JsonLog.__call__ = _log  # type: ignore[method-assign]
    from spark_job.main import main
    from spark_job.start import end_process

    end_process(main())
