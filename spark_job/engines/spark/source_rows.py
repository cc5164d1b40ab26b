"""Queries over the rows of one source in a table: which files, with which etags, up to which commit."""

from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.run_ref import SequenceRange
from spark_job.ports.table import FileVersion, SourceFile
from spark_job.table.table_source import TableSource


class SourceRows:
    """The table exists and has a `_source` column, except for `has_source_column`."""

    def __init__(self, spark: Callable[[], SparkSession], source: TableSource) -> None:
        self._session = spark
        self._source = source

    def exist(self) -> bool:
        return not self._rows().isEmpty()

    def of_nobody_exist(self) -> bool:
        return not self._table().where("_source.source IS NULL").isEmpty()

    def newest_files_of_others(self, known: frozenset[str], limit: int) -> Sequence[SourceFile]:
        source, file, etag = (F.col(f"_source.{name}") for name in ("source", "file", "etag"))
        others = self._table().where(~source.isin(*known))
        newest = others.groupBy(source, file, etag).agg(F.max("_source.modified").alias("modified"))
        found = newest.orderBy(F.desc("modified")).limit(limit).collect()
        return [SourceFile(row["source"], row["file"], row["etag"]) for row in found]

    def newest_sequence(self) -> int | None:
        found: int | None = self._rows().agg(F.max("_source.sequence")).collect()[0][0]
        return found

    def last_rows(self, *, after_sequence: int) -> Mapping[FileVersion, int]:
        newer = self._rows().where(F.col("_source.sequence") > after_sequence)
        found = newer.groupBy("_source.file", "_source.etag").agg(F.max("_source.row").alias("row"))
        return {FileVersion(row["file"], row["etag"]): row["row"] for row in found.collect()}

    def present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        """Delta skips the data files that have none of these files by the statistics of `_source.file`."""
        file, etag, row = (F.col(f"_source.{name}") for name in ("file", "etag", "row"))
        of_files = (
            self._rows().where(file.isin(*wanted)).select(file.alias("file"), etag.alias("etag"), row.alias("row"))
        )
        pairs = [(path, number) for path, numbers in wanted.items() for number in numbers]
        asked = self._session().createDataFrame(pairs, "file STRING, number BIGINT")
        is_asked = (of_files["file"] == asked["file"]) & (of_files["row"] == asked["number"])
        joined = of_files.join(F.broadcast(asked), is_asked, "left")
        found = joined.groupBy(of_files["file"], of_files["etag"]).agg(F.collect_set("number").alias("numbers"))
        return {FileVersion(one["file"], one["etag"]): frozenset(one["numbers"]) for one in found.collect()}

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        """Delta skips the data files of other commits by the statistics of `_source.sequence`."""
        of_commits = F.col("_source.sequence").between(sequences.first, sequences.last)
        files = self._rows().where(of_commits).groupBy("_source.file", "_source.etag", "_source.sequence")
        modified_ms = F.unix_millis(F.max("_source.modified"))
        found = files.agg(F.count(F.lit(1)).alias("rows"), modified_ms.alias("modified_ms")).toArrow()
        columns = (found[name].to_pylist() for name in ("file", "sequence", "etag", "modified_ms", "rows"))
        return [
            LedgerEntry(file, sequence, etag, 0, max(0, modified_ms or 0), rows, 0, FileState.DONE)
            for file, sequence, etag, modified_ms, rows in zip(*columns, strict=True)
        ]

    def has_source_column(self) -> bool:
        return "_source" in self._table().columns

    def _table(self) -> DataFrame:
        return self._session().read.format("delta").load(self._source.table_uri)

    def _rows(self) -> DataFrame:
        return self._table().where(F.col("_source.source") == self._source.source_id)
