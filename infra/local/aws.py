"""`make local-aws`: the shipped stack on this machine, until Ctrl-C. It prints where everything is.

Exit status 0 after Ctrl-C, 1 when it could not start.
"""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from blizzard.config import load_config
from blizzard.environment import variables
from blizzard.errors import BlizzardError
from infra.local.local_stack import LocalStack, local_stack
from infra.local.process import ACCESS_KEY_ID, CHECKOUT, REGION, SECRET_ACCESS_KEY

FOLDER = CHECKOUT / "build" / "local-aws"
CONFIG = CHECKOUT / "examples" / "s3-events.yaml"
POLL_SECS = 1.0
SOON = {"WakeWindowSecs": "2", "BatchingWindowSecs": "1", "DispatchSchedule": "rate(1 minute)", "BackoffSecs": "10"}
"""The shortest that the template allows or that makes sense with somebody watching; `--set` changes them."""


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with it ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parameters = SOON | dict(setting.partition("=")[::2] for setting in options.set)
    try:
        source = next(load_config(options.config, variables()).sources())[1].uri
        with local_stack(options.config, parameters=parameters, folder=FOLDER) as stack:
            _show(stack, source, as_json=options.json)
            _watch(stack, quiet=options.json)
    except KeyboardInterrupt:
        return 0
    except BlizzardError as error:
        print(f"local-aws: {error}", file=sys.stderr)
        return 1
    return 0


def endpoints(stack: LocalStack) -> dict[str, Any]:
    """What a client needs to know."""
    return {
        "endpoint": stack.aws.endpoint,
        "region": REGION,
        "access_key_id": ACCESS_KEY_ID,
        "secret_access_key": SECRET_ACCESS_KEY,
        "stack": stack.stack.name,
        "landing": f"s3://{stack.landing}/{stack.parameters.get('LandingPrefix', '')}",
        "lake": f"s3://{stack.lake}/",
        "folder": str(stack.folder),
        "parameters": dict(stack.parameters),
        "outputs": stack.outputs,
        "resources": stack.resources,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.local.aws", description=__doc__)
    parser.add_argument("--config", type=Path, default=CONFIG, help="configuration to publish; examples/s3-events.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the template")
    parser.add_argument("--json", action="store_true", help="one line of JSON when it is ready, and nothing else")
    return parser


def _show(stack: LocalStack, source: str, *, as_json: bool) -> None:
    found = endpoints(stack)
    if as_json:
        print(json.dumps(found), flush=True)
        return
    rows = [
        ("endpoint", found["endpoint"]),
        ("credentials", f"{ACCESS_KEY_ID} / {SECRET_ACCESS_KEY}, {REGION}"),
        ("landing", found["landing"]),
        ("lake", found["lake"]),
        ("logs", str(stack.folder / "logs")),
        *sorted((name, value) for name, value in found["resources"].items() if _is_telling(name)),
    ]
    console = Console(highlight=False, soft_wrap=True)
    if console.is_terminal:
        table = Table("what", "name", title=f"the stack {stack.stack.name} is up; Ctrl-C ends it", box=None)
        for what, name in rows:
            table.add_row(what, escape(name))
        console.print(table)
    else:
        for what, name in rows:
            print(f"{what:<24} {name}")
    for line in _hints(stack, source):
        console.print(escape(line), style="dim")
    sys.stdout.flush()


def _is_telling(name: str) -> bool:
    return name.endswith(("Queue", "Function", "Application"))


def _hints(stack: LocalStack, source: str) -> Iterator[str]:
    yield "a file for it:"
    yield f"  export AWS_ENDPOINT_URL={stack.aws.endpoint} AWS_REGION={REGION}"
    yield f"  export AWS_ACCESS_KEY_ID={ACCESS_KEY_ID} AWS_SECRET_ACCESS_KEY={SECRET_ACCESS_KEY}"
    yield f"  aws s3 cp FILE {source}date={time.strftime('%Y-%m-%d', time.gmtime())}/FILE"


def _watch(stack: LocalStack, *, quiet: bool) -> None:
    """Say what becomes of the job's runs, until a signal."""
    seen: dict[str, str] = {}
    while not threading.Event().wait(POLL_SECS):
        for run in reversed(stack.runs()):
            if seen.get(run["id"]) != run["state"]:
                seen[run["id"]] = run["state"]
                if not quiet:
                    details = run.get("stateDetails", "")
                    print(f"run {run['id']} of {run.get('name', '')}: {run['state']} {details}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
