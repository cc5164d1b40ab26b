"""A table as Spark and Delta's own classes read it and commit to it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.types import StructField, StructType

from blizzard.ledger.entry import LedgerEntry
from blizzard.state.run_ref import SequenceRange
from blizzard.state.schema_origin import Origin
from spark_job.engines.spark.checked_rows import check_rows
from spark_job.engines.spark.commit_errors import translate_commit_error
from spark_job.engines.spark.expressions import types_of
from spark_job.engines.spark.java_references import JavaReferences
from spark_job.engines.spark.snapshot import Snapshot, set_snapshot_partitions
from spark_job.engines.spark.source_rows import SourceRows
from spark_job.engines.spark.spark_errors import SPARK_ERRORS, translating_spark_errors
from spark_job.engines.spark.staged_rows import staged_rows
from spark_job.engines.spark.transaction import NTZ_SUPPORTED, DeltaTransactions, Transaction
from spark_job.ports.table import NO_TXNS, FileVersion, SourceFile, Txn, Txns
from spark_job.table.columns import MAPPING_PROPERTY, added_fields, gets_mapping
from spark_job.table.configured_changes import Widening
from spark_job.table.engine import NewTable
from spark_job.table.further_txns import add_further_txns
from spark_job.table.schema import gets_ntz
from spark_job.table.sql import literal, quoted, type_sql
from spark_job.table.table_source import TableSource
from spark_job.write.data_file import DataFile

WIDENING_PROPERTY = "delta.enableTypeWidening"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""What commits have to say for which nothing else says it."""


