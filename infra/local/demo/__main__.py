"""Runs the demo.

Exit status 0: nothing missing, nothing doubled. 1: a record is missing or doubled, or the demo failed or timed out.
2: a wrong option. 130: interrupted.
"""

import sys
from collections.abc import Callable

from infra.local.processes.interrupts import run_interruptible


def _load() -> Callable[[], int]:
    from infra.local.demo.scenario import run

    return run


if __name__ == "__main__":
    sys.exit(run_interruptible(_load, 130))
