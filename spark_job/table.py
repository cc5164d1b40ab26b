"""The Delta side: commit with a Txn, ask about suspects, and what recovery needs. Delta's JVM is touched only here."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from blizzard.delta_log import Commit, DeltaLogTail
from blizzard.errors import BucketMissing, CommitOutcomeUnknown, LostRace, PermanentError, RetryableError
from blizzard.partition import partition_values
from blizzard.storage.base import ObjectStore
from spark_job.engine import ENGINE_ERRORS, engine
from spark_job.fit import nullable_type
from spark_job.ports import Rows
from spark_job.reader import READ_AGAIN_OTHERWISE, SparkRows, columns_of

SOURCE_COLUMN = StructField(
    "_source",
    StructType(
        [
            StructField("source", StringType()),
            StructField("file", StringType()),
            StructField("row", LongType()),
            StructField("etag", StringType()),
            StructField("modified", TimestampType()),
            StructField("sequence", LongType()),
        ]
    ),
)
STATS_COLUMNS = 26
"""Of the table's own columns; with those of `_source` that makes Delta's usual 32."""
HAS_STATS = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
STATS_PREFIX_CHARS = 256
"""Of a string's start that statistics keep: paths that differ late must still be told apart."""

CONFLICTS = ("ConcurrentTransactionException", "MetadataChangedException", "ProtocolChangedException")
"""After these the Txn version says what happened; they can mask each other."""
PASSING = ("ConcurrentAppendException", "ConcurrentWriteException", "ConcurrentDeleteReadException")


