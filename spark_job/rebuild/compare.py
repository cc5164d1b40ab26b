"""Whether a new table has every file of the old one, and every row: by the ledgers of both, and by their rows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from blizzard.errors import RecoveryError
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.checkpoint import Checkpoint
from spark_job.loop.files.file_sizes import FileSizes
from spark_job.rebuild.held_rows import NO_ROWS, Contents, HeldRows, RowCounter
from spark_job.rebuild.parts import Parts, count_files
from spark_job.rebuild.stopped import Check, never
from spark_job.rebuild.values import changed_values

NAMED = 100
"""So many files of each kind are named."""
_PATHS_AT_ONCE = 10_000
Existing = Callable[[Collection[str]], Collection[str]]
"""Those of these paths that the source has now."""
_VERSIONS_TRIED = 5


@dataclass(frozen=True, slots=True)
class Accepted:
    """What an operator takes along with another table: that it lacks rows which its sources do not give any more
    (`gone`), and rows of others (`others`), that it has rows which somebody has deleted (`deleted`), and that it has
    other values than somebody has given to rows (`changed`)."""

    gone: bool = False
    others: bool = False
    deleted: bool = False
    changed: bool = False


@dataclass(slots=True)
class Kind:
    """Files of one kind: how many, and the first of them."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.names) < NAMED:
            self.names.append(name)


class Side(NamedTuple):
    """What one of two tables has of a file. `entry`: of its ledger. `held`: its rows; None: nobody has counted them."""

    entry: LedgerEntry | None
    held: Contents | None

    @property
    def rows(self) -> int:
        if self.held is None:
            return 0 if self.entry is None else self.entry.rows
        return sum(count.rows for count in self.held.values())

    @property
    def is_settled(self) -> bool:
        return self.entry is not None and not self.entry.is_in_progress

    def lacks(self, etag: str) -> int:
        """How many rows of this content were committed and are not there any more."""
        if self.held is None or self.entry is None or self.entry.etag != etag:
            return 0
        return max(0, self.entry.rows - self.held.get(etag, NO_ROWS).rows)


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
    deleted: Kind = field(default_factory=Kind)
    """The new table has rows of them that were committed to the old one and are not there any more."""
    deleted_rows: int = 0
    """How many, of all files."""
    changed: Kind = field(default_factory=Kind)
    """Rows of them have other values in one table than in the other, in either of which somebody has changed some."""
    changed_rows: int = 0
    """How many, of all files."""
    not_compared: Sequence[str] = ()
    """Columns whose values were not compared, although those of the others were."""
    lost_data_files: Collection[str] = ()
    """Of the old table: what is in them counts as deleted."""
    others: Mapping[str | None, tuple[int, int]] = field(default_factory=dict)
    """By the source that they name, None: none, how many rows of others the old table has, and the new one, if it has
    fewer."""
    problem: str | None = None
    """Why rows were not counted: then `deleted`, `others` and `changed` are not known."""
    lacking: list[str] = field(default_factory=list)
    """All of `missing`."""

    def is_complete(self, accepted: Accepted) -> bool:
        is_lost = self.gone.count or self.refused.count or self.fewer_rows.count
        is_unknown = self.problem is not None
        return (
            not self.missing.count
            and (accepted.gone or not is_lost)
            and (accepted.others or not (self.others or is_unknown))
            and (accepted.deleted or not (self.deleted.count or is_unknown))
            and (accepted.changed or not (self.changed.count or is_unknown))
        )

    def as_document(self) -> dict[str, Any]:
        kinds = ("missing", "gone", "refused", "fewer_rows", "overwritten", "other_rows", "deleted", "changed")
        return {
            "source": self.source,
            "files": self.files,
            "rows": self.rows,
            "new_files": self.new_files,
            "new_rows": self.new_rows,
            **{kind: getattr(self, kind).count for kind in kinds},
            "deleted_rows": self.deleted_rows,
            "changed_rows": self.changed_rows,
            "not_compared": [*self.not_compared],
            "lost_data_files": len(self.lost_data_files),
            "problem": self.problem,
            "names": {kind: getattr(self, kind).names for kind in kinds if getattr(self, kind).count},
        }

    def others_as_document(self) -> list[dict[str, Any]]:
        return [
            {"source": source, "rows": rows, "new_rows": new_rows}
            for source, (rows, new_rows) in sorted(self.others.items(), key=lambda each: each[0] or "")
        ]


