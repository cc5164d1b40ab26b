"""The commit of a batch: rows and Txn in one version of the table. A transaction adds the files that tasks have
written. If the table requires the engine's own writer, that reads the staged rows and writes them again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from blizzard.errors import LostRace, PermanentError, RetryableError
from blizzard.state.schema_changes import SchemaChange
from spark_job.ports.stopwatch import Stopwatch
from spark_job.ports.table import NO_TXNS, Txns
from spark_job.table.columns import column_conflicts, missing_columns, nullable_schema, with_stats_of
from spark_job.table.engine import TableEngine, Transaction
from spark_job.table.file_layout import TableDescription, why_spark_must_write
from spark_job.table.further_txns import add_further_txns
from spark_job.table.preparation import TablePreparation
from spark_job.table.staging import Staging
from spark_job.table.table_source import TableSource
from spark_job.table.written_files import WrittenFiles


class TableCommits:
    """Commits of one source. `prepare` adds the columns that the table lacks; `watch` times the Txn lookups."""

    def __init__(
        self,
        engine: TableEngine,
        source: TableSource,
        preparation: TablePreparation,
        staging: Staging,
        *,
        watch: Stopwatch,
        table_exists: Callable[[], bool],
        prepare: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._source = source
        self._uri = source.table_uri
        self._preparation = preparation
        self._staging = staging
        self._watch = watch
        self._table_exists = table_exists
        self._prepare = prepare

    def append(
        self, rows: WrittenFiles | None, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS
    ) -> None:
        if further_txns:
            self._refuse_without_transactions()
        if rows is not None and rows.layout.folder and rows.data_files:
            with self._removing_staged(rows):
                self._prepare()  # another source may have made the table since the batch was planned, with its columns
                self.rewrite(rows, sequence, user_metadata, further_txns=further_txns)
        elif self._transactions_are_supported():
            self._commit_by_transaction(rows, sequence, user_metadata, further_txns)
        else:
            self.rewrite(None, sequence, user_metadata)

    def replace(self, rows: WrittenFiles, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        with self._removing_staged(rows):
            self.rewrite(rows, sequence, user_metadata, replaced=paths)

    def _refuse_without_transactions(self) -> None:
        """A writer that is no transaction commits one Txn."""
        with self._engine.translating(f"beginning a commit to table {self._uri}"):
            missing = self._engine.why_no_transactions()
        if missing is not None:
            raise PermanentError(
                f"{missing}. Source {self._source.source_id} reads topics, and its commits need a Txn for each "
                f"partition: expected a build of Delta that commits them to table {self._uri}. Nothing was committed. "
                "Use the jars that `blizzard setup` downloads."
            )

    def _transactions_are_supported(self) -> bool:
        with self._engine.translating(f"beginning a commit to table {self._uri}"):
            return self._engine.why_no_transactions() is None

    def change_schema(
        self, change: SchemaChange, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS
    ) -> None:
        """By a transaction, like the rows: whoever has lost the race for this sequence changes nothing."""
        with self._engine.translating(f"beginning a commit to table {self._uri}"):
            transaction = self._preparation.start_transaction(change=change)
            self._refuse_committed(transaction, sequence)
            if transaction.version >= 0:
                table = transaction.description()
                schema = self._preparation.changed(table.schema, change)
                properties = with_stats_of(table.properties, missing_columns(table, schema.fields))
                transaction.change_schema(schema, widens=bool(change.widened), properties=properties)
            if further_txns:
                add_further_txns(transaction, further_txns)
        transaction.commit((), app_id=self._source.app_id, sequence=sequence, user_metadata=user_metadata)

    # -- existing files, by a transaction

    def _commit_by_transaction(
        self, rows: WrittenFiles | None, sequence: int, user_metadata: str, further_txns: Txns
    ) -> None:
        files = rows.data_files if rows is not None else ()
        with self._engine.translating(f"beginning a commit to table {self._uri}"):
            transaction = self._preparation.start_transaction()
            if rows is not None and files:
                self._check_layout(transaction.description(), rows)
            self._refuse_committed(transaction, sequence)
            if further_txns:
                add_further_txns(transaction, further_txns)
        transaction.commit(files, app_id=self._source.app_id, sequence=sequence, user_metadata=user_metadata)

    def _refuse_committed(self, transaction: Transaction, sequence: int) -> None:
        """From here on a concurrent commit of this source is a conflict. Raises LostRace if there has been one."""
        with self._watch.part("lookup"):
            committed = transaction.txn_version(self._source.app_id)
        if committed is not None and committed >= sequence:
            raise LostRace(
                f"the table has sequence {committed} of source {self._source.source_id}; expected one below "
                f"{sequence}, the sequence of this commit"
            )

    def _check_layout(self, table: TableDescription, rows: WrittenFiles) -> None:
        """Raises RetryableError if the table no longer accepts the files as they were written. Statistics of other
        columns than the table now wants do no harm, nor do columns that the files lack."""
        columns = self._preparation.row_columns(rows.record_type.fields)
        reasons: list[str | None] = [
            why_spark_must_write(table, columns),
            *column_conflicts(table, columns, rows.layout.partition_by),
        ]
        reasons += [f"it has no column {column.name}" for column in missing_columns(table, columns)]
        if not self._preparation.rules(table, rows.record_type.fields).same_as(rows.layout.rules):
            reasons.append("other constraints or generated columns than the rows were checked for")
        reason = next(filter(None, reasons), None)
        if reason is not None:
            raise RetryableError(
                f"table {self._uri} has changed, and no longer accepts the files that were written for this batch: "
                f"{reason}. Nothing was committed; the batch is planned again."
            )

    # -- staged rows, by the engine's own writer

    @contextmanager
    def _removing_staged(self, rows: WrittenFiles) -> Iterator[None]:
        """Whatever the outcome, nothing reads the staged files again: no commit has them, and another attempt stages
        its own."""
        try:
            yield
        finally:
            self._staging.remove(rows.data_files)

    def rewrite(
        self,
        rows: WrittenFiles | None,
        sequence: int,
        user_metadata: str,
        *,
        replaced: Sequence[str] | None = None,
        further_txns: Txns = NO_TXNS,
    ) -> None:
        with self._engine.translating(f"beginning a commit to table {self._uri}"):
            new_table = None if self._table_exists() else self._preparation.new_table()
            record = self._preparation.record_columns(None) if rows is None else rows.record_type.fields
            schema = nullable_schema(self._preparation.row_columns(record))
        staged = () if rows is None else rows.data_files
        self._engine.rewrite(
            staged,
            schema,
            sequence=sequence,
            user_metadata=user_metadata,
            replaced=replaced,
            new_table=new_table,
            further_txns=further_txns,
        )
