"""A Delta table in memory, with the semantics that the ingest loop depends on."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from blizzard.errors import CommitOutcomeUnknown, LostRace, RetryableError
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.dead_letters import DeadLetter, DeadLetters
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.run_ref import SequenceRange
from blizzard.state.schema_changes import FieldChange, SchemaChange
from blizzard.state.unknown_fields import NO_FIELDS, UnknownFields
from spark_job.ports.reader import Outcome
from spark_job.ports.rows import Rows
from spark_job.ports.table import FileVersion, SchemaProposal, SourceFile, Txn
from tests.unit.watched_calls import Calls, Clock


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table with its `_source`."""

    source: str
    path: str
    row: int
    etag: str
    value: str
    sequence: int
    columns: frozenset[str] = frozenset()
    """Those that the reader knew, beside the one of `value`."""


@dataclass(slots=True)
class MemoryDelta:
    """A Delta table: its commits and the rows that they left.

    Each of the next commits takes one of `faults`: "lost" raises before anything is written, "answer lost" after the
    commit. `before_commit` runs once, after a commit has read the table and before it writes.
    """

    commits: list[Commit] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    ever_committed: list[str | None] = field(default_factory=list)
    before_commit: Callable[[], object] | None = None
    cleaned_up: int = 0
    """Commits whose files are gone; their Txns are in Delta's checkpoint."""
    orphan_files: list[str] = field(default_factory=list)
    columns: frozenset[str] = frozenset()
    """Those that files have brought."""
    rows_of_nobody: bool = False
    """Whether it also has rows that do not name their source."""

    def last_txn(self, app_id: str) -> int | None:
        versions = [commit.txns[app_id] for commit in self.commits if app_id in commit.txns]
        return max(versions, default=None)

    def create(self) -> None:
        if not self.commits:
            self.commits.append(Commit(0, {}, None, None))

    def commit(
        self,
        added: Iterable[Row],
        app_id: str,
        sequence: int,
        user_metadata: str | None,
        *,
        without: Iterable[str] = (),
        columns: frozenset[str] = frozenset(),
    ) -> None:
        """As Delta does: skip a sequence that is not above the last Txn, refuse a commit that another one overtook."""
        read_version, read_columns = len(self.commits), self.columns
        if self._has_txn(app_id, sequence):
            return
        self._overtake()
        if any(app_id in commit.txns for commit in self.commits[read_version:]):
            raise LostRace(f"{app_id}: another commit of the same source came first")
        if self.columns != read_columns:
            raise LostRace("another commit has changed the metadata")
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "lost":
            raise CommitOutcomeUnknown("the connection broke before anything was written")
        gone = set(without)
        self.rows = [row for row in self.rows if row.path not in gone] + list(added)
        self.commits.append(Commit(len(self.commits), {app_id: sequence}, user_metadata, None))
        self.columns |= columns
        self.ever_committed.append(user_metadata)
        if fault == "answer lost":
            raise CommitOutcomeUnknown("the connection broke before the answer came")

    def _has_txn(self, app_id: str, sequence: int) -> bool:
        last = self.last_txn(app_id)
        return last is not None and last >= sequence

    def _overtake(self) -> None:
        action, self.before_commit = self.before_commit, None
        if action is not None:
            action()

    def spoil(self, version: int, user_metadata: str | None = "{torn") -> None:
        """Make the `userMetadata` of a commit unreadable."""
        self.commits[version] = replace(self.commits[version], user_metadata=user_metadata)