def compared_tables(old: Parts, new: Parts, count_old: RowCounter, count_new: RowCounter) -> Comparison:
    """Of the newest state of both. Raises RecoveryError if the old table does not say which files are in it."""

    def existing(paths: Collection[str]) -> Collection[str]:
        return FileSizes(old.files)(paths)

    before, held_before = _entries(old, count_old, is_old=True)
    after, held_after = _entries(new, count_new, is_old=False)
    problem = held_before.problem or held_after.problem
    held = None if problem is not None else (held_before.files(), held_after.files())
    is_lost, check = bool(held_before.lost), count_old.check
    found = compared(old.source_id, before, after, existing, held, may_be_lost=is_lost, check=check)
    found.problem, found.lost_data_files = problem, held_before.lost
    if count_old.known is not None:
        found.others = _others(held_before, held_after, count_old.known)
    _compare_values(found, held_before, held_after)
    return found


def _compare_values(found: Comparison, old: HeldRows, new: HeldRows) -> None:
    if old.values is None or new.values is None:
        return
    changed, found.not_compared = changed_values(old.values, new.values, old.folder / "values")
    found.changed_rows = sum(changed.values())
    for path in sorted(changed):
        found.changed.add(path)


def _others(old: HeldRows, new: HeldRows, known: Collection[str]) -> dict[str | None, tuple[int, int]]:
    counts = {source: (rows, new.others.get(source, 0)) for source, rows in old.others.items() if source not in known}
    return {source: (rows, rows_now) for source, (rows, rows_now) in counts.items() if rows_now < rows}


def _entries(
    parts: Parts, count: RowCounter, *, is_old: bool, tries: int = _VERSIONS_TRIED
) -> tuple[Iterator[LedgerEntry], HeldRows]:
    """And the rows, of one version of the table, unless a job commits each time that this is read: then rows of commits
    that the entries do not have yet may be among them."""
    version, keeper = parts.table.newest_version(), parts.keeper()
    checkpoint: Checkpoint = parts.recovered(keeper, moved=True).checkpoint
    if is_old:
        _refuse_rows_without_files(parts, checkpoint)
    newest = parts.table.newest_version()
    if tries > 1 and newest != version:
        return _entries(parts, count, is_old=is_old, tries=tries - 1)
    held = count(checkpoint, newest)
    count_files(keeper, checkpoint)  # fills what is lost
    return keeper.entries(checkpoint) if checkpoint.sequence >= 0 else iter(()), held


def _refuse_rows_without_files(old: Parts, checkpoint: Checkpoint) -> None:
    if checkpoint.before_ledger_ts is not None and old.table.holds_rows_of_nobody():
        raise RecoveryError(
            f"the table holds rows of source {old.source_id} that do not name their files, since the first Blizzard "
            "wrote them: nothing shows whether another table has them all. Compare the tables yourself, then stop the "
            "jobs and change `table_uri` by hand."
        )


