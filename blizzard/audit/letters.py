"""The dead letters of files beside what the ledger says of them: each refused file and record has its letter, once."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.row_numbers import ANY_SEQUENCE, FoundRows, Suspect, suspect_of
from blizzard.audit.row_numbers import SUSPECTS as SUSPECTED_ROWS
from blizzard.audit.source import AuditedSource
from blizzard.audit.tally import Tally
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.dead_letters import FILE_LETTER, RECORDS_PER_OBJECT, DeadLetters
from blizzard.state.settled_letters import Scope, Settled, SettledLetters
from blizzard.state.stored_letters import time_of
from blizzard.storage.parallel_calls import ParallelCalls

PARALLEL_FILES = 16
"""Of each an object of letters is in memory, of 8 MB at most. Files with more letters are looked at one by one."""
LOST, DOUBLED = "letters_lost", "letters_doubled"
SUSPECTS = "letters_suspects"


Refused = tuple[LedgerEntry, FoundRows | None]
"""A file whose letters are needed, and its rows; None: they are not compared."""


def has_letters(entry: LedgerEntry) -> bool:
    """Whether the file, or a record of it, was refused."""
    return entry.rejected > 0 or entry.state is FileState.FAILED


def compare_letters(
    source: AuditedSource, settlements: "Settlements", refused: Iterable[Refused], tally: Tally, salt: int
) -> None:
    """Names in `tally` the files that have fewer letters than refused records, and as suspects those with two of a
    record, and those whose rows are not the records without a letter. A record that was put back has its letter still,
    so more letters are no fault."""
    looking = _Looking(source, settlements, salt)
    with ParallelCalls(PARALLEL_FILES, name="letters") as calls:
        for entry, rows in refused:
            if entry.rejected <= RECORDS_PER_OBJECT:
                calls.submit(partial(looking.look, entry, rows))
            else:
                looking.look(entry, rows)
    for entry, its in sorted(looking.found):
        expected = entry.rejected + (entry.state is FileState.FAILED)
        if its.total(entry) < expected:
            is_file = entry.state is FileState.FAILED and not its.of_file
            tally.name(LOST, [entry.path, entry.etag, expected, its.total(entry), entry.size if is_file else None])
        if its.is_doubled:
            tally.name(SUSPECTS, [entry.path, entry.etag])
    tally.found.setdefault(SUSPECTED_ROWS, []).extend(sorted(looking.suspects))


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """`records`: of how many records there is a letter. `of_file`: whether there is one of the file as a whole."""

    records: int
    of_file: bool
    is_doubled: bool

    def total(self, entry: LedgerEntry) -> int:
        """As many as the entry may ask for."""
        return self.records + (self.of_file and entry.state is FileState.FAILED)


@dataclass(slots=True)
class Settlements:
    """What is settled of the letters of a source, read as soon as somebody asks, by one of several threads."""

    source: AuditedSource
    _settled: Settled | None = None
    _lock: Lock = field(default_factory=Lock)

    def read(self) -> Settled:
        with self._lock:
            if self._settled is None:
                self._settled = SettledLetters(self.source.state, self.source.identity.state_prefix).read()
            return self._settled

    def has_records_of(self, path: str) -> bool:
        """Whether records of this file were put back, so that its newest commit has brought only some of its rows. Of
        such a file the ledger may say nothing of refused records any more."""
        return any(mark.scope is Scope.RECORDS for mark, _ in self.read().by_path.get(path, ()))


@dataclass(slots=True)
class _Looking:
    """At the letters of some files, by several threads."""

    source: AuditedSource
    settlements: Settlements
    salt: int
    found: list[tuple[LedgerEntry, Found]] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)

    def look(self, entry: LedgerEntry, rows: FoundRows | None) -> None:
        letters = _letters_of(self.source)
        if not entry.rejected and (rows is None or rows.is_whole) and _is_as_written(letters, entry):
            self.found.append((entry, Found(0, of_file=True, is_doubled=False)))
            return
        numbers, written, of_file = array("q"), array("d"), 0
        for letter in _stored(letters, entry.path, entry.etag):
            number = letter.get("row")
            if isinstance(number, int):
                numbers.append(number)
                written.append(time_of(letter) or 0.0)
            else:
                of_file += 1
        records = pc.count_distinct(pa.array(numbers, pa.int64())).as_py()
        self.found.append((entry, Found(records, of_file > 0, records < len(numbers) or of_file > 1)))
        if rows is not None:
            self._judge(entry, rows, numbers, written if records > entry.rejected else None)

    def _judge(
        self, entry: LedgerEntry, rows: FoundRows, numbers: Sequence[int], written: Sequence[float] | None
    ) -> None:
        """`written`: when the letters were, in Unix seconds; None: there are too few for one to be settled."""
        still_open = {*numbers}
        if written is not None:
            settled = self.settlements.read()
            still_open = {
                number
                for number, ts in zip(numbers, written, strict=True)
                if settled.covering(entry.path, entry.etag, number, ts) is None
            }
        if len(still_open) < len({*numbers}):  # some of its rows came later than the others
            rows = rows._replace(sequence=ANY_SEQUENCE)
        suspect = suspect_of(rows, entry.rejected, sorted(still_open), salt=self.salt)
        if suspect is not None:
            self.suspects.append(suspect)


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
