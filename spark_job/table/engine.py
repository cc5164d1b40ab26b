"""What a table needs of the engine that reads it and commits to it."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql.types import StructField, StructType

from blizzard.ledger.entry import LedgerEntry
from blizzard.state.run_ref import SequenceRange
from spark_job.ports.table import NO_TXNS, FileVersion, SourceFile, Txn, Txns
from spark_job.table.configured_changes import Widening
from spark_job.table.file_layout import TableDescription
from spark_job.write.data_file import DataFile


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that does not exist yet. All columns are nullable."""

    schema: StructType
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    cluster_by: tuple[str, ...] = ()


class Transaction(Protocol):
    """A commit to one version of the table, until it is made."""

    @property
    def version(self) -> int:
        """The version that it starts on; -1: there is no table."""
        ...

    def description(self) -> TableDescription:
        """The table after this commit."""
        ...

    def stats_columns(self) -> Sequence[str]:
        """Dotted paths of the fields for which the table keeps statistics."""
        ...

    def txn_version(self, app_id: str) -> int | None:
        """The newest Txn of this app id. After this call a concurrent commit of the same app id is a conflict."""
        ...

    def add_txns(self, txns: Mapping[str, int]) -> None:
        """Let the commit also have these Txns, by app id. After this call a concurrent commit of one of them is a
        conflict."""
        ...

    def create_table(self, table: NewTable) -> None:
        """Let the commit also create the table."""
        ...

    def change_schema(self, schema: StructType, *, widens: bool, properties: Mapping[str, str]) -> None:
        """Let the commit also change the columns of a table that exists, and these of its properties. `widens`: also
        types of columns, see `TableEngine.why_no_widening`."""
        ...

    def commit(self, files: Sequence[DataFile], *, app_id: str, sequence: int, user_metadata: str) -> int:
        """Add existing data files, with `sequence` as the Txn version of `app_id`. Returns the table's version.

        Raises LostRace when another commit of the same app id or a change of the table came first, RetryableError when
        another change interfered and nothing was committed, PermanentError when the table refuses the files, and
        CommitOutcomeUnknown after any other error: it may have been committed.
        """
        ...


class TableEngine(Protocol):
    """One table, as an engine reads it and commits to it for one source. Methods raise BlizzardError, or errors that
    `translating` turns into one."""

    def translating(self, action: str) -> AbstractContextManager[None]:
        """Translates the engine's errors in work that commits nothing. `action` begins their text."""
        ...

    def why_no_transactions(self) -> str | None:
        """Why this engine adds existing files to no table at all; None if it does."""
        ...

    def why_no_widening(self) -> str | None:
        """Why this engine widens no types of columns; None if it does. May start another engine, which does."""
        ...

    def check_writer(self, reason: str | None) -> None:
        """Before rows are read that the engine's own writer will have to write (`rewrite`): for this `reason`, or to
        replace others if that is None. Raises PermanentError if the engine has no such writer."""
        ...

    def start(self, *, newest: bool = True) -> Transaction:
        """`newest`: on the newest version; otherwise on the one that this process has seen last, without a request."""
        ...

    def check_changes(
        self, added: Sequence[StructField], widened: Sequence[Widening], constraints: Mapping[str, str]
    ) -> None:
        """Before any of them is made, as the methods below take them. Raises PermanentError if one of them cannot be
        made, or if a row of the table violates a constraint; commits nothing."""
        ...

    def add_columns(self, columns: Sequence[StructField], properties: Mapping[str, str]) -> None:
        """Add nullable columns, in a commit of their own. A struct column that the table has gets those of the struct's
        fields that it lacks. `properties`: of the table, which it gets with them, or, by Spark, in the next commit."""
        ...

    def widen_columns(self, widened: Sequence[Widening]) -> None:
        """Change the types of columns, or in them, to wider ones."""
        ...

    def add_constraints(self, constraints: Mapping[str, str]) -> None:
        """Add CHECK constraints, by name, each in a commit of its own. Raises PermanentError if a row of the table
        violates one."""
        ...

    def types_of(self, expressions: Mapping[str, str], columns: StructType) -> StructType:
        """The types of expressions over these columns, by name. Raises PermanentError for one that is none, or that
        depends on more than the row."""
        ...

    def rewrite(
        self,
        staged: Sequence[DataFile],
        schema: StructType,
        *,
        sequence: int,
        user_metadata: str,
        replaced: Sequence[str] | None = None,
        new_table: NewTable | None = None,
        further_txns: Txns = NO_TXNS,
    ) -> None:
        """Write the rows of staged files into the table with the engine's own writer, as one commit of the source's
        Txn. `schema`: of the rows; `replaced`: paths of the source whose rows are removed; `new_table`: if it has to be
        made; `further_txns`: those that the commit has as well, if it replaces nothing. Errors as for
        `Transaction.commit`. A Txn version that the table already has may be skipped silently."""
        ...

    def txn_version(self, app_id: str) -> int | None:
        """From the table's snapshot: exact even after log clean-up."""
        ...

    def txns(self) -> Sequence[Txn]:
        """The newest Txn of each app id."""
        ...

    def data_file_paths(self) -> set[str]:
        """Paths of the table's files, and of removed ones that the log still names; relative to the table's folder."""
        ...

    def warm_up(self) -> bool:
        """Do in advance what a later commit would wait for. False: the table was skipped, since it would take long.
        Commits nothing, delays no commit, and may raise any error. Called on another thread."""
        ...

    # -- rows

    def has_source_column(self) -> bool: ...

    def holds_rows(self) -> bool:
        """Whether there are rows of this source."""
        ...

    def holds_rows_of_nobody(self) -> bool:
        """Whether there are rows without `_source.source`."""
        ...

    def newest_sequence(self) -> int | None:
        """The highest `_source.sequence` of the source's rows; None if it has none."""
        ...

    def last_rows(self, *, after_sequence: int) -> Mapping[FileVersion, int]:
        """The highest `_source.row` of each content of the source's files that commits after `after_sequence`
        (exclusive) brought."""
        ...

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        """As `FileTable` has it."""
        ...

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        """The source's files of these commits, as far as the table has rows of them."""
        ...

    def newest_files_of_others(self, known: frozenset[str], limit: int) -> Sequence[SourceFile]:
        """The newest files of sources that are not `known`, newest first."""
        ...
