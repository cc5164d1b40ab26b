"""`audit`: what `blizzard audit` takes for so many objects and their rows on S3, and what its requests cost.

Each size is a world of its own (`benchmarks.audit`), in a new process per round.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.goals import goals_of
from benchmarks.machine import background_load_note
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals
from benchmarks.suite.subprocess_run import background_loads, run_module
from blizzard.prices.price_list import read_prices

SIZES = (10_000, 100_000, 1_000_000)
MIB = (1 << 20) / 1e6
NOTE = (
    "A data file has ten thousand rows, those of a thousand objects. The ledger has all of them. The S3 is the "
    "stand-in, on the same cores. Memory is the sum of all processes of the audit; pages that they share count for "
    "each of them."
)
PRICED = (
    "Dollars are those of the requests, at the list prices of {region} of {date}. Within the region S3 does not charge "
    "for the transfer."
)
Answers = Sequence[Mapping[str, Any]]


def run(options: RunOptions) -> Result:
    found: dict[int, list[dict[str, Any]]] = {}
    for size in SIZES:
        files = options.count(size, 1_000)
        options.report_progress(f"audit: {files:,} files")
        found[files] = [run_module("benchmarks.audit", files) for _ in range(options.rounds)]
    prices = read_prices()
    return Result(
        "audit",
        "`blizzard audit` of 10,000, 100,000 and 1,000,000 objects with ten rows each, on S3 with 30 ms a request",
        (_times(found), _requests(found)),
        tuple(evaluate_goals(goals_of("audit"), measured(found), {})),
        notes=(
            NOTE,
            PRICED.format(region=prices.region, date=prices.date),
            background_load_note({f"{files:,} files": background_loads(runs) for files, runs in found.items()}),
        ),
        raw={f"{files}": runs for files, runs in found.items()},
    )


def measured(found: Mapping[int, Answers]) -> dict[str, Spread]:
    """Measurements by goal: of the largest size."""
    largest = found[max(found)]
    return {"secs": _of(largest, "secs"), "mib": Spread.of([run["peak_mb"] / MIB for run in largest])}


def _times(found: Mapping[int, Answers]) -> Table:
    keys = ("secs", "cpu_secs", "server_cpu_secs", "peak_mb")
    rows = tuple((f"{files:,}", *(str(_of(runs, key)) for key in keys)) for files, runs in found.items())
    return Table(("objects", "s", "CPU s, audit", "CPU s, stand-in", "MB, all processes"), rows)


def _requests(found: Mapping[int, Answers]) -> Table:
    """They are the same in each round."""
    kinds = ("LIST", "GET", "HEAD", "PUT")
    rows = []
    for files, (run, *_) in found.items():
        counts = (f"{run['requests'].get(kind, 0):,}" for kind in kinds)
        rows.append((f"{files:,}", *counts, f"{run['dollars']:.4f}"))
    return Table(("objects", *kinds, "dollars"), tuple(rows))


def _of(runs: Answers, key: str) -> Spread:
    return Spread.of([run[key] for run in runs])
