"""Before a commit: create the table, or add the columns that it lacks, and check that it keeps Txns."""

from collections.abc import Callable
from functools import cached_property

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField

from blizzard.errors import PermanentError
from spark_job.table.columns import (
    SOURCE_COLUMN,
    column_conflicts,
    columns_of,
    missing_columns,
    new_table_properties,
    nullable_schema,
)
from spark_job.table.file_layout import DEFAULT_CHECKPOINT_INTERVAL, TableDescription
from spark_job.table.safety_checks import check_txns_are_kept
from spark_job.table.snapshot import set_snapshot_partitions
from spark_job.table.sql import quoted, type_sql
from spark_job.table.table_source import TableSource
from spark_job.table.transaction import DeltaTransactions, Transaction


class TablePreparation:
    """`spark` returns the session and may start it."""

    def __init__(self, spark: Callable[[], SparkSession], source: TableSource) -> None:
        self._session = spark
        self._source = source
        self._uri = source.table_uri
        self.checkpoint_interval = DEFAULT_CHECKPOINT_INTERVAL
        """Number of versions from one checkpoint of Delta to the next, as of the last transaction."""

    @cached_property
    def source_columns(self) -> list[StructField]:
        """All columns of this source's rows: schema, partition columns, `_source`. NOT NULL if the reader makes sure
        that the rows hold no nulls."""
        self._session()
        partitions = [
            StructField(name, columns_of(f"c {type_name}").fields[0].dataType)
            for name, type_name in self._source.partition_columns.items()
        ]
        return [*columns_of(self._source.schema).fields, *partitions, SOURCE_COLUMN]

    @cached_property
    def unsupported_reason(self) -> str | None:
        """Why this build of Delta cannot add existing files by a transaction; None if it can."""
        missing = self.transactions().missing_api()
        return missing and f"this build of Delta cannot commit existing files: {missing}"

    def transactions(self) -> DeltaTransactions:
        return DeltaTransactions(self._session(), self._uri)

    def start_transaction(self, *, newest: bool = True) -> Transaction:
        """A transaction on a table that has the source's columns, or that creates such a table.

        With `newest=False` it starts on the version that this process has seen last, without a request. Raises
        PermanentError when the table conflicts with the source, or lets Delta expire Txns.
        """
        transaction = self.transactions().start(newest=newest)
        set_snapshot_partitions(self._session(), transaction.snapshot)
        if transaction.snapshot.version < 0:
            properties = new_table_properties(self.source_columns, self._source.partition_by)
            transaction.create_table(nullable_schema(self.source_columns), self._source.partition_by, properties)
            check_txns_are_kept(transaction.description().properties, self._uri)
            return transaction
        table = transaction.description()
        check_txns_are_kept(table.properties, self._uri)
        if self._add_missing_columns(table):
            return self.start_transaction()
        self.checkpoint_interval = table.checkpoint_interval
        return transaction

    def _add_missing_columns(self, table: TableDescription) -> bool:
        """Returns whether there were any."""
        conflicts = list(column_conflicts(table, self.source_columns, self._source.partition_by))
        if conflicts:
            raise PermanentError(
                f"table {self._uri} does not fit source {self._source.source_id}: {'; '.join(conflicts)}. "
                "Change the configuration to fit the table, or write to another table."
            )
        missing = missing_columns(table, self.source_columns)
        if missing:
            columns = ", ".join(f"{quoted(field.name)} {type_sql(field.dataType)}" for field in missing)
            self._session().sql(f"ALTER TABLE delta.`{self._uri}` ADD COLUMNS ({columns})")
        return bool(missing)
