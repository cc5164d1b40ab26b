"""A table as deltalake reads it, and commits to it, without Spark and without Java."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType

from blizzard.errors import AlreadyExists, BlizzardError, RetryableError
from blizzard.ledger.entry import LedgerEntry
from blizzard.log import Log, first_line
from blizzard.state.delta_log import commit_key
from blizzard.state.run_ref import SequenceRange
from blizzard.state.txns import txns_of
from blizzard.storage.base import ObjectStore
from spark_job.engines.local.delta_errors import DELTALAKE_ERRORS, translating_delta_errors
from spark_job.engines.local.log_file import encoded
from spark_job.engines.local.open_table import OpenTable
from spark_job.engines.local.schema_commit import schema_actions
from spark_job.engines.local.transaction import AppendTransaction, FirstCommit
from spark_job.engines.needs_spark import REPLACING, NeedsSpark, writing_twice
from spark_job.ports.table import NO_TXNS, FileVersion, SourceFile, Txn, Txns
from spark_job.table.columns import needs_mapping, with_added
from spark_job.table.configured_changes import Widening
from spark_job.table.delta_description import describe
from spark_job.table.engine import NewTable, Transaction
from spark_job.table.table_source import TableSource
from spark_job.write.data_file import DataFile

if TYPE_CHECKING:
    from spark_job.engines.local.source_rows import SourceRows


class LocalTable:
    """Implements `TableEngine`. `store` is the table's folder; `opened` may serve other sources, too; `clock` gives
    Unix seconds."""

    def __init__(
        self,
        source: TableSource,
        store: ObjectStore,
        opened: OpenTable,
        *,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        self._source = source
        self._uri = source.table_uri
        self._store = store
        self._clock = clock
        self._log = log
        self._opened = opened

    def translating(self, action: str) -> AbstractContextManager[None]:
        return translating_delta_errors(action)

    # -- commits

    def why_no_transactions(self) -> str | None:
        """Raises NeedsSpark for a table that only Spark can commit to, so that Spark is asked before it has to."""
        self._opened.last_seen()
        return None

    def why_no_widening(self) -> str | None:
        return "widening a column: deltalake commits to no table with widened columns"

    def check_writer(self, reason: str | None) -> None:
        """There is none: deltalake's commits notice neither that another one has rewritten a data file which they
        remove, nor that the log writes the file's path in another way than they do. Both would double rows."""
        raise NeedsSpark(f"{REPLACING} table {self._uri}") if reason is None else writing_twice(self._uri, reason)

    def start(self, *, newest: bool = True) -> Transaction:
        table = self._opened.newest() if newest else self._opened.last_seen()
        if table is None:
            return FirstCommit(self._store, self._uri, self._clock)
        return AppendTransaction(self._opened, table, self._store, self._clock, self._log)

    def check_changes(
        self, added: Sequence[StructField], widened: Sequence[Widening], constraints: Mapping[str, str]
    ) -> None:
        if widened:
            self.widen_columns(widened)
        if constraints:
            self.add_constraints(constraints)
        if self._opened.newest() is not None:
            self._check_columns(added)

    def _check_columns(self, added: Sequence[StructField]) -> None:
        if needs_mapping(StructType([*added])):
            raise NeedsSpark(f"column {added[0].name!r}, whose name table {self._uri} has only by column mapping")

    def add_columns(self, columns: Sequence[StructField], properties: Mapping[str, str]) -> None:
        """Whatever the error, the next attempt looks what the table has then."""
        self._check_columns(columns)
        table = self._opened.newest()
        if table is None:
            return
        found, origin = describe(table), self._source.origin_of(column.name for column in columns)
        schema = with_added(found.schema, columns)
        after = replace(found, schema=schema, properties={**found.properties, **properties})
        version, now_ms = table.version() + 1, round(self._clock() * 1000)
        actions = schema_actions(table, after, now_ms, origin.encode())
        try:
            self._store.create(commit_key(version), encoded(actions))
        except AlreadyExists as error:
            raise RetryableError(
                f"changing table {self._uri}: another commit has made its version {version} meanwhile. Nothing was "
                "committed; it can be retried."
            ) from error
        try:
            table.update_incremental()
            self._opened.committed(table, version - 1, added=0)
        except (BlizzardError, *DELTALAKE_ERRORS) as error:
            self._opened.forget()
            raise RetryableError(
                f"table {self._uri} has its new columns, by version {version}, and then an error came: "
                f"{type(error).__name__}: {first_line(str(error))}. No rows were committed; it can be tried again."
            ) from error
        self._opened.goes_on(table)

    def widen_columns(self, widened: Sequence[Widening]) -> None:
        """deltalake neither changes types nor commits to tables whose types have changed."""
        raise NeedsSpark(f"widening column {widened[0].text} in table {self._uri}")

    def add_constraints(self, constraints: Mapping[str, str]) -> None:
        """deltalake would check the rows that are there, but by another reading of the expression than Spark's."""
        raise NeedsSpark(f"adding constraint {', '.join(constraints)} to table {self._uri}, which exists already")

    def types_of(self, expressions: Mapping[str, str], columns: StructType) -> StructType:
        raise NeedsSpark("; ".join(f"evaluating column {name}: {sql}" for name, sql in expressions.items()))

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
        self.check_writer("rows that are staged already" if replaced is None else None)

    # -- the snapshot

    def txn_version(self, app_id: str) -> int | None:
        table = self._opened.newest()
        return None if table is None else table.transaction_version(app_id)

    def txns(self) -> Sequence[Txn]:
        return txns_of(self._store)

    def data_file_paths(self) -> set[str]:
        raise NeedsSpark("looking for data files that no commit has")

    def warm_up(self) -> bool:
        return False

    # -- rows

    def has_source_column(self) -> bool:
        table = self._opened.newest()
        return table is not None and "_source" in describe(table).schema.names

    def holds_rows(self) -> bool:
        return self._rows().exist()

    def holds_rows_of_nobody(self) -> bool:
        return self._rows().of_nobody_exist()

    def newest_sequence(self) -> int | None:
        return self._rows().newest_sequence()

    def last_rows(self, *, after_sequence: int) -> Mapping[FileVersion, int]:
        return self._rows().last_rows(after_sequence=after_sequence)

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        return self._rows().present(wanted)

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        return self._rows().files_of_commits(sequences)

    def newest_files_of_others(self, known: frozenset[str], limit: int) -> Sequence[SourceFile]:
        return self._rows().newest_files_of_others(known, limit)

    def _rows(self) -> "SourceRows":
        from spark_job.engines.local.source_rows import SourceRows

        table = self._opened.newest()
        if table is None:
            raise NeedsSpark(f"reading table {self._uri}, which has just disappeared")
        return SourceRows(table, self._store, self._source.source_id)