class SparkTable:
    """Implements `TableEngine`. `spark` returns the session and may start it. `references`: shared by the tables of a
    process."""

    def __init__(self, spark: Callable[[], SparkSession], source: TableSource, references: JavaReferences) -> None:
        self._session = spark
        self._references = references
        self._source = source
        self._uri = source.table_uri
        self._rows = SourceRows(spark, source)

    def translating(self, action: str) -> AbstractContextManager[None]:
        return translating_spark_errors(action)

    # -- commits

    def why_no_transactions(self) -> str | None:
        return self._why_no_transactions

    @cached_property
    def _why_no_transactions(self) -> str | None:
        missing = self._transactions().missing_api()
        return missing and f"this build of Delta cannot commit existing files: {missing}"

    def why_no_widening(self) -> str | None:
        return None

    def check_writer(self, reason: str | None) -> None:
        """Delta's writer takes all of them."""

    def start(self, *, newest: bool = True) -> Transaction:
        return self._transactions().start(newest=newest)

    def check_changes(
        self, added: Sequence[StructField], widened: Sequence[Widening], constraints: Mapping[str, str]
    ) -> None:
        """Delta itself checks the rows when it adds a constraint: here they are if something else came first."""
        if constraints and len(constraints) + len(added) + len(widened) > 1:
            check_rows(self._session().read.format("delta").load(self._uri), self._uri, added, widened, constraints)

    def add_columns(self, columns: Sequence[StructField], properties: Mapping[str, str]) -> None:
        table = f"delta.`{self._uri}`"
        before = self.start().description()
        if gets_mapping(before.properties, columns) is not None:
            self._session().sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{MAPPING_PROPERTY}' = 'name')")
        if gets_ntz(before.writer_features, columns) is not None:
            self._set_properties(NTZ_SUPPORTED)
        found = self._session().read.format("delta").load(self._uri).schema
        added = [
            f"{'.'.join(map(quoted, path))} {type_sql(field.dataType)}{_comment(field)}"
            for path, field in added_fields(found, columns)
        ]
        if added:
            with self._saying(self._source.origin_of(column.name for column in columns)):
                self._session().sql(f"ALTER TABLE {table} ADD COLUMNS ({', '.join(added)})")
        if properties:
            self._set_properties(properties)

    @contextmanager
    def _saying(self, origin: Origin) -> Iterator[None]:
        """In the commits of this block, which have no place of their own for it."""
        conf = self._session().conf
        before = conf.get(USER_METADATA, None)
        conf.set(USER_METADATA, origin.encode())
        try:
            yield
        finally:
            if before is None:
                conf.unset(USER_METADATA)
            else:
                conf.set(USER_METADATA, before)

    def _set_properties(self, properties: Mapping[str, str]) -> None:
        listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        self._session().sql(f"ALTER TABLE delta.`{self._uri}` SET TBLPROPERTIES ({listed})")

    def widen_columns(self, widened: Sequence[Widening]) -> None:
        table, found = f"delta.`{self._uri}`", self.start().description()
        wanted = {} if found.properties.get(WIDENING_PROPERTY, "").lower() == "true" else {WIDENING_PROPERTY: "true"}
        if gets_ntz(found.writer_features, [StructField(one.path[0], one.after) for one in widened]) is not None:
            wanted |= NTZ_SUPPORTED
        if wanted:
            self._set_properties(wanted)
        for one in widened:
            path = ".".join(map(quoted, one.path))
            with self._saying(self._source.origin_of(())):
                self._session().sql(f"ALTER TABLE {table} ALTER COLUMN {path} TYPE {type_sql(one.after)}")

    def add_constraints(self, constraints: Mapping[str, str]) -> None:
        for name, sql in constraints.items():
            self._session().sql(f"ALTER TABLE delta.`{self._uri}` ADD CONSTRAINT {quoted(name)} CHECK ({sql}\n)")

    def types_of(self, expressions: Mapping[str, str], columns: StructType) -> StructType:
        return types_of(self._session(), expressions, columns)

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
        """Delta's public writer takes one Txn, and silently skips a version that the table already has."""
        if further_txns:
            txns = {self._source.app_id: sequence, **further_txns}
            self._rewrite_by_transaction(staged, schema, txns, user_metadata, new_table)
            return
        with translating_spark_errors(f"beginning a commit to table {self._uri}"):
            if new_table is not None and new_table.cluster_by:  # of which Delta's writer takes no notice
                self._transactions().make(new_table)
                new_table = None
            writer = self._writer(self._staged_rows(staged, schema), replaced, new_table)
            writer = writer.options(txnAppId=self._source.app_id, txnVersion=str(sequence))
            writer = writer.option("userMetadata", user_metadata)
        try:
            writer.save(self._uri)
        except SPARK_ERRORS as error:
            raise translate_commit_error(error) from error

    def _rewrite_by_transaction(
        self,
        staged: Sequence[DataFile],
        schema: StructType,
        txns: Txns,
        user_metadata: str,
        new_table: NewTable | None,
    ) -> None:
        with translating_spark_errors(f"beginning a commit to table {self._uri}"):
            rows, transaction = self._staged_rows(staged, schema), self.start()
            if new_table is not None:
                transaction.create_table(new_table)
            add_further_txns(transaction, txns)
        transaction.commit_rows(rows, user_metadata)

    def _writer(self, rows: DataFrame, replaced: Sequence[str] | None, new_table: NewTable | None) -> DataFrameWriter:
        writer = rows.write.format("delta").mode("append" if replaced is None else "overwrite")
        if replaced is not None:
            files = ", ".join(literal(path) for path in sorted(replaced))
            source_id = literal(self._source.source_id)
            writer = writer.option("replaceWhere", f"_source.source = {source_id} AND _source.file IN ({files})")
        if new_table is not None:  # CREATE TABLE would take a folder with `_blizzard/` for an existing table
            writer = writer.options(**new_table.properties)
            writer = writer.partitionBy(*new_table.partition_by) if new_table.partition_by else writer
        return writer

    def _staged_rows(self, staged: Sequence[DataFile], schema: StructType) -> DataFrame:
        if not staged:
            return self._session().createDataFrame([], schema)
        with translating_spark_errors("reading the staged rows"):
            return staged_rows(self._session(), self._uri, staged, schema)

    # -- the snapshot

    def txn_version(self, app_id: str) -> int | None:
        return self._snapshot().txn_version(app_id)

    def txns(self) -> Sequence[Txn]:
        return self._snapshot().txns()

    def data_file_paths(self) -> set[str]:
        return self._transactions().snapshot().data_file_paths()

    def warm_up(self) -> bool:
        """Runs the first part of Delta's checkpoint once, before a commit has to wait for it."""
        return self._transactions().independent_snapshot().compute_state()

    def _snapshot(self) -> Snapshot:
        snapshot = self._transactions().snapshot()
        set_snapshot_partitions(self._session(), snapshot)
        return snapshot

    def _transactions(self) -> DeltaTransactions:
        self._references.count_use()
        return DeltaTransactions(self._session(), self._uri)

    # -- rows

    def has_source_column(self) -> bool:
        return self._rows.has_source_column()

    def holds_rows(self) -> bool:
        return self._rows.exist()

    def newest_sequence(self) -> int | None:
        return self._rows.newest_sequence()

    def last_rows(self, *, after_sequence: int) -> Mapping[FileVersion, int]:
        return self._rows.last_rows(after_sequence=after_sequence)

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        return self._rows.present(wanted)

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        return self._rows.files_of_commits(sequences)

    def holds_rows_of_nobody(self) -> bool:
        return self._rows.of_nobody_exist()

    def newest_files_of_others(self, known: frozenset[str], limit: int) -> Sequence[SourceFile]:
        return self._rows.newest_files_of_others(known, limit)


def _comment(field: StructField) -> str:
    comment = field.metadata.get("comment")
    return "" if comment is None else f" COMMENT {literal(comment)}"
