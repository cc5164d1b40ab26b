"""Options of a benchmark run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import CACHE
from benchmarks.process import Runner, run_process


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`scale`: 1 is the full size. `report_progress`: called with a line of text. `cache`: folder of the data sets.
    `process`: executes the runs of a contender."""

    scale: float
    rounds: int
    cores: int
    report_progress: Callable[[str], None]
    cache: Path = CACHE
    process: Runner = run_process

    def count(self, full: int, least: int = 1) -> int:
        """`full` times the scale, but at least `least`."""
        return max(least, round(full * self.scale))
