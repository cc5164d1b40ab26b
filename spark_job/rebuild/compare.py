"""Whether a new table has every file of the old one, by the ledgers of both."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any

from blizzard.errors import RecoveryError
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.checkpoint import Checkpoint
from spark_job.loop.files.file_sizes import FileSizes
from spark_job.rebuild.parts import Parts, count_files

NAMED = 100
"""So many files of each kind are named."""
_PATHS_AT_ONCE = 10_000
Existing = Callable[[Collection[str]], Collection[str]]
"""Those of these paths that the source has now."""


@dataclass(slots=True)
class Kind:
    """Files of one kind: how many, and the first of them."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.names) < NAMED:
            self.names.append(name)


@dataclass(slots=True)
class Comparison:
    """Of one source. `files` and `rows`: of the old table; `new_files` and `new_rows`: of the new one."""

    source: str
    files: int = 0
    rows: int = 0
    new_files: int = 0
    new_rows: int = 0
    missing: Kind = field(default_factory=Kind)
    """The source has them, and the old table has settled them, but not the new one."""
    gone: Kind = field(default_factory=Kind)
    """The old table has rows of them, and the source does not have them any more."""
    refused: Kind = field(default_factory=Kind)
    """The old table has rows of them, and the new one has a dead letter."""
    overwritten: Kind = field(default_factory=Kind)
    """The tables have other contents of them."""
    fewer_rows: Kind = field(default_factory=Kind)
    """The new table has fewer rows of the same content: records that were repaired by hand are in the old one only."""
    other_rows: Kind = field(default_factory=Kind)
    """The new table has more rows of the same content."""
    lacking: list[str] = field(default_factory=list)
    """All of `missing`."""

    def is_complete(self, *, without_gone: bool) -> bool:
        lost = self.gone.count or self.refused.count or self.fewer_rows.count
        return not self.missing.count and (without_gone or not lost)

    def as_document(self) -> dict[str, Any]:
        kinds = ("missing", "gone", "refused", "fewer_rows", "overwritten", "other_rows")
        return {
            "source": self.source,
            "files": self.files,
            "rows": self.rows,
            "new_files": self.new_files,
            "new_rows": self.new_rows,
            **{kind: getattr(self, kind).count for kind in kinds},
            "names": {kind: getattr(self, kind).names for kind in kinds if getattr(self, kind).count},
        }


def compared_tables(old: Parts, new: Parts) -> Comparison:
    """Of the newest state of both. Raises RecoveryError if the old table does not say which files are in it."""

    def existing(paths: Collection[str]) -> Collection[str]:
        return FileSizes(old.files)(paths)

    return compared(old.source_id, _entries(old, is_old=True), _entries(new, is_old=False), existing)


def _entries(parts: Parts, *, is_old: bool) -> Iterator[LedgerEntry]:
    keeper = parts.keeper()
    checkpoint: Checkpoint = parts.recovered(keeper, moved=True).checkpoint
    if is_old and checkpoint.before_ledger_ts is not None and parts.table.holds_rows_of_nobody():
        raise RecoveryError(
            f"the table holds rows of source {parts.source_id} that do not name their files, since the first Blizzard "
            "wrote them: nothing shows whether another table has them all. Compare the tables yourself, then stop the "
            "jobs and change `table_uri` by hand."
        )
    count_files(keeper, checkpoint)  # fills what is lost
    return keeper.entries(checkpoint) if checkpoint.sequence >= 0 else iter(())


def compared(source: str, old: Iterable[LedgerEntry], new: Iterable[LedgerEntry], existing: Existing) -> Comparison:
    """Both in the order of a listing."""
    found, absent = Comparison(source), list[LedgerEntry]()
    marked = merge(((entry.path, 0, entry) for entry in old), ((entry.path, 1, entry) for entry in new))
    for _, group in groupby(marked, key=itemgetter(0)):
        sides = {side: entry for _, side, entry in group}
        before, after = sides.get(0), sides.get(1)
        _count(found, before, after)
        if before is not None and (after is None or after.is_in_progress):
            absent.append(before)
        elif before is not None and after is not None:
            _compare_file(found, before, after)
        if len(absent) >= _PATHS_AT_ONCE:
            _judge_absent(found, absent, existing)
    _judge_absent(found, absent, existing)
    return found


def _count(found: Comparison, before: LedgerEntry | None, after: LedgerEntry | None) -> None:
    if before is not None:
        found.files, found.rows = found.files + 1, found.rows + before.rows
    if after is not None:
        found.new_files, found.new_rows = found.new_files + 1, found.new_rows + after.rows


def _compare_file(found: Comparison, before: LedgerEntry, after: LedgerEntry) -> None:
    if before.rows and after.state is FileState.FAILED:
        found.refused.add(before.path)
    elif before.etag != after.etag:
        found.overwritten.add(before.path)
    elif before.rows > after.rows:
        found.fewer_rows.add(before.path)
    elif before.rows != after.rows:
        found.other_rows.add(before.path)


def _judge_absent(found: Comparison, absent: list[LedgerEntry], existing: Existing) -> None:
    """Files without rows of which the source has no object are nothing that could be lost."""
    there = existing([entry.path for entry in absent])
    for entry in absent:
        if entry.path in there:
            found.missing.add(entry.path)
            found.lacking.append(entry.path)
        elif entry.rows:
            found.gone.add(entry.path)
    absent.clear()
