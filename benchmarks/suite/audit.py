"""`audit`: what `blizzard audit` takes for so many objects and their rows on S3, and what its requests cost.

Each size is a world of its own (`benchmarks.audit`), in a new process per round.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.goals import goals_of
from benchmarks.machine import background_load_note
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals
from benchmarks.suite.subprocess_run import background_loads, run_module
from blizzard.prices.price_list import read_prices

SIZES = (10_000, 100_000, 1_000_000)
HARD, HARD_PER_COMMIT, HARD_LETTERS_EVERY = 100_000, 10, 100
"""A table that nobody compacts: data files of a hundred rows, and a dead letter in each hundredth object."""
MIB = (1 << 20) / 1e6
NOTE = (
    "A data file has ten thousand rows, those of a thousand objects, and nothing was refused; in the last row it has "
    "those of ten objects, and of a hundred objects one has a refused record. The ledger has all of them. The S3 is "
    "the stand-in, on the same cores. Memory is the sum of all processes of the audit; pages that they share count for "
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
    hard_files = options.count(HARD, 1_000)
    options.report_progress(f"audit: {hard_files:,} files in small data files")
    hard = [_hard(hard_files) for _ in range(options.rounds)]
    prices = read_prices()
    return Result(
        "audit",
        "`blizzard audit` of 10,000, 100,000 and 1,000,000 objects with ten rows each, on S3 with 30 ms a request",
        (_times(found, hard), _requests(found, hard)),
        tuple(evaluate_goals(goals_of("audit"), measured(found), {})),
        notes=(
            NOTE,
            PRICED.format(region=prices.region, date=prices.date),
            background_load_note({label: background_loads(runs) for label, runs in _labelled(found, hard)}),
        ),
        raw={f"{files}": runs for files, runs in found.items()} | {"hard": hard},
    )


def _hard(files: int) -> dict[str, Any]:
    words = "--per-commit", HARD_PER_COMMIT, "--letters-every", HARD_LETTERS_EVERY
    return run_module("benchmarks.audit", files, *words)


def _labelled(found: Mapping[int, Answers], hard: Answers) -> Iterator[tuple[str, Answers]]:
    yield from ((f"{files:,}", runs) for files, runs in found.items())
    yield f"{hard[0]['files']:,}, in data files of {HARD_PER_COMMIT}", hard


def measured(found: Mapping[int, Answers]) -> dict[str, Spread]:
    """Measurements by goal: of the largest size."""
    largest = found[max(found)]
    return {"secs": _of(largest, "secs"), "mib": Spread.of([run["peak_mb"] / MIB for run in largest])}


def _times(found: Mapping[int, Answers], hard: Answers) -> Table:
    keys = ("secs", "cpu_secs", "server_cpu_secs", "peak_mb")
    rows = tuple((label, *(str(_of(runs, key)) for key in keys)) for label, runs in _labelled(found, hard))
    return Table(("objects", "s", "CPU s, audit", "CPU s, stand-in", "MB, all processes"), rows)


def _requests(found: Mapping[int, Answers], hard: Answers) -> Table:
    """They are the same in each round."""
    kinds = ("LIST", "GET", "HEAD", "PUT")
    rows = []
    for label, (run, *_) in _labelled(found, hard):
        counts = (f"{run['requests'].get(kind, 0):,}" for kind in kinds)
        rows.append((label, *counts, f"{run['dollars']:.4f}"))
    return Table(("objects", *kinds, "dollars"), tuple(rows))


def _of(runs: Answers, key: str) -> Spread:
    return Spread.of([run[key] for run in runs])
