"""Before a commit: create the table, or add the columns that it lacks, and check that it keeps Txns."""

from functools import cached_property

from pyspark.sql.types import StructField, StructType

from blizzard.errors import PermanentError
from spark_job.table.columns import (
    MEMBER_FIELD,
    SOURCE_COLUMN,
    column_conflicts,
    missing_columns,
    names_members,
    new_table_properties,
    nullable_schema,
    source_column,
)
from spark_job.table.engine import NewTable, TableEngine, Transaction
from spark_job.table.file_layout import DEFAULT_CHECKPOINT_INTERVAL, TableDescription
from spark_job.table.safety_checks import check_txns_are_kept
from spark_job.table.schema import columns_of
from spark_job.table.table_source import TableSource


class TablePreparation:
    def __init__(self, engine: TableEngine, source: TableSource) -> None:
        self._engine = engine
        self._source = source
        self._uri = source.table_uri
        self.checkpoint_interval = DEFAULT_CHECKPOINT_INTERVAL
        """Number of versions from one checkpoint of Delta to the next, as of the last transaction."""
        self.members = False
        """Whether `_source` of the next rows has the field `member`. True once the table has it; the caller sets it
        before the first rows from a zip file, and the next transaction adds it to the table."""

    @property
    def source_columns(self) -> list[StructField]:
        """All columns of this source's rows: schema, partition columns, `_source`. NOT NULL if the reader makes sure
        that the rows hold no nulls."""
        return [*self._record_columns, source_column(members=self.members)]

    @cached_property
    def _record_columns(self) -> list[StructField]:
        partitions = [
            StructField(name, columns_of(f"c {type_name}").fields[0].dataType)
            for name, type_name in self._source.partition_columns.items()
        ]
        return [*columns_of(self._source.schema).fields, *partitions]

    def new_table(self) -> NewTable:
        properties = new_table_properties(self.source_columns, self._source.partition_by)
        return NewTable(nullable_schema(self.source_columns), self._source.partition_by, properties)

    def start_transaction(self, *, newest: bool = True) -> Transaction:
        """A transaction on a table that has the source's columns, or that creates such a table.

        With `newest=False` it starts on the version that this process has seen last, without a request. Raises
        PermanentError when the table conflicts with the source, or lets Delta expire Txns.
        """
        transaction = self._engine.start(newest=newest)
        if transaction.version < 0:
            transaction.create_table(self.new_table())
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
        has_members = names_members(table)
        as_found = [*self._record_columns, source_column(members=has_members)]
        conflicts = list(column_conflicts(table, as_found, self._source.partition_by))
        if conflicts:
            raise PermanentError(
                f"table {self._uri} does not fit source {self._source.source_id}: {'; '.join(conflicts)}. "
                "Change the configuration to fit the table, or write to another table."
            )
        missing = missing_columns(table, self.source_columns)
        if self.members and not has_members and SOURCE_COLUMN.name in table.schema.names:
            missing.append(StructField(SOURCE_COLUMN.name, StructType([MEMBER_FIELD])))
        self.members |= has_members
        if missing:
            self._engine.add_columns(missing)
        return bool(missing)
