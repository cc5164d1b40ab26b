"""What the loop needs of the table. Delta implements it, and so does the tests' in-memory table."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from blizzard.ledger.entry import LedgerEntry
from blizzard.state.delta_log import Commit
from blizzard.state.run_ref import SequenceRange
from blizzard.state.schema_changes import FieldChange, SchemaChange
from blizzard.state.txns import Txn as Txn
from spark_job.ports.rows import Rows

R = TypeVar("R", bound=Rows, contravariant=True)
"""The rows that a table can commit."""

Txns = Mapping[str, int]
"""Versions of Txns, by app id."""
NO_TXNS: Txns = MappingProxyType({})


class FieldWish(NamedTuple):
    """What a batch asks of the table's schema: a field that no column is for, or a wider type for a column's values.

    `path`: as in `Parsed.unknown`. `type`: in DDL; None: it could not be inferred. `records`: how many of the batch;
    `file` and `record`: the first of them, counted from 0 in its file, if it is known.
    """

    path: str
    type: str | None
    records: int
    file: str
    record: int | None = None


@dataclass(frozen=True, slots=True)
class SchemaProposal:
    """What of it the source may change: all of `change` in one commit. `refused`: by path, why the rest may not be; its
    values stay where the reader has put them."""

    change: SchemaChange | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


class FileVersion(NamedTuple):
    """One content of a file."""

    path: str
    etag: str


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of which the table has rows, or a partition of a topic, with the topic's id as `etag`."""

    source: str
    path: str
    etag: str


class Table(Protocol[R]):
    """One Delta table, as one source sees it: what a source of any kind needs."""

    def prepare(self) -> None:
        """Add the columns that an existing table lacks. Called once, before the table is queried or written to; reading
        its log needs no preparation. Raises PermanentError when its columns conflict with the source's."""
        ...

    def takes_states(self) -> bool:
        """Whether a commit without rows may be made, after `prepare`. False: it would make a table whose columns are
        not known yet."""
        ...

    def newest_version(self) -> int:
        """-1 when there is no table yet."""
        ...

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        """The newest commits, newest first; only versions greater than `above`."""
        ...

    def commit_at(self, version: int) -> Commit | None:
        """One commit, with one request. None when the log does not have it yet, or no longer."""
        ...

    def checkpoints_at(self, version: int) -> bool:
        """Whether Delta writes its own checkpoint at this version. Makes no request."""
        ...

    def txn_version(self, app_id: str) -> int | None:
        """The newest Txn version of this app id, from the snapshot: exact even after log clean-up, but slow."""
        ...

    def inferred_columns(self) -> Sequence[FieldChange]:
        """Those of a schema that was inferred, if the next commit makes the table with them."""
        ...

    def propose_change(self, rows: R) -> SchemaProposal:
        """What the rows that were read ask of the table's schema. Commits nothing.

        Raises RetryableError if the table's columns have changed since the rows were read: they have to be read again.
        """
        ...

    def change_schema(
        self, change: SchemaChange, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS
    ) -> None:
        """One commit of a change, which may also make the table, with `sequence` as the source's Txn version.
        `further_txns`: as for `append`. Errors as for `append`; LostRace also if the change does not fit any more."""
        ...

    def append(self, rows: R | None, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS) -> None:
        """One commit of rows (None: only of the checkpoint), with `sequence` as the source's Txn version.
        `further_txns`: versions of other app ids that belong to the source, which the commit has as well.

        Raises LostRace when another job committed this source first, CommitOutcomeUnknown when no answer came. A
        version that the table has already seen is skipped without an error, so the caller checks which commit landed.
        """
        ...

    def replace(self, rows: R, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        """One commit that removes all rows of `paths` of this source and adds `rows`; errors as for `append`."""
        ...


class FileTable(Table[R], Protocol):
    """What a source of files needs in addition: questions about the files behind the rows (`_source`)."""

    def txns(self) -> Sequence[Txn]:
        """The newest Txn of every app id of the snapshot, in no order; slow."""
        ...

    def orphan_files(self) -> Sequence[str]:
        """Parquet files in the table's folder that are in no commit. Lists the whole folder."""
        ...

    def holds_rows(self) -> bool:
        """Whether the table holds any row of this source. Raises RecoveryError when a source of files has none, but the
        table holds rows of the same files under a source name that the pipeline no longer has."""
        ...

    def holds_rows_of_nobody(self) -> bool:
        """Whether the table holds rows that do not name their source, such as those of the first Blizzard."""
        ...

    def newest_sequence(self) -> int | None:
        """The highest `_source.sequence` of this source's rows; None if it has none."""
        ...

    def files_of_others(self) -> Sequence[SourceFile]:
        """The newest ones of sources that the pipeline does not have, as rows name them: none if there are no such
        rows."""
        ...

    def last_rows_after(self, sequence: int) -> Mapping[FileVersion, int]:
        """The highest `_source.row` of each content of this source's files that commits after `sequence` (exclusive)
        brought."""
        ...

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        """By path the numbers of wanted rows of this source. The answer has each content of these paths of which there
        is any row, with those of the wanted rows that there are."""
        ...

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        """The files of which the table holds rows that these commits of this source brought, in no order."""
        ...
