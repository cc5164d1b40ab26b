"""Whether the table has exactly those rows of a file that its commits brought, by their numbers.

The records of a file are numbered from 0 without holes. Each is a row, or has a dead letter that is open. So the rows
of one content are known without reading it: as many as the ledger counts, and none has the number of an open letter, or
a number from rows and letters together on.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from blizzard.audit.table_rows import FileRun
from blizzard.audit.tally import Tally
from blizzard.table.row_checksums import checksum_of, checksum_of_range, joined

SUSPECTS = "suspects"
"""Under this name a tally keeps those that are to be looked at number by number."""
UNCOUNTED = "uncounted"
"""Under this name those that have more rows than the ledger counts, which old receipts explain."""
ROWS_UNCOUNTED = "rows_uncounted"
"""Under this name those that the ledger knows from the table's rows alone."""
GONE_BEFORE = "gone_before"
"""Under this name how many rows were gone when the ledger was made anew from the others."""
ANY_SEQUENCE = -1
"""Of rows of which nobody knows which commit has brought them."""


class FoundRows(NamedTuple):
    """The rows of one content of a file that the table has. `sequence`: of the commit that has brought all of it, or
    ANY_SEQUENCE. `expected`: how many the commits have brought; None: nobody knows. `first`, `last`: the lowest
    and the highest number, 0 and -1 without rows. `checksum`: of the numbers; None: one may be there twice. `files`:
    numbers of the data files. `at_least`: how many there were when only the table's rows could tell; None: not so."""

    path: str
    etag: str
    sequence: int
    expected: int | None
    total: int
    first: int
    last: int
    checksum: int | None
    files: Sequence[int]
    at_least: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether these are all records from the first one on, as many as expected."""
        return self.has_no_hole and self.expected == self.total

    @property
    def has_no_hole(self) -> bool:
        """Whether these are all records from the first one to the last."""
        is_unbroken = self.checksum is not None and self.first == 0 and self.total == self.last + 1
        return is_unbroken and self.total >= (self.at_least or 0)


class Suspect(NamedTuple):
    """Rows of one content that are to be looked at number by number. The fields up to `files` are as in FoundRows.
    `beyond`: the first number that no row can have; None: nobody knows. `open_rows`: numbers of open letters, `excess`
    of which may be of records that are rows by now. `at_least`: as in FoundRows."""

    path: str
    etag: str
    sequence: int
    expected: int | None
    total: int
    files: Sequence[int]
    beyond: int | None = None
    open_rows: Sequence[int] = ()
    excess: int = 0
    at_least: int | None = None


def found_rows(
    path: str, etag: str, sequence: int, expected: int | None, runs: Sequence[FileRun], *, is_distinct: bool, salt: int
) -> FoundRows:
    """`sequence`: as in FoundRows. `is_distinct`: whether no number is there twice."""
    return FoundRows(
        path,
        etag,
        sequence,
        expected,
        sum(item.rows for item in runs),
        min((item.first for item in runs), default=0),
        max((item.last for item in runs), default=-1),
        joined(*(checksum_of_run(item, salt) for item in runs)) if is_distinct else None,
        sorted({item.file for item in runs}),
    )


def are_distinct(runs: Sequence[FileRun]) -> bool:
    """Whether the runs show that no row number is there twice."""
    if not all(item.ascending for item in runs):
        return False
    bounds = sorted((item.first, item.last) for item in runs)
    return all(before[1] < after[0] for before, after in pairwise(bounds))


def checksum_of_run(run: FileRun, salt: int) -> int:
    return checksum_of_range(run.first, run.last, salt) if run.checksum is None else run.checksum


def suspect_of(found: FoundRows, refused: int, open_rows: Sequence[int], *, salt: int) -> Suspect | None:
    """None: the rows are those that they should be. `refused`: how many records are, by the ledger. `open_rows`: the
    numbers of those that have an open letter."""
    if found.at_least is not None:
        return _suspect_with_holes(found, open_rows, salt=salt)
    if found.expected is None:
        return None if found.checksum is not None else suspicious(found)
    letters = len(open_rows)
    beyond = found.expected + max(refused, letters)
    if found.checksum is not None and found.total == found.expected and letters == refused:
        whole = checksum_of_range(0, beyond - 1, salt)
        if found.first >= 0 and found.last < beyond and joined(found.checksum, checksum_of(open_rows, salt)) == whole:
            return None
    return suspicious(found, beyond, open_rows, max(0, letters - refused))


def _suspect_with_holes(found: FoundRows, open_rows: Sequence[int], *, salt: int) -> Suspect | None:
    """Of rows of which nobody knows how many there should be: up to the last one each number is of a row, or of an open
    letter. Behind it a letter may be of an attempt that never committed."""
    beyond = found.last + 1
    letters = [number for number in open_rows if number < beyond]
    expected = beyond - len(letters)
    if found.checksum is not None and found.first >= 0 and found.total == expected >= (found.at_least or 0):
        whole = checksum_of_range(0, beyond - 1, salt)
        if joined(found.checksum, checksum_of(letters, salt)) == whole:
            return None
    return suspicious(found._replace(expected=expected), beyond, letters)


def suspicious(found: FoundRows, beyond: int | None = None, open_rows: Sequence[int] = (), excess: int = 0) -> Suspect:
    path, etag, sequence, expected, total, *_, files, at_least = found
    return Suspect(path, etag, sequence, expected, total, files, beyond, [*open_rows], excess, at_least)


def name_faults(tally: Tally, suspect: Suspect, distinct: int, foreign: int) -> None:
    """`distinct`: how many of its row numbers are different; `foreign`: how many of these no commit can have
    brought."""
    path, etag, sequence, expected, total, *_, at_least = suspect
    own = distinct - foreign
    gone = 0 if expected is None else expected - own
    if at_least is not None:
        gone = max(0, gone, at_least - total)
        expected = distinct + gone
    named = [path, etag, expected, total, distinct]
    if distinct < total:
        tally.name("doubled", named)
    if expected is None:
        return
    if at_least is None and (foreign or own > expected):
        tally.name("rows_added", named)
    if gone > 0:
        tally.name("rows_deleted", named)
        since = gone if at_least is None else max(0, at_least - total)
        tally.gone[sequence] += since
        tally.counts[GONE_BEFORE] += gone - since
        if at_least is not None:
            tally.gone_uncounted[path] = gone
