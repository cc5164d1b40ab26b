"""`make probe` starts one tiny run in a stack's application, and says whether the account has what the job needs."""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex

from blizzard.errors import BlizzardError
from infra.command_errors import print_error
from infra.deployed.calls import Clients, operators_clients
from infra.probe.log_lines import wait_for_line
from infra.probe.report import Report
from infra.probe.run import probe_request, start_run, wait_for_end
from infra.probe.stack import read_settings
from infra.probe.verdict import problems_of

RUN_SECS, LOG_SECS = 1200.0, 120.0
FAILED_RUN_LOG_SECS = 30.0
"""For the lines of a run that failed, which may have none."""
OnState = Callable[[str, float], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: all is well; 1: something is wrong, as the report says; 2: it could not be found out, since an
    option, credentials or a right of theirs is wrong."""
    options = _parser().parse_args(arguments)
    try:
        clients = operators_clients()
        with _progress() as on_state:
            report = probe(clients, options.stack, run_secs=options.secs, log_secs=options.log_secs, on_state=on_state)
    except BlizzardError as error:
        return print_error("probe", error)
    print(json.dumps(report.to_dict()) if options.json else "\n".join(report.lines()))
    return 1 if report.problems else 0


def probe(clients: Clients, stack: str, *, run_secs: float, log_secs: float, on_state: OnState) -> Report:
    """Start a run, wait for its end and its line. Raises BlizzardError."""
    settings, since_ts = read_settings(clients, stack), time.time()
    probe_id = f"{int(since_ts):x}-{token_hex(4)}"
    application_id, group = settings.application_id, settings.log_group
    run_id = start_run(clients, probe_request(settings, stack=stack, probe_id=probe_id))
    run = wait_for_end(clients, application_id, run_id, max_secs=run_secs, on_state=on_state)
    succeeded = run.state == "SUCCESS"
    patience = 0.0 if not run.has_ended else log_secs if succeeded else min(log_secs, FAILED_RUN_LOG_SECS)
    on_state("reading its log", run.secs)
    log = wait_for_line(clients, group, probe_id, since_ts=since_ts, max_secs=patience, expected=succeeded)
    problems = problems_of(run, log, log_group=group, application_id=application_id, log_secs=log_secs)
    return Report(stack, application_id, group, run, log, problems)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.probe", description=__doc__)
    parser.add_argument("--stack", required=True, help="name of the stack, as `sam deploy` asked for it")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument(
        "--secs", type=_secs, default=RUN_SECS, help=f"how long to wait for the run's end (default: {RUN_SECS:g})"
    )
    parser.add_argument(
        "--log-secs", type=_secs, default=LOG_SECS, help=f"and then for its log lines (default: {LOG_SECS:g})"
    )
    return parser


def _secs(text: str) -> float:
    secs = float(text)
    if not 0 <= secs < math.inf:
        raise ValueError(text)
    return secs


@contextmanager
def _progress() -> Iterator[OnState]:
    """On a terminal, a line that shows the state of the run."""
    if not sys.stderr.isatty():
        yield lambda state, secs: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading the stack") as status:
        yield lambda state, secs: status.update(f"{state} ({secs:.0f} s)")


if __name__ == "__main__":
    sys.exit(main())
