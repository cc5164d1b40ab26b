"""`make local-aws`: runs the shipped stack on this machine until Ctrl-C, and prints where everything is.

Exit status 0 after Ctrl-C, 1 when it could not start, 2 when the configuration or an option is wrong.
"""

import argparse
import json
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from blizzard.config.model import Config
from blizzard.errors import BlizzardError
from infra.command_errors import print_error
from infra.local.deploy.checks import check_folder, check_options
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY
from infra.local.stack.example_file import example_file
from infra.local.stack.folder import FOLDER
from infra.local.stack.local_stack import LocalStack, local_stack

CONFIG = CHECKOUT / "examples" / "s3-events.yaml"
POLL_SECS = 1.0
FAST_PARAMETERS = {
    "WakeWindowSecs": "2",
    "BatchingWindowSecs": "1",
    "DispatchSchedule": "rate(1 minute)",
    "BackoffSecs": "10",
}
"""The shortest times that the template allows or that make sense interactively; `--set` overrides them."""


def run() -> int:
    options = _parser().parse_args()
    folder = options.folder.absolute()
    try:
        config, parameters = check_options(options.config, options.set, FAST_PARAMETERS)
        if folder != FOLDER:
            check_folder(folder)
        report_progress = _ignore if options.json else _print
        with local_stack(
            options.config, parameters=parameters, folder=folder, report_progress=report_progress
        ) as stack:
            _show(stack, config, options.config, as_json=options.json)
            _watch(stack, quiet=options.json)
    except KeyboardInterrupt:
        return 0
    except BlizzardError as error:
        return print_error("local-aws", error)
    return 0


def endpoints(stack: LocalStack) -> dict[str, Any]:
    """What a client needs to use the stack; the output of `--json`."""
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
    parser.add_argument(
        "--config", type=Path, default=CONFIG, help="configuration to publish (default: examples/s3-events.yaml)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter of the template; may be repeated",
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="for logs and other files (default: build/local-aws)"
    )
    parser.add_argument("--json", action="store_true", help="print only one line of JSON, when the stack is ready")
    return parser


def _print(text: str) -> None:
    print(text, flush=True)


def _ignore(_: str) -> None:
    return


def _show(stack: LocalStack, config: Config, file: Path, *, as_json: bool) -> None:
    found = endpoints(stack)
    if as_json:
        print(json.dumps(found), flush=True)
        return
    rows = [
        ("endpoint", found["endpoint"]),
        ("credentials", f"{ACCESS_KEY_ID} / {SECRET_ACCESS_KEY}, {REGION}"),
        ("landing", found["landing"]),
        ("lake", found["lake"]),
        ("logs", _short(stack.folder / "logs")),
        *sorted((name, value) for name, value in found["resources"].items() if _is_of_interest(name)),
    ]
    print(f"the stack {stack.stack.name} is up; Ctrl-C ends it")
    for what, name in rows:
        print(f"{what:<24} {name}")
    for line in _hints(stack, config, file):
        print(line)
    sys.stdout.flush()


def _short(path: Path) -> str:
    """Relative to the current folder, if it is below."""
    path = path.absolute()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _is_of_interest(name: str) -> bool:
    return name.endswith(("Queue", "Function", "Application"))


def _hints(stack: LocalStack, config: Config, file: Path) -> Iterator[str]:
    where = "" if stack.folder == FOLDER else f" --folder {shlex.quote(_short(stack.folder))}"
    yield ""
    for _, source in islice(config.file_sources(), 1):
        example = example_file(source, time.time())
        yield f"in a second terminal, in this folder, a file for {source.id}:"
        yield f"  {example.command}"
        yield f"  .venv/bin/python -m infra.local.drop {example.name}{where} \\"
        yield f"    --as {shlex.quote(example.key)}"
    yield "in a second terminal, where it stands:"
    yield f"  export AWS_ENDPOINT_URL={stack.aws.endpoint} AWS_REGION={REGION}"
    yield f"  export AWS_ACCESS_KEY_ID={ACCESS_KEY_ID} AWS_SECRET_ACCESS_KEY={SECRET_ACCESS_KEY}"
    yield f"  .venv/bin/blizzard status {shlex.quote(_short(file))}"
    yield ""


def _watch(stack: LocalStack, *, quiet: bool) -> None:
    """Print state changes of the job's runs until a signal."""
    seen: dict[str, str] = {}
    while not threading.Event().wait(POLL_SECS):
        for run in reversed(stack.runs()):
            if seen.get(run["id"]) != run["state"]:
                seen[run["id"]] = run["state"]
                if not quiet:
                    details = run.get("stateDetails", "")
                    print(f"run {run['id']} of {run.get('name', '')}: {run['state']} {details}".rstrip(), flush=True)
