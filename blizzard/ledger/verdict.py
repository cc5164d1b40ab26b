"""What the ledger says about entries of the manifest: new, known, or announced with other content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.manifest.segments import Entry


@dataclass(frozen=True, slots=True)
class Verdict:
    """`late`: to be ingested. `other`: settled with another etag, so the file may have been overwritten. `known`: how
    many are settled as they are."""

    late: Sequence[Entry]
    other: Sequence[Entry]
    known: int


def judge(suspects: Sequence[Entry], settled: Mapping[str, LedgerEntry]) -> Verdict:
    """`settled`: by path, what the ledger has of the suspects.

    Of some files the table has no row: empty ones, and those that could not be read. New content of such a file is
    simply ingested. If the file was dead-lettered, the same content is read again if it was announced once more since:
    somebody has copied the file onto itself for that.
    """
    late, other, known = [], [], 0
    for entry in suspects:
        found = settled.get(entry.path)
        if found is None or (found.rows == 0 and _may_bring_rows(entry, found)):
            late.append(entry)
        elif entry.etag == found.etag:
            known += 1
        else:
            other.append(entry)
    return Verdict(late, other, known)


def _may_bring_rows(entry: Entry, found: LedgerEntry) -> bool:
    return entry.etag != found.etag or (found.state is FileState.FAILED and entry.event_ts * 1000 >= found.time_ms + 1)
