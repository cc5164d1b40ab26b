"""Before a commit: create the table, or add the columns that it lacks, and check that it keeps Txns."""

from collections.abc import Sequence
from functools import cached_property

from pyspark.sql.types import StructField, StructType

from blizzard.errors import LostRace, PermanentError
from blizzard.state.schema_changes import SchemaChange
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
from spark_job.table.effective_schema import effective_columns
from spark_job.table.engine import NewTable, TableEngine, Transaction
from spark_job.table.evolution import RESERVED, AlreadyChanged, changed
from spark_job.table.file_layout import DEFAULT_CHECKPOINT_INTERVAL, TableDescription
from spark_job.table.safety_checks import check_txns_are_kept
from spark_job.table.schema import columns_of, type_of
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

    @cached_property
    def _configured(self) -> Sequence[StructField]:
        return columns_of(self._source.schema).fields

    @cached_property
    def _partition_columns(self) -> Sequence[StructField]:
        return [StructField(name, type_of(kind)) for name, kind in self._source.partition_columns.items()]

    @property
    def source_columns(self) -> list[StructField]:
        """All columns of this source's rows in a new table. NOT NULL if the reader makes sure that the rows hold no
        nulls."""
        return self.row_columns(self._configured)

    def record_columns(self, table: StructType | None) -> Sequence[StructField]:
        """Those of a record for a table with these columns. NOT NULL if the reader makes sure that the rows hold no
        nulls."""
        others = RESERVED | {column.name.lower() for column in self._partition_columns}
        return effective_columns(self._configured, table, self._source.evolution, left_out=others)

    def row_columns(self, record: Sequence[StructField], *, members: bool | None = None) -> list[StructField]:
        """All columns of rows: those of the record, those from its path, `_source`. `members`: as `self.members`, which
        is the default."""
        of_zips = self.members if members is None else members
        return [*record, *self._partition_columns, source_column(members=of_zips)]

    def new_table(self, change: SchemaChange | None = None) -> NewTable:
        schema = nullable_schema(self.source_columns)
        schema = schema if change is None else self.changed(schema, change)
        properties = new_table_properties(schema.fields, self._source.partition_by)
        return NewTable(schema, self._source.partition_by, properties)

    def changed(self, schema: StructType, change: SchemaChange) -> StructType:
        """Raises LostRace if the change does not fit the table any more."""
        try:
            return changed(schema, change)
        except AlreadyChanged as error:
            raise LostRace(f"table {self._uri} has changed since the change {change} was planned: {error}") from error

    def start_transaction(self, *, newest: bool = True, change: SchemaChange | None = None) -> Transaction:
        """A transaction on a table that has the source's columns, or that creates such a table; one that does not exist
        yet is created with this `change`.

        With `newest=False` it starts on the version that this process has seen last, without a request. Raises
        PermanentError when the table conflicts with the source, or lets Delta expire Txns.
        """
        transaction = self._engine.start(newest=newest)
        if transaction.version < 0:
            transaction.create_table(self.new_table(change))
            check_txns_are_kept(transaction.description().properties, self._uri)
            return transaction
        table = transaction.description()
        check_txns_are_kept(table.properties, self._uri)
        if self._add_missing_columns(table):
            return self.start_transaction(change=change)
        self.checkpoint_interval = table.checkpoint_interval
        return transaction

    def _add_missing_columns(self, table: TableDescription) -> bool:
        """Returns whether there were any."""
        has_members = names_members(table)
        record = self.record_columns(table.schema)
        as_found = self.row_columns(record, members=has_members)
        conflicts = list(column_conflicts(table, as_found, self._source.partition_by))
        if conflicts:
            raise PermanentError(
                f"table {self._uri} does not fit source {self._source.source_id}: {'; '.join(conflicts)}. "
                "Change the configuration to fit the table, or write to another table."
            )
        missing = missing_columns(table, self.row_columns(record))
        if self.members and not has_members and SOURCE_COLUMN.name in table.schema.names:
            missing.append(StructField(SOURCE_COLUMN.name, StructType([MEMBER_FIELD])))
        self.members |= has_members
        if missing:
            self._engine.add_columns(missing)
        return bool(missing)
