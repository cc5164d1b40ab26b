"""Before a commit: create the table, or add the columns that it lacks, and check that it keeps Txns."""

from collections.abc import Sequence
from functools import cached_property

from pyspark.sql.types import StructField, StructType

from blizzard.errors import LostRace, PermanentError
from blizzard.state.schema_changes import SchemaChange
from spark_job.expressions.rules import RowRules
from spark_job.table.columns import (
    MEMBER_FIELD,
    SOURCE_COLUMN,
    missing_columns,
    names_members,
    new_table_properties,
    nullable_schema,
    source_column,
    with_stats_of,
)
from spark_job.table.configured_changes import ConfiguredChanges, configured_changes
from spark_job.table.constraints import CONSTRAINT_PROPERTY
from spark_job.table.derived_columns import derived_columns
from spark_job.table.effective_schema import effective_columns
from spark_job.table.engine import NewTable, TableEngine, Transaction
from spark_job.table.evolution import RESERVED, AlreadyChanged, changed
from spark_job.table.file_layout import DEFAULT_CHECKPOINT_INTERVAL, TableDescription
from spark_job.table.row_rules import row_rules
from spark_job.table.safety_checks import check_txns_are_kept, why_no_replacing
from spark_job.table.schema import columns_of, type_of
from spark_job.table.table_source import TableSource

WAYS_OUT = (
    "Change the configuration to fit the table (values of another type can come as a column of another name), or "
    "write to another table: `blizzard rebuild FILE --to URI` makes it from all files, and with `--swap` it takes this "
    "one's place."
)


def record_columns(
    source: TableSource, configured: Sequence[StructField], table: StructType | None
) -> Sequence[StructField]:
    """Those of a record of the source, for a table with these columns."""
    others = RESERVED | {name.lower() for name in (*source.partition_columns, *source.derive)}
    return effective_columns(configured, table, source.evolution, left_out=others)


def path_columns(source: TableSource) -> list[StructField]:
    """The columns of the paths of a source's files."""
    return [StructField(name, type_of(kind)) for name, kind in source.partition_columns.items()]


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
        self.why_no_replacing: str | None = None
        """Why the table, as of the last transaction, refuses to replace rows; None: it does not."""
        self.left_out: tuple[str, ...] = ()
        """Columns of the table that no source of the pipeline has any more, as of the last transaction."""

    @cached_property
    def _configured(self) -> Sequence[StructField]:
        return columns_of(self._source.schema).fields

    @cached_property
    def _partition_columns(self) -> Sequence[StructField]:
        return path_columns(self._source)

    @cached_property
    def _derived_columns(self) -> Sequence[StructField]:
        read = [*self._configured, *self._partition_columns, SOURCE_COLUMN]
        return derived_columns(self._source.derive, read, self._engine)

    @property
    def source_columns(self) -> list[StructField]:
        """All columns of this source's rows in a new table. NOT NULL if the reader makes sure that the rows hold no
        nulls."""
        return self.row_columns(self._configured)

    def rules(self, table: TableDescription, record: Sequence[StructField]) -> RowRules:
        """What rows for this table, with these columns of a record, have to satisfy and get."""
        return row_rules(table, self.row_columns(record), self._source.derive)

    def record_columns(self, table: StructType | None) -> Sequence[StructField]:
        """Those of a record for a table with these columns. NOT NULL if the reader makes sure that the rows hold no
        nulls."""
        return record_columns(self._source, self._configured, table)

    def row_columns(self, record: Sequence[StructField], *, members: bool | None = None) -> list[StructField]:
        """All columns of rows: those of the record, those from its path, derived ones, `_source`. `members`: as
        `self.members`, which is the default."""
        of_zips = self.members if members is None else members
        return [*record, *self._partition_columns, *self._derived_columns, source_column(members=of_zips)]

    def new_table(self, change: SchemaChange | None = None) -> NewTable:
        schema = nullable_schema(self.source_columns)
        schema = schema if change is None else self.changed(schema, change)
        source = self._source
        own = new_table_properties(schema.fields, source.partition_by, source.cluster_by)
        constraints = {f"{CONSTRAINT_PROPERTY}{name.lower()}": sql for name, sql in source.constraints.items()}
        properties = {**own, **source.table_properties, **constraints}
        return NewTable(schema, source.partition_by, properties, source.cluster_by)

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
        PermanentError when the table conflicts with the source, or lets Delta expire Txns, and LostRace when it exists
        although the source was to create it.
        """
        transaction = self._engine.start(newest=newest)
        if transaction.version < 0:
            transaction.create_table(self.new_table(change))
            new = transaction.description()
            check_txns_are_kept(new.properties, self._uri)
            self.checkpoint_interval = new.checkpoint_interval
            return transaction
        if self._source.creates_table:
            raise LostRace(
                f"table {self._uri} was created since the schema of source {self._source.source_id} was inferred; "
                "its columns are the schema now"
            )
        table = transaction.description()
        check_txns_are_kept(table.properties, self._uri)
        if self._change_table(table):
            return self.start_transaction(change=change)
        self.checkpoint_interval = table.checkpoint_interval
        self.why_no_replacing = why_no_replacing(table.properties, self._uri)
        return transaction

    def _change_table(self, table: TableDescription) -> bool:
        """As the configuration wants it. Returns whether there was anything to change."""
        if self._source.only_states:
            return False
        source, has_members = self._source, names_members(table)
        changes = configured_changes(
            table,
            self.row_columns(self.record_columns(table.schema), members=has_members),
            partition_by=source.partition_by,
            constraints=source.constraints,
            others=source.other_columns | RESERVED,
        )
        if changes.refused:
            raise PermanentError(
                f"table {self._uri} does not fit source {source.source_id}: {'; '.join(changes.refused)}. "
                f"Nothing was read. {WAYS_OUT}"
            )
        files_add = source.evolution.add or source.evolution.others_add  # then other sources may have such columns
        self.left_out, added = () if files_add else tuple(changes.left_out), [*changes.added]
        if self.members and not has_members and SOURCE_COLUMN.name in table.schema.names:
            added.append(StructField(SOURCE_COLUMN.name, StructType([MEMBER_FIELD])))
        self.members |= has_members
        return self._make(table, added, changes)

    def _make(self, table: TableDescription, added: Sequence[StructField], changes: ConfiguredChanges) -> bool:
        """Whatever can be refused is, before the first commit. Constraints come last, since they may name new
        columns."""
        if not (added or changes.widened or changes.constraints):
            return False
        self._engine.check_changes(added, changes.widened, changes.constraints)
        if changes.widened:
            self._engine.widen_columns(changes.widened)
        if added:
            self._engine.add_columns(added, with_stats_of(table.properties, missing_columns(table, added)))
        if changes.constraints:
            self._engine.add_constraints(changes.constraints)
        return True