class DeltaSourceTable:
    """One Delta table as one source sees it. `schema` is DDL; `spark` gives the session and may start it."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        *,
        uri: str,
        store: ObjectStore,
        app_id: str,
        source_id: str,
        schema: str,
        partition_columns: Mapping[str, str],
        partition_by: Sequence[str],
    ) -> None:
        self._session = spark
        self._uri = uri
        self._log_tail = DeltaLogTail(store)
        self._app_id = app_id
        self._source_id = source_id
        self._ddl = schema
        self._partition_columns = partition_columns
        self._partition_by = partition_by
        self._fits = False

    @property
    def _spark(self) -> SparkSession:
        """The session, started when something first needs the engine."""
        return self._session()

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    @property
    def _schema(self) -> StructType:
        self._session()
        return columns_of(self._ddl)

    # -- what is there

    def newest_version(self) -> int:
        try:
            version = self._log_tail.newest_version()
        except BucketMissing:
            return -1
        return -1 if version is None else version

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        try:
            yield from self._log_tail.commits(limit, above=above)
        except BucketMissing:
            return

    def txn_version(self, app_id: str) -> int | None:
        if self.newest_version() < 0:
            return None
        with engine("asking the table's snapshot for a Txn"):
            none = self._jvm.scala.Option.empty()
            snapshot = self._delta_log().update(False, none, none)
            found = snapshot.transactions().get(app_id)
            return int(found.get()) if found.isDefined() else None

    def holds_rows(self) -> bool:
        with engine("asking the table for rows of this source"):
            return self.newest_version() >= 0 and self._has_source_column() and not self._rows().isEmpty()

    def files_after(self, sequence: int) -> Mapping[str, int]:
        if self.newest_version() < 0 or not self._has_source_column():
            return {}
        with engine("asking the table for the files of its newest commits"):
            newer = self._rows().where(F.col("_source.sequence") > sequence)
            found = newer.groupBy("_source.file").agg(F.max("_source.row").alias("row"))
            return {row["file"]: row["row"] for row in found.collect()}

    def etags(self, paths: Iterable[str]) -> Mapping[str, frozenset[str]]:
        wanted = sorted(set(paths))
        if not wanted or self.newest_version() < 0 or not self._has_source_column():
            return {}
        asked = self._rows().where(self._is_one_of(wanted)).select("_source.file", "_source.etag").distinct()
        found: dict[str, set[str]] = {}
        with engine("asking the table about suspects"):
            rows = asked.collect()
        for row in rows:
            found.setdefault(row["file"], set()).add(row["etag"])
        return {path: frozenset(etags) for path, etags in found.items()}

    def _delta_log(self) -> Any:
        return self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._spark._jsparkSession, self._uri)

    def _table(self) -> DataFrame:
        return self._spark.read.format("delta").load(self._uri)

    def _has_source_column(self) -> bool:
        return "_source" in self._table().columns

    def _rows(self) -> DataFrame:
        return self._table().where(F.col("_source.source") == self._source_id)

    def _is_one_of(self, paths: Sequence[str]) -> Column:
        """The files, in a form that lets Delta skip by partition and by the statistics of `_source.file`."""
        file = F.col("_source.file")
        condition = file.between(paths[0], paths[-1]) & file.isin(list(paths))
        for name in self._partition_by:
            if name in self._partition_columns:
                values = {self._partition_value(path, name) for path in paths}
                known = [F.lit(v).cast(self._partition_columns[name]) for v in values if v is not None]
                if known and None not in values:
                    condition = condition & F.col(_quoted(name)).isin(known)
        return condition

    def _partition_value(self, path: str, name: str) -> str | None:
        try:
            return partition_values(path, {name: self._partition_columns[name]})[name]
        except PermanentError:
            return None

    # -- the table itself

    def prepare(self) -> None:
        if not self._fits and self.newest_version() >= 0:
            with engine(f"preparing table {self._uri}"):
                self._fit()
            self._fits = True

    def _wanted(self) -> list[StructField]:
        own = [StructField(f.name, nullable_type(f.dataType), f.nullable, f.metadata) for f in self._schema.fields]
        partitions = [
            StructField(name, columns_of(f"c {type_name}").fields[0].dataType)
            for name, type_name in self._partition_columns.items()
        ]
        return [*own, *partitions, SOURCE_COLUMN]

    def _fit(self) -> None:
        """Add the columns that the table lacks. Raises PermanentError for what it has otherwise."""
        have = {field.name.lower(): field for field in self._table().schema.fields}
        problems = []
        missing = []
        for field in self._wanted():
            there = have.get(field.name.lower())
            if there is None:
                missing.append(StructField(field.name, nullable_type(field.dataType)))
            elif there.dataType.simpleString() != field.dataType.simpleString():
                problems.append(
                    f"column {field.name}: expected {field.dataType.simpleString()}, found "
                    f"{there.dataType.simpleString()}"
                )
        columns = self._delta_log().unsafeVolatileSnapshot().metadata().partitionColumns()
        found = list(filter(None, columns.mkString("\0").split("\0")))
        if found != list(self._partition_by):
            problems.append(f"partition_by: expected {list(self._partition_by)}, found {found}")
        if problems:
            raise PermanentError(
                f"table {self._uri} does not fit source {self._source_id}: {'; '.join(problems)}. "
                "Change the configuration to fit the table, or write to another table."
            )
        if missing:
            columns = ", ".join(f"{_quoted(field.name)} {_type_sql(field.dataType)}" for field in missing)
            self._spark.sql(f"ALTER TABLE delta.`{self._uri}` ADD COLUMNS ({columns})")

    # -- the commit

    def append(self, rows: Rows | None, *, sequence: int, user_metadata: str) -> None:
        self.prepare()  # another source may have made the table since the batch was planned, with its own columns
        writer = self._frame(rows).write.format("delta").mode("append")
        if self.newest_version() < 0:
            writer = self._creating(writer)
        self._save(writer.options(**self._txn(sequence, user_metadata)))

    def _creating(self, writer: DataFrameWriter) -> DataFrameWriter:
        """The first commit makes the table: CREATE TABLE takes a folder with `_blizzard/` for a table that exists.

        Of two first commits one gets ProtocolChangedException and plans anew.
        """
        fields = [f for f in self._wanted() if f.name not in self._partition_by and isinstance(f.dataType, HAS_STATS)]
        names = [*(field.name for field in fields[:STATS_COLUMNS]), SOURCE_COLUMN.name]
        writer = writer.option("delta.dataSkippingStatsColumns", ",".join(map(_quoted, names)))
        writer = writer.option("delta.dataSkippingStringPrefixLength", str(STATS_PREFIX_CHARS))
        return writer.partitionBy(*self._partition_by) if self._partition_by else writer

    def replace(self, rows: Rows, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        files = ", ".join(_literal(path) for path in sorted(paths))
        predicate = f"_source.source = {_literal(self._source_id)} AND _source.file IN ({files})"
        writer = self._frame(rows).write.format("delta").mode("overwrite").option("replaceWhere", predicate)
        self._save(writer.options(**self._txn(sequence, user_metadata)))

    def _txn(self, sequence: int, user_metadata: str) -> dict[str, str]:
        return {"txnAppId": self._app_id, "txnVersion": str(sequence), "userMetadata": user_metadata}

    def _frame(self, rows: Rows | None) -> DataFrame:
        if isinstance(rows, SparkRows):
            return rows.frame
        return self._spark.createDataFrame([], StructType([StructField(f.name, f.dataType) for f in self._wanted()]))

    def _save(self, writer: DataFrameWriter) -> None:
        try:
            writer.save(self._uri)
        except ENGINE_ERRORS as error:
            raise _translated(error) from error


def _translated(error: Exception) -> Exception:
    text = f"{type(error).__name__}: {str(error)[:400]}"
    if READ_AGAIN_OTHERWISE in str(error):
        return RetryableError("a file changed between reading and writing; the batch is planned anew")
    if _is(error, *CONFLICTS):
        return LostRace(text)
    if _is(error, *PASSING):
        return RetryableError(f"a concurrent change of the table got in the way: {text}")
    if isinstance(error, AnalysisException):
        return PermanentError(f"the rows do not fit the table: {text}")
    return CommitOutcomeUnknown(text)


def _is(error: Exception, *names: str) -> bool:
    """Whether the error, on either side of the gateway, is one of Delta's classes of these names."""
    found = {type(error).__name__}
    if isinstance(error, Py4JJavaError):
        found.add(error.java_exception.getClass().getSimpleName())
    return bool(found & set(names))


def _quoted(name: str) -> str:
    """A column's name as an identifier: it may hold dots."""
    return "`" + name.replace("`", "``") + "`"


def _type_sql(data_type: DataType) -> str:
    """A type in SQL, with the names in it quoted, which `simpleString` does not."""
    if isinstance(data_type, StructType):
        return f"STRUCT<{', '.join(f'{_quoted(f.name)}: {_type_sql(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{_type_sql(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{_type_sql(data_type.keyType)}, {_type_sql(data_type.valueType)}>"
    return data_type.simpleString()


def _literal(text: str) -> str:
    """A SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