def compared(
    source: str,
    old: Iterable[LedgerEntry],
    new: Iterable[LedgerEntry],
    existing: Existing,
    held: tuple[Iterable[tuple[str, Contents]], Iterable[tuple[str, Contents]]] | None = None,
    *,
    may_be_lost: bool = False,
    check: Check = never,
) -> Comparison:
    """The ledgers of both tables, and the rows that these hold, in the order of a listing; None: only the ledgers are
    compared. `may_be_lost`: whether data files of the old table cannot be read. `check`: ends it between files."""
    found, absent = Comparison(source), list[Side]()
    old_rows, new_rows = held or ((), ())
    marked = merge(
        ((entry.path, 0, entry) for entry in old),
        ((entry.path, 1, entry) for entry in new),
        ((path, 2, contents) for path, contents in old_rows),
        ((path, 3, contents) for path, contents in new_rows),
        key=itemgetter(0),
    )
    for path, group in groupby(marked, key=itemgetter(0)):
        check()
        sides: dict[int, Any] = {side: value for _, side, value in group}
        nothing: Contents | None = None if held is None else {}
        before, after = (Side(sides.get(n), sides.get(2 + n, nothing)) for n in (0, 1))
        _count(found, before, after)
        if before.entry is None and before.rows:  # no commit has brought them
            before = before._replace(entry=_of_rows(path, before, after))
        if before.entry is not None and not after.is_settled:
            absent.append(before)
        elif before.entry is not None:
            _compare_file(found, before, after)
        if len(absent) >= _PATHS_AT_ONCE:
            _judge_absent(found, absent, existing, may_be_lost=may_be_lost)
    _judge_absent(found, absent, existing, may_be_lost=may_be_lost)
    return found


def _of_rows(path: str, before: Side, after: Side) -> LedgerEntry:
    """As if the ledger had them."""
    etags = [*(before.held or {"": NO_ROWS})]
    etag = after.entry.etag if after.entry is not None and after.entry.etag in etags else etags[0]
    rows = 0 if before.held is None else before.held[etag].rows
    return LedgerEntry(path, 0, etag, 0, 0, rows, 0, FileState.DONE)


def _count(found: Comparison, before: Side, after: Side) -> None:
    found.files, found.rows = found.files + (before.entry is not None), found.rows + before.rows
    found.new_files, found.new_rows = found.new_files + (after.entry is not None), found.new_rows + after.rows


def _compare_file(found: Comparison, before: Side, after: Side) -> None:
    assert before.entry is not None
    assert after.entry is not None
    path = before.entry.path
    if before.rows and after.entry.state is FileState.FAILED:
        found.refused.add(path)
    elif before.entry.etag != after.entry.etag:
        found.overwritten.add(path)
    elif _has_more(before, after):
        found.fewer_rows.add(path)
    elif _has_earlier_contents(before, after):
        found.overwritten.add(path)
    elif before.rows != after.rows:
        found.other_rows.add(path)
    back = min(after.rows, before.lacks(before.entry.etag) - after.lacks(before.entry.etag))
    if back > 0:
        found.deleted.add(path)
        found.deleted_rows += back


def _has_more(before: Side, after: Side) -> bool:
    """Whether the old table has rows of this content that the new one lacks. Rows are known by their numbers."""
    assert before.entry is not None
    assert after.entry is not None
    if before.held is None or after.held is None:
        return before.entry.rows > after.entry.rows
    etag = before.entry.etag
    was, now = (side.held.get(etag, NO_ROWS) if side.held else NO_ROWS for side in (before, after))
    if was.rows == now.rows:
        return was.checksum != now.checksum
    return was.rows > now.rows or (was.rows > 0 and before.entry.rows > after.entry.rows)


def _has_earlier_contents(before: Side, after: Side) -> bool:
    """Whether the old table still has rows of contents that were overwritten, and that the new one lacks."""
    assert before.entry is not None
    now = after.held or {}
    return any(
        etag != before.entry.etag and was.rows > now.get(etag, NO_ROWS).rows
        for etag, was in (before.held or {}).items()
    )


def _judge_absent(found: Comparison, absent: list[Side], existing: Existing, *, may_be_lost: bool) -> None:
    """Files without rows of which the source has no object are nothing that could be lost."""
    entries = [side.entry for side in absent if side.entry is not None]
    there = existing([entry.path for entry in entries])
    for side, entry in zip(absent, entries, strict=True):
        if entry.path in there:
            found.missing.add(entry.path)
            found.lacking.append(entry.path)
        elif side.rows or (may_be_lost and entry.rows):
            found.gone.add(entry.path)
    absent.clear()
