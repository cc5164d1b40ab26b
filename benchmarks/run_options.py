"""How a benchmark is to be run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import CACHE
from benchmarks.process import Runner, run_process


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`scale` 1 is the full size. `say` takes a line of progress. `cache`: where the data is kept. `process` does the
    runs of a contender."""

    scale: float
    rounds: int
    cores: int
    report_progress: Callable[[str], None]
    cache: Path = CACHE
    process: Runner = run_process

    def count(self, full: int, least: int = 1) -> int:
        """So much of `full` as the scale asks for."""
        return max(least, round(full * self.scale))
