"""The table and the reader of a source whose schema is that of its table, or, of a table that does not exist yet, is
inferred from the first batch."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from blizzard.ledger.entry import LedgerEntry
from blizzard.state.batch import PlannedFile
from blizzard.state.delta_log import Commit
from blizzard.state.run_ref import SequenceRange
from blizzard.state.schema_changes import SchemaChange
from spark_job.ports.reader import FileRows, Reader
from spark_job.ports.rows import Rows
from spark_job.ports.table import NO_TXNS, FileTable, FileVersion, SchemaProposal, Txn, Txns

R = TypeVar("R", bound=Rows)
F = TypeVar("F", bound=FileRows)
W = TypeVar("W", bound=Rows, contravariant=True)


class WarmTable(FileTable[W], Protocol):
    """A table that can do in advance what a later commit would wait for."""

    def warm_up(self) -> bool: ...


class LateSchema(Generic[R]):
    """Implements `FileTable`, by a table that is made anew for each schema.

    `make`: a table with this schema in DDL; `new`: whether its first commit must create it. `columns`: the schema of
    the table as it is, in DDL; empty if it has no column of its own yet, None if there is no table. Before each first
    batch, and after each lost race, `prepare` asks for it again. `names_columns`: whether a table is made with more
    than its columns: with some of them as partitions, or with constraints.
    """

    def __init__(
        self, make: Callable[..., WarmTable[R]], columns: Callable[[], str | None], *, names_columns: bool = False
    ) -> None:
        self._make = make
        self._columns = columns
        self._names_columns = names_columns
        self._table: WarmTable[R] = make("", new=False)
        self._is_new = False
        self._is_absent = True
        self.schema = ""
        """In DDL; empty if it is not known yet."""

    @property
    def table(self) -> WarmTable[R]:
        """The one with the schema of now."""
        return self._table

    def prepare(self) -> None:
        columns = self._columns()
        self._is_absent = columns is None
        self._begin(columns or "", new=False)
        if self.schema:
            self._table.prepare()

    def is_known(self) -> bool:
        """Whether records can be read. The schema of a table that this process has created is then that of the
        table."""
        if self._is_new and self.newest_version() >= 0:
            self.prepare()
        return bool(self.schema)

    def settle(self, schema: str) -> None:
        """The inferred schema. If there was no table before, the commit creates it with these columns, and is a lost
        race if another one creates it first."""
        self._begin(schema, new=self._is_absent)
        if not self._is_absent:
            self._table.prepare()

    def _begin(self, schema: str, *, new: bool) -> None:
        self.schema, self._is_new = schema, new
        self._table = self._make(schema, new=new)

    def takes_states(self) -> bool:
        return bool(self.schema) or not (self._is_absent and self._names_columns)

    # -- as the table of now

    def newest_version(self) -> int:
        return self._table.newest_version()

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        return self._table.commits(limit, above=above)

    def commit_at(self, version: int) -> Commit | None:
        return self._table.commit_at(version)

    def checkpoints_at(self, version: int) -> bool:
        return self._table.checkpoints_at(version)

    def txn_version(self, app_id: str) -> int | None:
        return self._table.txn_version(app_id)

    def txns(self) -> Sequence[Txn]:
        return self._table.txns()

    def orphan_files(self) -> Sequence[str]:
        return self._table.orphan_files()

    def holds_rows(self) -> bool:
        return self._table.holds_rows()

    def holds_rows_of_nobody(self) -> bool:
        return self._table.holds_rows_of_nobody()

    def newest_sequence(self) -> int | None:
        return self._table.newest_sequence()

    def sources_of_others(self) -> Sequence[str]:
        return self._table.sources_of_others()

    def last_rows_after(self, sequence: int) -> Mapping[FileVersion, int]:
        return self._table.last_rows_after(sequence)

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        return self._table.rows_present(wanted)

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        return self._table.files_of_commits(sequences)

    def propose_change(self, rows: R) -> SchemaProposal:
        return self._table.propose_change(rows)

    def change_schema(self, change: SchemaChange, *, sequence: int, user_metadata: str) -> None:
        self._table.change_schema(change, sequence=sequence, user_metadata=user_metadata)

    def append(self, rows: R | None, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS) -> None:
        self._table.append(rows, sequence=sequence, user_metadata=user_metadata, further_txns=further_txns)

    def replace(self, rows: R, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        self._table.replace(rows, paths, sequence=sequence, user_metadata=user_metadata)

    def warm_up(self) -> bool:
        return self._table.warm_up()


class LateReader(Generic[F]):
    """Implements `Reader`. `infer`: the schema of these files in DDL. `make`: a reader for the table of now."""

    def __init__(
        self,
        late: LateSchema[F],
        infer: Callable[[Sequence[PlannedFile]], str],
        make: Callable[[WarmTable[F]], Reader[F]],
    ) -> None:
        self._late = late
        self._infer = infer
        self._make = make

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> F:
        """Raises PermanentError if no schema can be inferred."""
        if not self._late.is_known():
            self._late.settle(self._infer(files))
        return self._make(self._late.table).read(files, sequence=sequence, replacing=replacing)
