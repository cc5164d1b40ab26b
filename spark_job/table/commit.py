"""The commit of a batch: rows and Txn in one version of the table. A transaction adds the files that tasks have
written. If the table requires Spark's writer, that reads the staged rows and writes them again."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from blizzard.errors import LostRace, RetryableError
from spark_job.ports.stopwatch import Stopwatch
from spark_job.table.columns import new_table_properties, nullable_schema
from spark_job.table.commit_errors import translate_commit_error
from spark_job.table.file_layout import TableDescription, why_spark_must_write
from spark_job.table.preparation import TablePreparation
from spark_job.table.spark_errors import SPARK_ERRORS, translating_spark_errors
from spark_job.table.sql import literal
from spark_job.table.staging import Staging
from spark_job.table.table_source import TableSource
from spark_job.table.transaction import WrittenFiles
from spark_job.write.parquet_files import TableLayout


class TableCommits:
    """Commits of one source. `prepare` adds the columns that the table lacks; `watch` times the Txn lookups."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        source: TableSource,
        preparation: TablePreparation,
        staging: Staging,
        *,
        watch: Stopwatch,
        table_exists: Callable[[], bool],
        prepare: Callable[[], None],
    ) -> None:
        self._session = spark
        self._source = source
        self._uri = source.table_uri
        self._preparation = preparation
        self._staging = staging
        self._watch = watch
        self._table_exists = table_exists
        self._prepare = prepare

    def append(self, rows: WrittenFiles | None, *, sequence: int, user_metadata: str) -> None:
        if rows is not None and rows.layout.folder and rows.data_files:
            self._append_staged_rows(rows, sequence, user_metadata)
        elif self._transactions_are_supported():
            self._commit_by_transaction(rows, sequence, user_metadata)
        else:
            self.commit_by_spark_writer(None, sequence, user_metadata)

    def replace(self, rows: WrittenFiles, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        files = ", ".join(literal(path) for path in sorted(paths))
        predicate = f"_source.source = {literal(self._source.source_id)} AND _source.file IN ({files})"
        self.commit_by_spark_writer(rows, sequence, user_metadata, replace_where=predicate)
        self._staging.remove(rows.data_files)

    def _transactions_are_supported(self) -> bool:
        with translating_spark_errors(f"beginning a commit to table {self._uri}"):
            return self._preparation.unsupported_reason is None

    # -- existing files, by a transaction

    def _commit_by_transaction(self, rows: WrittenFiles | None, sequence: int, user_metadata: str) -> None:
        files = rows.data_files if rows is not None else ()
        with translating_spark_errors(f"beginning a commit to table {self._uri}"):
            transaction = self._preparation.start_transaction()
            if rows is not None and files:
                self._check_layout(transaction.description(), rows.layout)
            with self._watch.part("lookup"):
                committed = transaction.txn_version(self._source.app_id)
        if committed is not None and committed >= sequence:
            raise LostRace(
                f"the table has sequence {committed} of source {self._source.source_id}; expected one below "
                f"{sequence}, the sequence of this commit"
            )
        try:
            transaction.commit(files, app_id=self._source.app_id, sequence=sequence, user_metadata=user_metadata)
        except SPARK_ERRORS as error:
            raise translate_commit_error(error) from error

    def _check_layout(self, table: TableDescription, layout: TableLayout) -> None:
        """Raises RetryableError if the table no longer accepts the files as they were written. Statistics of other
        columns than the table now wants do no harm."""
        reason = why_spark_must_write(table, self._preparation.source_columns)
        if reason is None and layout.partition_by != table.partition_by:
            reason = f"partitioned by {list(table.partition_by)}"
        if reason is not None:
            raise RetryableError(
                f"table {self._uri} has changed, and no longer accepts the files that were written for this batch: "
                f"{reason}. Nothing was committed; the batch is planned again."
            )

    # -- staged rows, by Spark's writer

    def _append_staged_rows(self, rows: WrittenFiles, sequence: int, user_metadata: str) -> None:
        self._prepare()  # another source may have made the table since the batch was planned, with its own columns
        self.commit_by_spark_writer(rows, sequence, user_metadata)
        self._staging.remove(rows.data_files)

    def commit_by_spark_writer(
        self, rows: WrittenFiles | None, sequence: int, user_metadata: str, *, replace_where: str | None = None
    ) -> None:
        """Delta's public writer silently skips a Txn version that the table already has.

        `replace_where`: SQL condition of the rows to remove; None to append.
        """
        with translating_spark_errors(f"beginning a commit to table {self._uri}"):
            writer = self._writer(rows, replace_where)
            writer = writer.options(txnAppId=self._source.app_id, txnVersion=str(sequence), userMetadata=user_metadata)
        try:
            writer.save(self._uri)
        except SPARK_ERRORS as error:
            raise translate_commit_error(error) from error

    def _writer(self, rows: WrittenFiles | None, replace_where: str | None) -> DataFrameWriter:
        mode = "append" if replace_where is None else "overwrite"
        writer = self._staged_rows(rows).write.format("delta").mode(mode)
        if replace_where is not None:
            writer = writer.option("replaceWhere", replace_where)
        if not self._table_exists():  # CREATE TABLE would take a folder with `_blizzard/` for an existing table
            properties = new_table_properties(self._preparation.source_columns, self._source.partition_by)
            writer = writer.options(**properties)
            writer = writer.partitionBy(*self._source.partition_by) if self._source.partition_by else writer
        return writer

    def _staged_rows(self, rows: WrittenFiles | None) -> DataFrame:
        schema = nullable_schema(self._preparation.source_columns)
        if rows is None or not rows.data_files:
            return self._session().createDataFrame([], schema)
        with translating_spark_errors("reading the staged rows"):
            return self._staging.frame(self._session(), self._uri, rows.data_files, schema)
