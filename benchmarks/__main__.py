"""Run benchmarks and report them: `python -m benchmarks [NAME …]`, or `make bench`.

Without names all benchmarks run; at full size `small` alone takes an hour on two cores. The table of every run of a
contender is verified. A wrong table fails the whole command.
"""

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.chart import chart
from benchmarks.machine import machine
from benchmarks.process import ContenderFailed, clear_scratch
from benchmarks.progress import Progress
from benchmarks.published_results import CannotPublish, Documents, as_json, merge_results, publish, read_results
from benchmarks.report import as_markdown, as_text
from benchmarks.result import Result
from benchmarks.run_options import RunOptions
from benchmarks.suite import BENCHMARKS, run
from benchmarks.verify import WrongResult


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code. 0: all benchmarks ran, whether or not goals were met; 1: a contender failed or wrote a
    wrong table; 2: invalid input. Results of benchmarks that ended before a failure are in the file of `--json`."""
    options = _options(arguments)
    try:
        where, results = merge_results([*map(read_results, options.read)]) if options.read else _measured(options)
        if options.json and not options.read:
            where, results = read_results(options.json)
        if options.keep:
            publish(Documents(options.keep), where, results)
    except (WrongResult, ContenderFailed) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except CannotPublish as error:
        print(error, file=sys.stderr)
        return 2
    if options.svg:
        options.svg.write_text(chart(results))
    print((as_markdown if options.markdown else as_text)(where, results), end="")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure Blizzard and the alternatives to it.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"benchmarks to run (default: all): {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data; 1: full, 0.01: smoke test")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender")
    parser.add_argument(
        "--cores", type=int, default=len(os.sched_getaffinity(0)), help="CPU cores to use (default: all)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the results, with all numbers, to FILE")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the chart of big and small to FILE")
    parser.add_argument("--markdown", action="store_true", help="print the report in the form of docs/performance.md")
    parser.add_argument(
        "--read",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="run nothing; report the results that --json wrote; a later FILE replaces results of an earlier one",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="write the reported results to FILE (docs/performance.json) and regenerate the documents next to it",
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"{', '.join(unknown)}: expected names of benchmarks: {', '.join(BENCHMARKS)}")
    if options.scale <= 0 or options.rounds < 1 or not 0 < options.cores <= len(os.sched_getaffinity(0)):
        parser.error(
            "expected --scale above 0, --rounds of at least 1, --cores of at most those that this process may use"
        )
    return options


def _measured(options: argparse.Namespace) -> tuple[Mapping[str, Any], list[Result]]:
    """Sets the CPU affinity first, so that the JVM and all workers use the first `--cores` cores only."""
    where, results = machine(), []
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    with Progress() as progress:
        run_options = RunOptions(options.scale, options.rounds, options.cores, progress.report_progress)
        if options.json and options.json.exists() and read_results(options.json)[0] != where:
            print(
                f"{options.json}: expected results of this machine and these versions, found others; choose a new file",
                file=sys.stderr,
            )
            sys.exit(2)
        try:
            for name in options.names or BENCHMARKS:
                results.append(run(name, run_options))
                if options.json:
                    _add(options.json, where, results[-1])
            return where, results
        finally:
            clear_scratch()


def _add(file: Path, where: Mapping[str, Any], result: Result) -> None:
    """Replaces an earlier result of the same benchmark on the same number of cores."""
    before = [read_results(file)] if file.exists() else []
    file.write_text(as_json(*merge_results([*before, (where, [result])])))


if __name__ == "__main__":
    # Exit as on Ctrl-C, so that child processes end and scratch files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
