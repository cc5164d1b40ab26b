"""The dead letters of files beside what the ledger says of them: each refused file and record has its letter, once."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.source import AuditedSource
from blizzard.audit.tally import Tally
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.dead_letters import FILE_LETTER, RECORDS_PER_OBJECT, DeadLetters
from blizzard.state.settled_letters import SettledLetters
from blizzard.storage.parallel_calls import ParallelCalls

PARALLEL_FILES = 16
"""Of each an object of letters is in memory, of 8 MB at most. Files with more letters are looked at one by one."""
LOST, DOUBLED = "letters_lost", "letters_doubled"
SUSPECTS = "letters_suspects"


def has_letters(entry: LedgerEntry) -> bool:
    """Whether the file, or a record of it, was refused."""
    return entry.rejected > 0 or entry.state is FileState.FAILED


def compare_letters(source: AuditedSource, entries: Iterable[LedgerEntry], tally: Tally) -> None:
    """Names in `tally` the files that have fewer letters than refused records, and as suspects those with two of a
    record. A record that was put back has its letter still, so more letters are no fault."""
    letters = _letters_of(source)
    found: list[tuple[LedgerEntry, Found]] = []
    with ParallelCalls(PARALLEL_FILES, name="letters") as calls:
        for entry in entries:
            if entry.rejected <= RECORDS_PER_OBJECT:
                calls.submit(partial(_look, letters, entry, found))
            else:
                _look(letters, entry, found)
    for entry, its in sorted(found):
        expected = entry.rejected + (entry.state is FileState.FAILED)
        if its.total(entry) < expected:
            is_file = entry.state is FileState.FAILED and not its.of_file
            tally.name(LOST, [entry.path, entry.etag, expected, its.total(entry), entry.size if is_file else None])
        if its.is_doubled:
            tally.name(SUSPECTS, [entry.path, entry.etag])


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """`records`: of how many records there is a letter. `of_file`: whether there is one of the file as a whole."""

    records: int
    of_file: bool
    is_doubled: bool

    def total(self, entry: LedgerEntry) -> int:
        """As many as the entry may ask for."""
        return self.records + (self.of_file and entry.state is FileState.FAILED)


def _look(letters: DeadLetters, entry: LedgerEntry, found: list[tuple[LedgerEntry, Found]]) -> None:
    if not entry.rejected and _is_as_written(letters, entry):
        found.append((entry, Found(0, of_file=True, is_doubled=False)))
        return
    rows, of_file = array("q"), 0
    for letter in _stored(letters, entry.path, entry.etag):
        row = letter.get("row")
        if isinstance(row, int):
            rows.append(row)
        else:
            of_file += 1
    records = pc.count_distinct(pa.array(rows, pa.int64())).as_py()
    found.append((entry, Found(records, of_file > 0, records < len(rows) or of_file > 1)))


def _is_as_written(letters: DeadLetters, entry: LedgerEntry) -> bool:
    """Whether the file has one letter as a whole, by the listing alone."""
    return [(name, size > 0) for name, size in letters.objects(entry.path, entry.etag)] == [(FILE_LETTER, True)]


def _stored(letters: DeadLetters, path: str, etag: str) -> Iterable[Mapping[str, Any]]:
    """Of one content. Those that cannot be read do not count."""
    unreadable: list[str] = []
    return letters.letters(folder=letters.dead_letter_folder(path, etag), unreadable=unreadable)


def judge_doubled(source: AuditedSource, tally: Tally) -> None:
    """Names the suspects that have two open letters of a record. A record that was refused again when its file was read
    anew has one of each time, and the earlier ones are settled."""
    suspects: Sequence[Sequence[str]] = tally.found.pop(SUSPECTS, [])
    if not suspects:
        return
    letters, settled = _letters_of(source), SettledLetters(source.state, source.identity.state_prefix).read()
    for path, etag in suspects:
        stored = _stored(letters, path, etag)
        counts = Counter(letter.get("row") for letter in stored if settled.of(letter) is None)
        twice = sum(count > 1 for count in counts.values())
        if twice:
            tally.name(DOUBLED, [path, etag, len(counts), counts.total()])


def _letters_of(source: AuditedSource) -> DeadLetters:
    return DeadLetters(source.state, source.identity.state_prefix, source.identity.source_id)
