"""A source's paths in ranges, which processes audit one by one, each in memory that its size bounds."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from blizzard.ledger.ledger import Ledger
from blizzard.ledger.run import BLOCK_ENTRIES

RANGE_FILES = 20_000
"""About twenty LIST requests, and some ten megabytes."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Range n has the paths above bound n - 1, and not above bound n; the last one has all above the last bound. All
    paths begin with `prefix`."""

    bounds: Sequence[str]
    prefix: str = ""

    def __len__(self) -> int:
        return len(self.bounds) + 1

    def of(self, path: str) -> int:
        return bisect_left(self.bounds, path)

    def after(self, number: int) -> str:
        return self.bounds[number - 1] if number else ""

    def through(self, number: int) -> str | None:
        return self.bounds[number] if number < len(self.bounds) else None


def ranges_of(ledger: Ledger, prefix: str = "", files: int = RANGE_FILES) -> Ranges:
    """Of about so many files each, as far as the ledger's runs tell. No request is made."""
    starts = merge(*(run.index.starts for run in ledger.runs))
    every = max(1, files // BLOCK_ENTRIES)
    bounds = [start for start in islice(starts, every, None, every) if start.startswith(prefix) and start > prefix]
    return Ranges(tuple(dict.fromkeys(bounds)), prefix)


def numbers_of(ranges: Ranges) -> Iterator[str]:
    """As parts for processes."""
    return map(str, range(len(ranges)))
