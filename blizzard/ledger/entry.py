"""What the ledger records of one file."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from blizzard.state.receipts import Receipt, Repair

_MAX_TS = 1e15


class FileState(IntEnum):
    """How far a commit settled a file."""

    DONE = 0
    """Ingested to its end. It may have had no rows, or only refused records."""
    PARTLY = 1
    """Larger than a batch, and a later commit continues it. `rows` and `rejected` may lack earlier parts of it."""
    FAILED = 2
    """Dead-lettered: it could not be read, or only a part of it that earlier commits brought."""
    COUNTED = 3
    """As PARTLY, and `rows` and `rejected` are all records that were read so far, from the first one on."""
    UNCOUNTED = 4
    """As PARTLY, after a part of which only the table's rows are known: `rows` and `rejected` lack some records."""
    READ_ANEW = 5
    """As DONE. `rows` and `rejected` are all that this content has, whatever earlier commits had."""
    REPLAYED = 6
    """As DONE, of a commit that only has `rows` which earlier commits had refused."""


DONE_STATES = (FileState.DONE, FileState.READ_ANEW, FileState.REPLAYED)
"""Of files that are ingested to their end."""


class LedgerEntry(NamedTuple):
    """The newest commit of one file. Entries sort by path, in the order of a listing, then by sequence.

    `time_ms`: when the file was announced, in milliseconds of Unix time: its event's time, or its modification time if
    a sweep found it. `rows` and `rejected` count the rows and refused records of this content, those of earlier commits
    of a large file included. Unknown values are 0: a row of the table names neither its file's size nor its refused
    neighbours. `begins`: whether a commit that is counted has the content's first record, as Receipt says. It is then
    counted without the commits before that, of another time that the file had this content.
    """

    path: str
    sequence: int
    etag: str
    size: int
    time_ms: int
    rows: int
    rejected: int
    state: FileState
    begins: bool = False

    @property
    def is_from_table(self) -> bool:
        """Whether the newest commit of the file is known from the table's rows alone. They do not tell whether it was
        read to its end."""
        return self.state is FileState.DONE and self.rows > 0 and not self.size

    @property
    def is_done(self) -> bool:
        """Whether it is ingested to its end."""
        return self.state in DONE_STATES

    @property
    def is_in_progress(self) -> bool:
        return self.state in (FileState.PARTLY, FileState.COUNTED, FileState.UNCOUNTED)


_REPAIRED: Mapping[str | None, FileState] = {
    Repair.WHOLE: FileState.READ_ANEW,
    Repair.RECORDS: FileState.REPLAYED,
    Repair.GIVEN: FileState.REPLAYED,
}


def entries_of(receipt: Receipt) -> list[LedgerEntry]:
    """The entries of a commit, one for each line of its receipt."""
    sequence = receipt.sequence
    return [
        LedgerEntry(
            path, sequence, etag, size, _time_ms(event_ts), rows, rejected, _state(done, begins, error, repair), begins
        )
        for path, etag, size, rows, rejected, event_ts, error, done, begins, _, repair, _ in receipt.lines
    ]


def _time_ms(event_ts: float) -> int:
    return max(0, round(min(event_ts, _MAX_TS) * 1000))


def _state(finished: bool, begins: bool, error: str | None, repair: str | None) -> FileState:
    if not finished:
        return FileState.COUNTED if begins else FileState.PARTLY
    return _REPAIRED.get(repair, FileState.DONE) if error is None else FileState.FAILED


def merged(entries: Iterable[LedgerEntry]) -> LedgerEntry:
    """The entry of one file after several commits of it, oldest first."""
    newest, *later = entries
    for entry in later:
        newest = _continued(newest, entry) if newest.etag == entry.etag else entry
    return newest


def _continued(before: LedgerEntry, entry: LedgerEntry) -> LedgerEntry:
    """Of the same content. One that begins at its first record again counts alone: the content had failed, or the file
    has had another one in between, whose entry may already be merged away."""
    if entry.begins or entry.state in (FileState.COUNTED, FileState.READ_ANEW):
        return entry
    if entry.state is FileState.REPLAYED:
        rows, rejected = before.rows + entry.rows, max(0, before.rejected - entry.rows)
        state = before.state if before.is_done else FileState.DONE
        return before._replace(sequence=entry.sequence, rows=rows, rejected=rejected, state=state)
    added = entry._replace(
        rows=before.rows + entry.rows, rejected=before.rejected + entry.rejected, begins=before.begins
    )
    if entry.state is not FileState.PARTLY:
        return added
    return added._replace(state=before.state if before.is_in_progress else FileState.UNCOUNTED)


def merge_sorted(*parts: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
    """One entry for each file of the sorted parts, in the order of a listing."""
    newest: LedgerEntry | None = None
    for entry in heapq.merge(*parts):
        if newest is None or newest.path != entry.path:  # as of nearly all
            if newest is not None:
                yield newest
            newest = entry
        else:
            newest = merged((newest, entry))
    if newest is not None:
        yield newest
