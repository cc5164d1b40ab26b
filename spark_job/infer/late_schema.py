"""The table and the reader of a source whose schema is that of its table, or, of a table that does not exist yet, is
inferred from the first batch of files, or the first messages."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from blizzard.config import ddl
from blizzard.config.field_places import in_place
from blizzard.errors import PermanentError, RetryableError
from blizzard.ledger.entry import LedgerEntry
from blizzard.state.batch import PlannedFile
from blizzard.state.delta_log import Commit
from blizzard.state.run_ref import SequenceRange
from blizzard.state.schema_changes import FieldChange, SchemaChange
from blizzard.state.schema_origin import First
from spark_job.infer.first_records import Inferred
from spark_job.ports.offset_range import OffsetRange
from spark_job.ports.reader import FileRows, RangesReader, Reader
from spark_job.ports.rows import Rows
from spark_job.ports.table import NO_TXNS, FileTable, FileVersion, SchemaProposal, SourceFile, Txn, Txns

R = TypeVar("R", bound=Rows)
F = TypeVar("F", bound=FileRows)
W = TypeVar("W", bound=Rows, contravariant=True)


class WarmTable(FileTable[W], Protocol):
    """A table that can do in advance what a later commit would wait for."""

    def warm_up(self) -> bool: ...


class LateSchema(Generic[R]):
    """Implements `FileTable`, by a table that is made anew for each schema.

    `make`: a table with this schema in DDL; `new`: whether its first commit must create it; `first`: of an inferred
    one. `columns`: the schema of the table as it is, in DDL; empty if it has no column of its own yet, None if there is
    no table. Before each first batch, and after each lost race, `prepare` asks for it again. `needs_columns`: whether
    no table is made before its columns are known.
    """

    def __init__(
        self, make: Callable[..., WarmTable[R]], columns: Callable[[], str | None], *, needs_columns: bool = False
    ) -> None:
        self._make = make
        self._columns = columns
        self._needs_columns = needs_columns
        self._table: WarmTable[R] = make("", new=False, first=None)
        self._is_absent = True
        self._first: First | None = None
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
        """Whether records can be read. The schema of a table that was made since is that of the table."""
        self._look_again()
        return bool(self.schema)

    def settle(self, inferred: Inferred) -> None:
        """If there was no table before, the commit creates it with these columns, and is a lost race if another one
        creates it first."""
        if self._is_absent:
            self._begin(inferred.schema, new=True, first=inferred.first)
        else:
            self._add(inferred)

    def _add(self, inferred: Inferred) -> None:
        """To a table without columns, unless another job or source has been faster: then its columns are the schema."""
        known = self._columns()
        self._begin(known or inferred.schema, new=False, first=None if known else inferred.first)
        try:
            self._table.prepare()
        except PermanentError as error:
            if self._columns():
                raise RetryableError(f"the table has got its columns just now, from another job: {error}") from error
            raise

    def _look_again(self) -> None:
        """A table that was not there when it was prepared for may be there now."""
        if self._is_absent and self.newest_version() >= 0:
            self.prepare()

    def _begin(self, schema: str, *, new: bool, first: First | None = None) -> None:
        self.schema, self._first = schema, first
        self._table = self._make(schema, new=new, first=first)

    def takes_states(self) -> bool:
        self._look_again()
        return bool(self.schema) or not (self._is_absent and self._needs_columns)

    def inferred_columns(self) -> Sequence[FieldChange]:
        if self._first is None or not self._is_absent or self.newest_version() >= 0:
            return ()
        records, file = self._first
        return [
            FieldChange(in_place(column.name), str(column.type), None, records, file, inferred=True)
            for column in ddl.parse(self.schema).columns
        ]

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

    def files_of_others(self) -> Sequence[SourceFile]:
        return self._table.files_of_others()

    def last_rows_after(self, sequence: int) -> Mapping[FileVersion, int]:
        return self._table.last_rows_after(sequence)

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        return self._table.rows_present(wanted)

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        return self._table.files_of_commits(sequences)

    def propose_change(self, rows: R) -> SchemaProposal:
        return self._table.propose_change(rows)

    def change_schema(
        self, change: SchemaChange, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS
    ) -> None:
        self._table.change_schema(change, sequence=sequence, user_metadata=user_metadata, further_txns=further_txns)

    def append(self, rows: R | None, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS) -> None:
        self._table.append(rows, sequence=sequence, user_metadata=user_metadata, further_txns=further_txns)

    def replace(self, rows: R, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        self._table.replace(rows, paths, sequence=sequence, user_metadata=user_metadata)

    def warm_up(self) -> bool:
        return self._table.warm_up()


class LateReader(Generic[F]):
    """Implements `Reader`. `infer`: the schema of these files. `make`: a reader for the table of now."""

    def __init__(
        self,
        late: LateSchema[F],
        infer: Callable[[Sequence[PlannedFile]], Inferred],
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


class LateRangesReader(Generic[F]):
    """Implements `RangesReader`. `infer`: the schema of the messages from the beginnings of these ranges on; None if
    there are none. `make`: a reader for the table of now."""

    def __init__(
        self,
        late: LateSchema[F],
        infer: Callable[[Sequence[OffsetRange]], Inferred | None],
        make: Callable[[WarmTable[F]], RangesReader[F]],
    ) -> None:
        self._late = late
        self._infer = infer
        self._make = make

    def read_ranges(self, ranges: Sequence[OffsetRange], *, sequence: int) -> F | None:
        """Raises PermanentError if no schema can be inferred."""
        if not self._late.is_known():
            inferred = self._infer(ranges)
            if inferred is None:
                return None
            self._late.settle(inferred)
        return self._make(self._late.table).read_ranges(ranges, sequence=sequence)
