"""`make local-aws`: begins `aws_command`."""

import sys
from collections.abc import Callable

from infra.local.entry import entered


def _command() -> Callable[[], int]:
    from infra.local.stack.command import run

    return run


if __name__ == "__main__":
    sys.exit(entered(_command, 0))
