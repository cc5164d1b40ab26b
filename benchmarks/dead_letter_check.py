"""Lines that are broken, and lines that were put aside as dead letters: the same ones, or the work was wrong.

Neither list is made by what is measured. A line is broken where a data set differs from the one of the same records
unharmed; letters are the files that lie beside the table.
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
    """`row`: its number in the file, from 0, None where it is the file altogether; `raw`: its text, if it has one."""

    path: str
    row: int | None
    raw: str | None


def broken_lines(harmed: Dataset, sound: Dataset) -> list[Line]:
    """Where the two differ."""
    found = []
    for path in harmed.paths:
        pairs = zip(*(_lines(Path(data.folder, path)) for data in (harmed, sound)), strict=True)
        found += [Line(path, row, line.decode()) for row, (line, other) in enumerate(pairs) if line != other]
    return found


def _lines(file: Path) -> list[bytes]:
    return gzip.decompress(file.read_bytes()).splitlines()


def stored_letters(table: str) -> list[Line]:
    """All that lie beside the table in this folder."""
    texts = (text for file in Path(table, FOLDER).rglob("*.ndjson") for text in file.read_bytes().splitlines())
    letters = map(json.loads, texts)
    return [Line(letter["path"], letter.get("row"), letter.get("raw")) for letter in letters]


def expect_stored(data: Dataset, broken: Sequence[Line], table: str) -> None:
    """Each of these lines once, and nothing else. Raises WrongResult."""
    wanted, found = Counter(broken), Counter(stored_letters(table))
    missing, others = wanted - found, found - wanted
    if missing or others:
        raise WrongResult(
            f"Blizzard on {data.name}: expected a letter for each of {wanted.total()} broken lines; {missing.total()} "
            f"have none, such as {[*missing][:_SHOWN]}, and {others.total()} are of no such line, such as "
            f"{[*others][:_SHOWN]}"
        )
