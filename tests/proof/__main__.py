"""The proof that nothing is lost and nothing is doubled: `python -m tests.proof [NAME …]`, or `make prove`.

Without names it runs every campaign. docs/proof.md says what each does.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.version import version
from tests.proof.campaign import FILES, SPARK_SHARE, untried
from tests.proof.campaigns import MODULES, known, load
from tests.proof.outcome import End, Outcome
from tests.proof.report import all_good, as_json, as_markdown
from tests.proof.separate_process import Task, run_apart
from tests.proof.view import View

MINUTES = 30.0
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: everything passed; 1: a campaign failed, or did not find a deliberate fault; 130: Ctrl-C."""
    options = _options(arguments)
    planned = [(name, variant) for name in options.names for variant in _variants(name, options)]
    begun = version()
    outcomes = _run(planned, options)
    of = asdict(begun) if begun else None
    where = {**machine(), "version": of, "seed": options.seed, "minutes": options.minutes}
    report = as_markdown(where, outcomes)
    if options.json:
        options.json.write_text(json.dumps(as_json(where, outcomes), indent=1) + "\n")
    if options.report:
        options.report.write_text(report)
    print(report, end="")
    if not all_good(outcomes):
        return 1
    return INTERRUPTED if any(outcome.end is End.INTERRUPTED for outcome in outcomes) else 0


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description="Nothing lost, nothing doubled.")
    there = ", ".join(known())
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {there}; all without")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for all together, shared equally (%(default)g)")
    parser.add_argument(
        "--files",
        type=int,
        default=FILES,
        help="engines ends after so many, and formats after so many of each format (%(default)d)",
    )
    parser.add_argument(
        "--spark-share",
        type=float,
        default=SPARK_SHARE,
        help="of kafka: so many of its rounds are on Spark (%(default)g)",
    )
    parser.add_argument("--seed", type=int, help="repeats a run; without, another one each time")
    parser.add_argument("--variants", action="store_true", help="run each against what is broken on purpose instead")
    parser.add_argument("--variant", metavar="NAME", help="run against this one alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every outcome with its counts")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the report that is printed, as Markdown")
    options = parser.parse_args(arguments)
    _refuse_wrong(parser, options)
    options.names = list(dict.fromkeys(options.names)) or known()
    if options.variant is not None:
        options.names = [name for name in options.names if options.variant in load(MODULES[name]).variants]
        if not options.names:
            parser.error(f"--variant {options.variant!r}: expected one of docs/proof.md that these campaigns find")
    options.seed = int(time.time()) if options.seed is None else options.seed
    return options


def _refuse_wrong(parser: argparse.ArgumentParser, options: Any) -> None:
    unknown = [name for name in options.names if name not in known()]
    if unknown:
        parser.error(f"no campaign {', '.join(unknown)}: expected some of {', '.join(known())}")
    if not 0 < options.minutes < float("inf"):
        parser.error(f"--minutes {options.minutes:g}: expected a number above 0")
    if options.files < 1:
        parser.error(f"--files {options.files}: expected a number above 0")
    if not 0 <= options.spark_share <= 1:
        parser.error(f"--spark-share {options.spark_share:g}: expected a number from 0 to 1")
    for file in filter(None, (options.json, options.report)):
        if not file.absolute().parent.is_dir():
            parser.error(f"{file}: expected a file in a folder that is there")


def _variants(name: str, options: Any) -> list[str]:
    if options.variant is not None:
        return [options.variant]
    return [*load(MODULES[name]).variants] if options.variants else [""]


def _run(planned: Sequence[tuple[str, str]], options: Any) -> list[Outcome]:
    """One after the other. Each gets an equal share of the minutes that are left."""
    outcomes: list[Outcome] = []
    until_ts = time.monotonic() + options.minutes * 60
    titles = [f"{name}: {variant}" if variant else name for name, variant in planned]
    with View(titles) as view:
        for number, (name, variant) in enumerate(planned):
            share = max(0.0, until_ts - time.monotonic()) / 60 / (len(planned) - number)
            view.begin(titles[number], share)
            with tempfile.TemporaryDirectory(prefix=f"proof-{name}-") as folder:
                task = Task(name, MODULES[name], variant, options.seed, share, options.files, options.spark_share)
                outcome = run_apart(task, Path(folder), view.said)
            if not variant and outcome.end in (End.PASSED, End.INTERRUPTED):
                outcome = replace(outcome, untried=untried(load(MODULES[name]), outcome.counts))
            view.end(outcome)
            outcomes.append(outcome)
            if outcome.end is End.INTERRUPTED:
                break
    return outcomes


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