class MemoryTable:
    """The table as one source sees it."""

    def __init__(self, delta: MemoryDelta, identity: SourceIdentity, calls: Calls) -> None:
        self._delta = delta
        self._identity = identity
        self._calls = calls

    def prepare(self) -> None:
        self._calls("prepare")
        self._delta.create()

    def newest_version(self) -> int:
        self._calls("newest_version")
        return len(self._delta.commits) - 1

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        self._calls("commits")
        there = self._delta.commits[self._delta.cleaned_up :]
        newest_first = [commit for commit in reversed(there) if commit.version > above]
        return iter(newest_first[:limit])

    def commit_at(self, version: int) -> Commit | None:
        self._calls("commit_at")
        return next((commit for commit in self._delta.commits if commit.version == version), None)

    def takes_states(self) -> bool:
        return True

    def checkpoints_at(self, version: int) -> bool:
        return version > 0 and version % 10 == 0

    def txn_version(self, app_id: str) -> int | None:
        self._calls("txn_version")
        return self._delta.last_txn(app_id)

    def txns(self) -> list[Txn]:
        self._calls("txns")
        commits = self._delta.commits
        return [Txn(app_id, n, commit.committed_ts) for commit in commits for app_id, n in commit.txns.items()]

    def orphan_files(self) -> list[str]:
        self._calls("orphan_files")
        return [*self._delta.orphan_files]

    def holds_rows(self) -> bool:
        self._calls("holds_rows")
        return any(True for _ in self._rows())

    def holds_rows_of_nobody(self) -> bool:
        self._calls("holds_rows_of_nobody")
        return self._delta.rows_of_nobody

    def newest_sequence(self) -> int | None:
        self._calls("newest_sequence")
        return max((row.sequence for row in self._rows()), default=None)

    def files_of_others(self) -> Sequence[SourceFile]:
        self._calls("files_of_others")
        others = (row for row in self._delta.rows if row.source != self._identity.source_id)
        return [*dict.fromkeys(SourceFile(row.source, row.path, row.etag) for row in others)]

    def last_rows_after(self, sequence: int) -> Mapping[FileVersion, int]:
        self._calls("last_rows_after")
        found: dict[FileVersion, int] = {}
        for row in self._rows():
            content = FileVersion(row.path, row.etag)
            if row.sequence > sequence:
                found[content] = max(found.get(content, -1), row.row)
        return found

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        self._calls("rows_present")
        found: dict[FileVersion, set[int]] = {}
        for row in self._rows():
            if row.path in wanted:
                numbers = found.setdefault(FileVersion(row.path, row.etag), set())
                numbers.update({row.row} & {*wanted[row.path]})
        return {content: frozenset(numbers) for content, numbers in found.items()}

    def files_of_commits(self, sequences: SequenceRange) -> list[LedgerEntry]:
        self._calls("files_of_commits")
        found = Counter(
            (row.path, row.sequence, row.etag)
            for row in self._rows()
            if sequences.first <= row.sequence <= sequences.last
        )
        return [
            LedgerEntry(path, sequence, etag, 0, 0, rows, 0, FileState.DONE)
            for (path, sequence, etag), rows in found.items()
        ]

    def inferred_columns(self) -> Sequence[FieldChange]:
        return ()

    def propose_change(self, rows: Rows) -> SchemaProposal:
        """As the product's: the rows have to be read with the columns that the table has."""
        assert isinstance(rows, MemoryRows)
        if not rows.unknown_fields.fields:
            return SchemaProposal()
        self._calls("propose_change")
        if rows.columns != self._delta.columns:
            raise RetryableError(f"the rows were read with {rows.columns}, the table has {self._delta.columns}")
        fields = [FieldChange(one.name, "string", None, one.records, one.file) for one in rows.unknown_fields.fields]
        return SchemaProposal(SchemaChange(tuple(fields)))

    def change_schema(self, change: SchemaChange, *, sequence: int, user_metadata: str) -> None:
        self._calls("change_schema")
        names = frozenset(field.path for field in change.fields)
        if names & self._delta.columns:
            raise LostRace(f"there are columns {names & self._delta.columns} already")
        self._delta.commit((), self._identity.app_id, sequence, user_metadata, columns=names)

    def append(self, rows: Rows | None, *, sequence: int, user_metadata: str) -> None:
        self._calls("append")
        added = rows.rows if isinstance(rows, MemoryRows) else ()
        if isinstance(rows, MemoryRows) and rows.columns - self._delta.columns:
            raise RetryableError(f"the table has no columns {rows.columns - self._delta.columns}")
        self._delta.commit(added, self._identity.app_id, sequence, user_metadata)

    def replace(self, rows: Rows, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        self._calls("replace")
        assert isinstance(rows, MemoryRows)
        self._delta.commit(rows.rows, self._identity.app_id, sequence, user_metadata, without=paths)

    def _rows(self) -> Iterator[Row]:
        return (row for row in self._delta.rows if row.source == self._identity.source_id)


@dataclass(slots=True)
class MemoryRows:
    """The rows of a batch. `released`: whether `release` was called."""

    outcomes: Sequence[Outcome]
    rows: Sequence[Row]
    letters: Sequence[DeadLetter]
    dead_letters: DeadLetters
    clock: Clock
    write_share: float = 0.0
    released: bool = False
    columns: frozenset[str] = frozenset()
    discarded: bool = False
    unknown_fields: UnknownFields = NO_FIELDS
    misfits: UnknownFields = NO_FIELDS

    def refused_records(self) -> Iterator[DeadLetter]:
        return iter(self.letters)

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def write_dead_records(self, attempt: str = "") -> None:
        self.dead_letters.write_records(self.letters, self.clock(), attempt)

    def discard(self) -> None:
        self.discarded = True

    def release(self) -> None:
        self.released = True
