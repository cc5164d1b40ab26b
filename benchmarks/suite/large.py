"""`large`: a file of 5 GB of each format. How much memory does the task take that reads it?"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.contenders import Work, contender
from benchmarks.data import Dataset
from benchmarks.goals import goals_of
from benchmarks.large_data import BLOCK_RECORDS, BYTES, LARGE, large_dataset
from benchmarks.process import scratch
from benchmarks.result import Result, Table
from benchmarks.rounds import ContenderRuns, Measured, loads_note, measure
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals, number
from benchmarks.suite.comparison import raw
from benchmarks.suite.skew import TASK_MEMORY_BYTES
from blizzard.config.spark_settings import HEAP

WHO = "large_file"
SMALL_RECORDS = 100
COLUMNS = ("file", "GB", "records", "commits", "s", "MB/s", "peak MiB", "MiB more than with a small file")


@dataclass(slots=True)
class Runs:
    """Of one format, per round. `small`: with a file of few records, which needs the same libraries."""

    data: Dataset
    small: ContenderRuns = field(default_factory=lambda: ContenderRuns(contender(WHO).TITLE))
    large: ContenderRuns = field(default_factory=lambda: ContenderRuns(contender(WHO).TITLE))

    def added_bytes(self) -> list[int]:
        """What the large file adds to the peak of all processes, per round."""
        peaks = ([run.usage.peak_bytes for run in one.runs] for one in (self.large, self.small))
        return [large - small for large, small in zip(*peaks, strict=True)]


def run(options: RunOptions) -> Result:
    """On one core, so that there is one task."""
    found = {form: _measured(form, options) for form in LARGE}
    series = {form: one.large for form, one in found.items()}
    return Result(
        "large",
        f"one file of {number(options.scale * BYTES / 1e9)} GB of each format, in a task on one core",
        (Table(COLUMNS, tuple(_row(form, one) for form, one in found.items())),),
        tuple(evaluate_goals(goals_of("large"), measured(found), {})),
        notes=(*_notes(), loads_note(series)),
        raw={form: raw(one.data, {"small": one.small, "large": one.large}) for form, one in found.items()},
    )


def measured(found: Mapping[str, Runs]) -> dict[str, Spread]:
    """By goal: of the format that adds most."""
    added = [Spread.of([bytes_ / TASK_MEMORY_BYTES for bytes_ in one.added_bytes()]) for one in found.values()]
    return {"memory": max(added, key=lambda spread: spread.median)}


def _measured(form: str, options: RunOptions) -> Runs:
    """The file is removed afterwards: all of them together would take as much room as ten times the other data."""
    with tempfile.TemporaryDirectory(prefix="large-", dir=scratch()) as folder:
        options.report_progress(f"large: making the file of {form}")
        small = large_dataset(form, Path(folder, "small"), total_bytes=0, records=SMALL_RECORDS)
        records = options.count(BLOCK_RECORDS, SMALL_RECORDS)
        runs = Runs(large_dataset(form, Path(folder, "large"), total_bytes=options.count(BYTES), records=records))
        for turn in range(options.rounds):
            options.report_progress(f"large, round {turn + 1} of {options.rounds}: {form}")
            runs.small.runs.append(_run(small, options))
            runs.large.runs.append(_run(runs.data, options))
    return runs


def _run(data: Dataset, options: RunOptions) -> Measured:
    """With the environment that `blizzard run` gives its job."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        return measure(work_of(data, Path(folder)), Path(folder), environment=HEAP, process=options.process)


def work_of(data: Dataset, out: Path) -> Work:
    kind = LARGE[data.format]
    settings = {"pattern": f"**/*.{data.format}", "schema": kind.schema, **kind.settings}
    return Work(WHO, data, str(out), 1, 1, settings=settings)


def _row(form: str, runs: Runs) -> tuple[str, ...]:
    secs = Spread.of(runs.large.cold())
    commits = Spread.of([run.answers[-1]["totals"]["commits"] for run in runs.large.runs])
    return (
        form,
        number(runs.data.stored_bytes / 1e9),
        f"{runs.data.rows:,}" if runs.data.rows else "none: a dead letter",
        str(commits),
        str(secs),
        number(runs.data.stored_bytes / 1e6 / secs.median),
        str(runs.large.peak_mib()),
        str(Spread.of([bytes_ / 2**20 for bytes_ in runs.added_bytes()])),
    )


def _notes() -> Iterator[str]:
    yield (
        f"`limits.task_memory_bytes` is {TASK_MEMORY_BYTES >> 20} MiB. Peaks are of all processes of the job. The "
        f"small file has {SMALL_RECORDS} records of the same format, so the job has loaded the same libraries."
    )
