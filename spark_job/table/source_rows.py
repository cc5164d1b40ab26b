"""Queries over the rows of one source in a table: which files, with which etags, up to which commit."""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.run_ref import SequenceRange
from spark_job.table.safety_checks import HasFile, check_source_was_not_renamed
from spark_job.table.spark_errors import translating_spark_errors
from spark_job.table.table_source import TableSource


class SourceRows:
    """`siblings`: ids of the pipeline's other sources. `table_exists` reads the table's log.

    Every query returns an empty answer for a table that does not exist, or that has no `_source` column.
    """

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        source: TableSource,
        *,
        siblings: frozenset[str],
        has_file: HasFile,
        table_exists: Callable[[], bool],
    ) -> None:
        self._session = spark
        self._source = source
        self._siblings = siblings
        self._has_file = has_file
        self._table_exists = table_exists

    def exist(self) -> bool:
        """Raises RecoveryError if there are none because the source's files were ingested under another name."""
        with translating_spark_errors("querying the table for rows of this source"):
            if not self._has_source_column():
                return False
            found = not self._rows().isEmpty()
            if not found:
                check_source_was_not_renamed(self._table(), self._source.source_id, self._siblings, self._has_file)
            return found

    def last_row_by_file(self, *, after_sequence: int) -> Mapping[str, int]:
        """Path to highest `_source.row`, of the files of commits after `after_sequence` (exclusive)."""
        with translating_spark_errors("querying the table for the files of its newest commits"):
            if not self._has_source_column():
                return {}
            newer = self._rows().where(F.col("_source.sequence") > after_sequence)
            found = newer.groupBy("_source.file").agg(F.max("_source.row").alias("row"))
            return {row["file"]: row["row"] for row in found.collect()}

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        """The files of the commits `sequences`, as far as the table has rows of them. Delta skips the data files of
        other commits by the statistics of `_source.sequence`."""
        with translating_spark_errors("querying the table for the files of its commits"):
            if not self._has_source_column():
                return []
            of_commits = F.col("_source.sequence").between(sequences.first, sequences.last)
            files = self._rows().where(of_commits).groupBy("_source.file", "_source.etag", "_source.sequence")
            modified_ms = F.unix_millis(F.max("_source.modified"))
            found = files.agg(F.count(F.lit(1)).alias("rows"), modified_ms.alias("modified_ms")).toArrow()
        columns = (found[name].to_pylist() for name in ("file", "sequence", "etag", "modified_ms", "rows"))
        return [
            LedgerEntry(file, sequence, etag, 0, max(0, modified_ms or 0), rows, 0, FileState.DONE)
            for file, sequence, etag, modified_ms, rows in zip(*columns, strict=True)
        ]

    def _table(self) -> DataFrame:
        return self._session().read.format("delta").load(self._source.table_uri)

    def _has_source_column(self) -> bool:
        return self._table_exists() and "_source" in self._table().columns

    def _rows(self) -> DataFrame:
        return self._table().where(F.col("_source.source") == self._source.source_id)
