"""Runs contenders in interleaved rounds, each in its own process, and verifies every table."""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.contenders import Work, contender
from benchmarks.machine import BackgroundLoad, background_load_note, load
from benchmarks.process import Runner, run_process, scratch
from benchmarks.resource_monitor import ResourceUsage
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread
from benchmarks.verify import expect, found_in, found_in_parquet

T = TypeVar("T")
SLOW_ROUNDS = 2
"""Rounds of a slow contender: two are enough for a spread, more would take hours."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of one process. `cold_secs`: the first run, from the start of the process; `warm_secs`: later runs.
    `answers`: what the contender returned for each run."""

    contender: str
    load_before: float
    cold_secs: float
    warm_secs: tuple[float, ...]
    usage: ResourceUsage
    answers: tuple[dict[str, Any], ...]


@dataclass(slots=True)
class ContenderRuns:
    """The processes of one contender, one per round."""

    title: str
    runs: list[Measured] = field(default_factory=list)

    def cold(self) -> list[float]:
        return [run.cold_secs for run in self.runs]

    def warm(self) -> list[float]:
        """One value per process, the mean of its warm runs, so that rounds can be compared."""
        return [sum(run.warm_secs) / len(run.warm_secs) for run in self.runs if run.warm_secs]

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "cold_secs": self.cold(),
            "warm_secs": self.warm(),
            "load_before": [round(run.load_before, 2) for run in self.runs],
            "taken": [asdict(run.usage) for run in self.runs],
        }

    def peak_mib(self) -> Spread:
        return Spread.of([run.usage.peak_bytes / 2**20 for run in self.runs])


def loads_note(series: Mapping[str, ContenderRuns]) -> str:
    """The background load of each contender, by the name to show."""
    background = {
        name: [BackgroundLoad(run.load_before, run.usage.others_share) for run in one.runs]
        for name, one in series.items()
    }
    return background_load_note(background)


def measure(
    work: Work,
    folder: Path,
    *,
    process: Runner = run_process,
    environment: Mapping[str, str] | None = None,
    on_disk: Callable[[str], str] = str,
    inspect_table: Callable[[Work, int], None] = lambda work, number: None,
) -> Measured:
    """Runs one process of one contender and verifies its tables. `folder`: for its task, answer and output. `on_disk`:
    maps a table's URI to a local path. `inspect_table`: called for each verified table.

    Raises ContenderFailed, or WrongResult if a table does not match the data.
    """
    kind = contender(work.contender)
    for number in range(work.runs):
        kind.prepare(work, number)
    os.sync()  # so that this run does not pay for writes of the one before
    before = load()
    answers, taken = process(work, folder, environment or {})
    for number, answer in enumerate(answers):
        table, commits = on_disk(work.table(number)), kind.commits(work, answer)
        found = (found_in_parquet if commits is None else found_in)(table, work.data.checksums)
        expect(kind.TITLE, work.data, found, commits)
        inspect_table(work, number)
    secs = [answer["secs"] for answer in answers]
    return Measured(work.contender, before, secs[0], tuple(secs[1:]), taken, tuple(answers))


def in_turn(works: Mapping[str, T], turn: int) -> list[tuple[str, T]]:
    """The order of this round: each round begins with a different one."""
    whole = [*works.items()]
    start = turn % len(whole)
    return whole[start:] + whole[:start]


def interleaved(
    works: Mapping[str, Work],
    options: RunOptions,
    *,
    slow_secs: float = 90.0,
    inspect_table: Callable[[Work, int], None] = lambda work, number: None,
) -> dict[str, ContenderRuns]:
    """Runs each work once per round, in rotating order. A work whose first run took longer than `slow_secs` has two
    rounds."""
    series = {name: ContenderRuns(contender(work.contender).TITLE) for name, work in works.items()}
    for turn in range(options.rounds):
        for name, work in in_turn(works, turn):
            mine = series[name]
            slow = bool(mine.runs) and mine.runs[0].cold_secs > slow_secs
            if slow and turn >= SLOW_ROUNDS:
                continue
            options.report_progress(f"{work.data.name}, round {turn + 1} of {options.rounds}: {mine.title}")
            with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
                asked = replace(work, out=folder)
                mine.runs.append(measure(asked, Path(folder), process=options.process, inspect_table=inspect_table))
    return series
