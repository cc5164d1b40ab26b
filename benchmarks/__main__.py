"""Every benchmark side by side in one run: `python -m benchmarks [NAME …]`, or `make bench`.

Without names it runs all of them; at full size `small` alone takes an hour on two cores. What a contender leaves in its
table is checked each time; one that did wrong work fails the run.
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
    """0: all ran, whether or not goals were met; 1: one of those measured did wrong work, or none; 2: wrong input. What
    was measured before is in `--json` by then."""
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
    parser = argparse.ArgumentParser(prog="benchmarks", description="Blizzard beside what users would pick instead.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(BENCHMARKS)}; all without")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the full size; 0.01 shows that it works")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender has its turn")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="of this machine's")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every number; adds to what is in FILE already")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="the picture of big and small")
    parser.add_argument("--markdown", action="store_true", help="the report as docs/performance.md has it")
    parser.add_argument(
        "--read",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="run nothing; report what --json wrote to FILE, later ones in place of earlier ones",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="what is reported into FILE, docs/performance.json, and the documents anew from there",
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"{', '.join(unknown)}: expected some of {', '.join(BENCHMARKS)}")
    if options.scale <= 0 or options.rounds < 1 or not 0 < options.cores <= len(os.sched_getaffinity(0)):
        parser.error("expected a --scale above 0, --rounds from 1 on, and --cores that this process may use")
    return options


def _measured(options: argparse.Namespace) -> tuple[Mapping[str, Any], list[Result]]:
    """On the first so many cores alone, when fewer are asked for: JVM, workers and all."""
    where, results = machine(), []
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    with Progress() as progress:
        run_options = RunOptions(options.scale, options.rounds, options.cores, progress.report_progress)
        if options.json and options.json.exists() and read_results(options.json)[0] != where:
            print(f"{options.json}: expected results of this machine and these versions", file=sys.stderr)
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
    """In place of an earlier result of the same benchmark on as many cores."""
    before = [read_results(file)] if file.exists() else []
    file.write_text(as_json(*merge_results([*before, (where, [result])])))


if __name__ == "__main__":
    # As Ctrl-C: what was started ends too, and what was written goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
