"""The ledger in windows: neighbouring paths of all runs, whose values stay columns. A question about many files decides
by them which entries it needs; only these are made."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice
from typing import TypeVar

from blizzard.ledger.block_codec import Block, BlockColumns, decode_block
from blizzard.ledger.entry import LedgerEntry, merge_sorted
from blizzard.ledger.ledger import Ledger, naming
from blizzard.ledger.run import Run
from blizzard.state.run_ref import RunRef
from blizzard.storage.parallel_calls import ParallelCalls

PARALLEL_READS = 8
"""Each holds about a megabyte."""
_HIGHEST = 0x10FFFF
_Values = TypeVar("_Values")


@dataclass(slots=True)
class WindowBlock:
    """A block of a run, with paths from `start` on, and below `end` (None: nothing is above them)."""

    ref: RunRef
    number: int
    start: str
    end: str | None
    data: bytes
    _columns: BlockColumns | None = None
    _block: Block | None = None

    def column(self, of: Callable[[BlockColumns], _Values]) -> _Values:
        """Raises RunUnreadable."""
        with naming(self.ref):
            if self._columns is None:
                self._columns = BlockColumns(self.data)
            return of(self._columns)

    def within(self, paths: Sequence[str]) -> Sequence[str]:
        """Those of the sorted paths that it may have."""
        end = len(paths) if self.end is None else bisect_left(paths, self.end)
        return paths[bisect_left(paths, self.start) : end]

    def find(self, paths: Sequence[str]) -> Iterator[LedgerEntry]:
        """Raises RunUnreadable."""
        if self._block is None:
            with naming(self.ref):
                self._block = decode_block(self.data)
        return filter(None, map(self._block.find, paths))


@dataclass(frozen=True, slots=True)
class Window:
    """The paths from `low` on, and below `high` (None: to the end). The first and the last of a run's `blocks` may have
    others, too. `recent`: of commits that no run has."""

    low: str
    high: str | None
    blocks: Sequence[WindowBlock]
    recent: Sequence[LedgerEntry]

    @property
    def count(self) -> int:
        """How many files it has, or some more."""
        return sum(block.column(len) for block in self.blocks) + len(self.recent)

    def has(self, path: str) -> bool:
        return path >= self.low and (self.high is None or path < self.high)

    def find(self, paths: Sequence[str]) -> dict[str, LedgerEntry]:
        """The entries of those of these sorted paths of the window that the ledger has. Raises RunUnreadable."""
        in_runs: list[LedgerEntry] = []
        for block in self.blocks:
            if some := block.within(paths):
                in_runs.extend(block.find(some))
        wanted = {*paths}
        recent = [entry for entry in self.recent if entry.path in wanted]
        return {entry.path: entry for entry in merge_sorted(sorted(in_runs), recent)}


class LedgerWindows:
    """Of the paths that begin with `prefix`. Windows are read one after the other, upwards."""

    def __init__(self, ledger: Ledger, prefix: str = "") -> None:
        self._runs = [_RunWindows(run) for run in ledger.runs]
        self._recent = [entry for entry in ledger.recent_entries() if entry.path.startswith(prefix)]
        self._end = first_above(prefix)
        self._starts = merge(*(_starts(run, prefix, self._end) for run in ledger.runs))
        self._bound: str | None = prefix

    def bound(self, low: str, blocks: int) -> str | None:
        """Where a window from `low` on ends that has some `blocks`; None: with the last path. A window may end before
        that."""
        if self._bound is not None and self._bound <= low:
            above = (start for start in self._starts if start > low)
            self._bound = next(islice(above, blocks - 1, None), None)
        return self._bound

    def read(self, low: str, high: str | None) -> Window:
        """`low`: where the window before ended. Raises RunUnreadable."""
        high = self._end if high is None else high
        with ParallelCalls(PARALLEL_READS, name="windows") as calls:
            for run in self._runs:
                run.turn_to(low, high, calls)
        blocks = [block for run in self._runs for block in run.blocks()]
        first = bisect_left(self._recent, low, key=lambda entry: entry.path)
        end = len(self._recent) if high is None else bisect_left(self._recent, high, key=lambda entry: entry.path)
        return Window(low, high, blocks, self._recent[first:end])


class _RunWindows:
    """The blocks of one run in a window. The last ones may be in the next window, too."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._held: dict[int, WindowBlock] = {}

    def turn_to(self, low: str, high: str | None, calls: ParallelCalls) -> None:
        starts = self._run.index.starts
        end = len(starts) if high is None else bisect_left(starts, high)
        wanted = range(max(0, self._run.index.block_of(low)), end)
        self._held = {number: block for number, block in self._held.items() if number in wanted}
        for numbers in self._run.reads([number for number in wanted if number not in self._held]):
            calls.submit(partial(self._read, numbers))

    def _read(self, numbers: range) -> None:
        starts = self._run.index.starts
        with naming(self._run.ref):
            for number, data in self._run.read(numbers):
                end = starts[number + 1] if number + 1 < len(starts) else None
                self._held[number] = WindowBlock(self._run.ref, number, starts[number], end, data)

    def blocks(self) -> list[WindowBlock]:
        return [block for _, block in sorted(self._held.items())]


def _starts(run: Run, prefix: str, end: str | None) -> Iterator[str]:
    """Where blocks begin above `prefix`, and below `end`."""
    starts = run.index.starts
    last = len(starts) if end is None else bisect_left(starts, end)
    return (starts[number] for number in range(bisect_right(starts, prefix), last))


def first_above(prefix: str) -> str | None:
    """The lowest text above all that begin with the prefix; None: there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        if ord(prefix[at]) < _HIGHEST:
            return prefix[:at] + chr(ord(prefix[at]) + 1)
    return None
