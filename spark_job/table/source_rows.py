"""Queries over the rows of one source in a table: which files, with which etags, up to which commit."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from blizzard.errors import PermanentError
from blizzard.paths.partition import partition_values
from spark_job.table.safety_checks import HasFile, check_source_was_not_renamed
from spark_job.table.spark_errors import translating_spark_errors
from spark_job.table.sql import quoted
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

    def etags(self, paths: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Path to the etags of its rows, with one query for all suspects. Files without rows are left out."""
        wanted = sorted(set(paths))
        if not wanted:
            return {}
        with translating_spark_errors("querying the table for suspects"):
            if not self._has_source_column():
                return {}
            query = self._rows().where(self._is_one_of(wanted)).select("_source.file", "_source.etag").distinct()
            rows = query.collect()
        found: dict[str, set[str]] = {}
        for row in rows:
            found.setdefault(row["file"], set()).add(row["etag"])
        return {path: frozenset(etags) for path, etags in found.items()}

    def _table(self) -> DataFrame:
        return self._session().read.format("delta").load(self._source.table_uri)

    def _has_source_column(self) -> bool:
        return self._table_exists() and "_source" in self._table().columns

    def _rows(self) -> DataFrame:
        return self._table().where(F.col("_source.source") == self._source.source_id)

    def _is_one_of(self, paths: Sequence[str]) -> Column:
        """A condition that lets Delta skip files by partition and by the statistics of `_source.file`. `paths` is
        sorted."""
        file = F.col("_source.file")
        condition = file.between(paths[0], paths[-1]) & file.isin(list(paths))
        types = self._source.partition_columns
        for name in self._source.partition_by:
            if name in types:
                values = {self._partition_value(path, name) for path in paths}
                known = [F.lit(v).cast(types[name]) for v in values if v is not None]
                if known and None not in values:
                    condition = condition & F.col(quoted(name)).isin(known)
        return condition

    def _partition_value(self, path: str, name: str) -> str | None:
        try:
            return partition_values(path, {name: self._source.partition_columns[name]})[name]
        except PermanentError:
            return None
