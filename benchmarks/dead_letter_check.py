"""Checks that exactly the broken lines became dead letters.

The check does not rely on what the job reports. Broken lines are those that differ from the clean data set of the same
records; dead letters are read from their files next to the table.
"""

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.data import Dataset
from benchmarks.verify import WrongResult

FOLDER = "_blizzard/events_landing/dead_letters"
_SHOWN = 3


class Line(NamedTuple):
    """`row`: number of the line in its file, from 0; None for a dead letter of a whole file. `raw`: the line's text."""

    path: str
    row: int | None
    raw: str | None


def broken_lines(dirty: Dataset, clean: Dataset) -> list[Line]:
    """The lines of `dirty` that differ from `clean`."""
    found = []
    for path in dirty.paths:
        pairs = zip(*(_lines(Path(data.folder, path)) for data in (dirty, clean)), strict=True)
        found += [Line(path, row, line.decode()) for row, (line, other) in enumerate(pairs) if line != other]
    return found


def _lines(file: Path) -> list[bytes]:
    return gzip.decompress(file.read_bytes()).splitlines()


def stored_dead_letters(table: str) -> list[Line]:
    """All dead letters of the table."""
    texts = (text for file in Path(table, FOLDER).rglob("*.ndjson") for text in file.read_bytes().splitlines())
    letters = map(json.loads, texts)
    return [Line(letter["path"], letter.get("row"), letter.get("raw")) for letter in letters]


def expect_dead_letters(data: Dataset, broken: Sequence[Line], table: str) -> None:
    """Raises WrongResult unless each broken line has exactly one dead letter, and there are no others."""
    wanted, found = Counter(broken), Counter(stored_dead_letters(table))
    missing, others = wanted - found, found - wanted
    if missing or others:
        raise WrongResult(
            f"Blizzard on {data.name}: expected a letter for each of {wanted.total()} broken lines; {missing.total()} "
            f"have none, such as {[*missing][:_SHOWN]}, and {others.total()} are of no such line, such as "
            f"{[*others][:_SHOWN]}"
        )
