"""`make stop` pauses a deployed stack and stops its EMR Serverless application, which then takes a change."""

import argparse
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from blizzard.errors import BlizzardError
from infra.command_errors import print_error
from infra.deployed.calls import operators_clients
from infra.stop.stop import Waiting, stop

TIMEOUT_MINUTES = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: it is stopped; 1: it is not; 2: an option, credentials or a right of theirs is wrong."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        with console.status("looking at the stack") as status:
            waiting = Waiting(time.monotonic, time.sleep, status.update, options.timeout_minutes * 60)
            application = stop(options.stack, operators_clients(), waiting, cancel=options.cancel)
    except BlizzardError as error:
        return print_error("stop", error)
    print(f"stopped: application {application}; the stack {options.stack} starts no runs")
    print('next: change what only a stopped application takes, with Dispatching="on", in one deployment')
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.stop", description=__doc__)
    parser.add_argument("--stack", required=True, help="name of the stack")
    parser.add_argument("--cancel", action="store_true", help="cancel active runs instead of waiting for their end")
    parser.add_argument(
        "--timeout-minutes", type=float, default=TIMEOUT_MINUTES, help="how long to wait (default: %(default)g)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
