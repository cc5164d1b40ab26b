"""The command `make local-aws`."""

import sys
from collections.abc import Callable

from infra.local.processes.interrupts import run_interruptible


def _load() -> Callable[[], int]:
    from infra.local.stack.command import run

    return run


if __name__ == "__main__":
    sys.exit(run_interruptible(_load, 0))
