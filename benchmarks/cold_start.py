"""Import time of each Lambda function: `python -m benchmarks.cold_start [--json] [--runs N]`.

Each run is a new interpreter, with the files in the page cache, as in Lambda's initialization. It imports the handler's
module with `-X importtime`, which adds about a third to the time. A module's own time counts for its package, no matter
who imported it first; `rest` is the standard library. `plain` and `client` are measured without that option: the whole
import, and the creation of the first client, which also happens during Lambda's initialization.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = {
    "botocore": ("botocore", "boto3", "s3transfer", "urllib3", "dateutil", "six", "jmespath", "certifi"),
    "powertools": ("aws_lambda_powertools", "typing_extensions"),
    "blizzard": ("blizzard", "functions"),
}
TIMED = """
import time
start = time.perf_counter()
import {module}
imported = time.perf_counter()
from blizzard.storage.s3_connection import S3Settings, connection
connection(S3Settings(region="eu-west-1")).client
print(imported - start, time.perf_counter() - imported)
"""


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Milliseconds, medians over the runs: `total` and its parts with `-X importtime`, `plain` and `client` without."""

    handler: str
    total: float
    botocore: float
    powertools: float
    blizzard: float
    rest: float
    plain: float
    client: float


def handlers() -> list[str]:
    """Handler modules of all functions."""
    return [f"functions.{path.parent.name}.handler" for path in sorted((ROOT / "functions").glob("*/handler.py"))]


def measure(module: str, runs: int) -> ColdStart:
    _python("-c", f"import {module}")  # compiles the modules and fills the page cache
    traced = [parts_of(_python("-X", "importtime", "-c", f"import {module}").stderr, module) for _ in range(runs)]
    timed = [_python("-c", TIMED.format(module=module)).stdout.split() for _ in range(runs)]
    parts = {name: statistics.median(run[name] for run in traced) for name in ("total", *PARTS, "rest")}
    plain, client = (statistics.median(1000 * float(run[column]) for run in timed) for column in (0, 1))
    return ColdStart(module.split(".")[1], **parts, plain=plain, client=client)


def parts_of(trace: str, module: str) -> dict[str, float]:
    """Milliseconds by part, from the output of `-X importtime`: one line per module, written when its import ends.
    Modules up to `site` are the interpreter's own start and do not count."""
    rows = [line.removeprefix("import time:").split("|") for line in trace.splitlines() if line.count("|") == 2]
    imported = [(name.strip(), int(own) / 1000) for own, _, name in rows if own.strip().isdigit()]
    names = [name for name, _ in imported]
    found = dict.fromkeys([*PARTS, "rest"], 0.0)
    for name, own in imported[names.index("site") + 1 : names.index(module) + 1]:
        found[_part(name)] += own
    return {"total": sum(found.values()), **found}


def _part(module: str) -> str:
    package = module.partition(".")[0]
    return next((part for part, packages in PARTS.items() if package in packages), "rest")


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "PATH": "/usr/bin:/bin"}
    words = [sys.executable, *arguments]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.cold_start", description="Measure the import time of each Lambda function."
    )
    parser.add_argument("--runs", type=int, default=7, help="runs per handler, each in a new interpreter")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    measured = [asdict(measure(module, options.runs)) for module in handlers()]
    if options.json:
        print(json.dumps(measured, indent=1))
        return
    columns = list(measured[0])
    print("milliseconds  " + "".join(f"{column:>12}" for column in columns[1:]))
    for row in measured:
        print(f"{row['handler']:<14}" + "".join(f"{row[column]:12.0f}" for column in columns[1:]))


if __name__ == "__main__":
    main()
