"""The Delta side: commit with a Txn, ask about suspects, and what recovery needs."""

import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from blizzard.errors import BucketMissing, LostRace, PermanentError, RetryableError
from blizzard.paths.partition import partition_values
from blizzard.state.delta_log import Commit, DeltaLogTail
from blizzard.storage.base import ObjectStore
from spark_job.ports.stopwatch import Stopwatch
from spark_job.ports.table import Txn
from spark_job.table.columns import (
    SOURCE_COLUMN,
    columns_of,
    lacking,
    misfits,
    new_table_properties,
    nullable,
    stats_leaves,
)
from spark_job.table.commit_errors import translated
from spark_job.table.file_layout import DELTAS_CHECKPOINT_INTERVAL, Described, why_staged
from spark_job.table.safety_checks import HasFile, check_keeps_txns, check_name
from spark_job.table.snapshot import follow_size
from spark_job.table.spark_errors import ENGINE_ERRORS, engine
from spark_job.table.sql import literal, quoted, type_sql
from spark_job.table.staging import Staging
from spark_job.table.transaction import DeltaTransactions, Transaction, WrittenRows
from spark_job.write.parquet_files import TableLayout

TARGET_FILE_BYTES = 128 << 20
REPLACING = "rows that replace others"
_HIDDEN = re.compile(r"(^|/)[_.]")
"""Of names that no writer of a table gives to its files."""


class DeltaSourceTable:
    """One Delta table as one source sees it. `schema` is DDL; `spark` gives the session and may start it.

    `state_prefix`: of the source's own files below the table. `clock` gives Unix seconds, `new_id` a short unique text.
    `watch` times its Txn lookups. `siblings`: ids of the pipeline's other sources; `has_file`: of a path and
    an etag, whether the source has it.
    """

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
        state_prefix: str | None = None,
        target_file_bytes: int = TARGET_FILE_BYTES,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
        watch: Stopwatch | None = None,
        siblings: frozenset[str] = frozenset(),
        has_file: HasFile = lambda path, etag: False,
    ) -> None:
        self._session = spark
        self._uri = uri
        self._store = store
        self._log_tail = DeltaLogTail(store)
        self._app_id = app_id
        self._source_id = source_id
        self._ddl = schema
        self._partition_columns = partition_columns
        self._partition_by = tuple(partition_by)
        self._target_file_bytes = target_file_bytes
        self._watch = watch or Stopwatch(time.monotonic)
        self._checkpoint_interval = DELTAS_CHECKPOINT_INTERVAL
        self._siblings = siblings
        self._has_file = has_file
        prefix = state_prefix or f"_blizzard/{source_id.replace(':', '_')}"
        self.staging = Staging(store, prefix, clock=clock, new_id=new_id)
        self.layout_reason: str | None = None
        """Why the last `layout` is for Spark's writer; None: the commit adopts the files as they are."""

    @property
    def _spark(self) -> SparkSession:
        """The session, started when something first needs the engine."""
        return self._session()

    # -- what is there

    def newest_version(self) -> int:
        try:
            version = self._log_tail.newest_version()
        except BucketMissing:
            return -1
        return -1 if version is None else version

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        """Raises PermanentError when the newest that changed the table made it one that forgets Txns."""
        looked = False
        try:
            for commit in self._log_tail.commits(limit, above=above):
                if commit.properties is not None and not looked:
                    check_keeps_txns(commit.properties, self._uri)
                    looked = True
                yield commit
        except BucketMissing:
            return

    def commit_at(self, version: int) -> Commit | None:
        try:
            return self._log_tail.commit_at(version)
        except BucketMissing:
            return None

    def checkpoints_at(self, version: int) -> bool:
        return version > 0 and version % self._checkpoint_interval == 0

    def txn_version(self, app_id: str) -> int | None:
        if self.newest_version() < 0:
            return None
        with engine("asking the table's snapshot for a Txn"), self._watch.part("lookup"):
            snapshot = self._transactions().snapshot()
            follow_size(self._spark, snapshot)
            return snapshot.txn_version(app_id)

    def txns(self) -> list[Txn]:
        if self.newest_version() < 0:
            return []
        with engine("asking the table's snapshot for all Txns"), self._watch.part("lookup"):
            snapshot = self._transactions().snapshot()
            follow_size(self._spark, snapshot)
            return snapshot.txns()

    def loose_files(self) -> list[str]:
        with engine("asking the table's snapshot for its files"):
            known = self._transactions().snapshot().paths()
        names = (info.key for info in self._store.list() if info.key.endswith(".parquet"))
        return [name for name in names if name not in known and not _HIDDEN.search(name)]

    def holds_rows(self) -> bool:
        """Raises RecoveryError if there are none because they came under another name."""
        with engine("asking the table for rows of this source"):
            if self.newest_version() < 0 or not self._has_source_column():
                return False
            found = not self._rows().isEmpty()
            if not found:
                check_name(self._table(), self._source_id, self._siblings, self._has_file)
            return found

    def files_after(self, sequence: int) -> Mapping[str, int]:
        with engine("asking the table for the files of its newest commits"):
            if self.newest_version() < 0 or not self._has_source_column():
                return {}
            newer = self._rows().where(F.col("_source.sequence") > sequence)
            found = newer.groupBy("_source.file").agg(F.max("_source.row").alias("row"))
            return {row["file"]: row["row"] for row in found.collect()}

    def etags(self, paths: Iterable[str]) -> Mapping[str, frozenset[str]]:
        wanted = sorted(set(paths))
        if not wanted:
            return {}
        with engine("asking the table about suspects"):
            if self.newest_version() < 0 or not self._has_source_column():
                return {}
            asked = self._rows().where(self._is_one_of(wanted)).select("_source.file", "_source.etag").distinct()
            rows = asked.collect()
        found: dict[str, set[str]] = {}
        for row in rows:
            found.setdefault(row["file"], set()).add(row["etag"])
        return {path: frozenset(etags) for path, etags in found.items()}

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
                    condition = condition & F.col(quoted(name)).isin(known)
        return condition

    def _partition_value(self, path: str, name: str) -> str | None:
        try:
            return partition_values(path, {name: self._partition_columns[name]})[name]
        except PermanentError:
            return None

    # -- the table itself

    def prepare(self) -> None:
        if self.newest_version() >= 0:
            with engine(f"preparing table {self._uri}"):
                self._begin()
            self.staging.remove_leftovers()

    def warm_up(self) -> bool:
        """Have Delta do once what its first checkpoint would keep a commit waiting for; whether it did. It commits
        nothing, no commit waits for it, and it may raise anything."""
        return self._transactions().apart().compute_state()

    def layout(self, *, staged: bool = False) -> TableLayout:
        """How tasks shall write the rows of the next commit. `staged`: for `replace`.

        Afterwards `layout_reason` says why Spark has to write them once more, if it has.
        """
        with engine(f"asking table {self._uri} how it wants its files"):
            direct = None if staged else self._direct_layout()
        if direct is not None:
            return direct
        if staged:
            self.layout_reason = REPLACING
        return TableLayout(self.staging.new_folder(), (), (), 0, self._target_file_bytes)

    def _direct_layout(self) -> TableLayout | None:
        self.layout_reason = self._incapable
        if self.layout_reason is not None:
            return None
        transaction = self._begin(newest=False)
        table = transaction.described()
        self.layout_reason = why_staged(table, self._wanted)
        if self.layout_reason is not None:
            return None
        if transaction.snapshot.version < 0:
            stats = stats_leaves(self._wanted, self._partition_by)
        else:
            stats = transaction.snapshot.stats_columns()
        return TableLayout("", table.partition_by, stats, table.string_prefix_chars, self._target_file_bytes)

    def _transactions(self) -> DeltaTransactions:
        return DeltaTransactions(self._spark, self._uri)

    @cached_property
    def _incapable(self) -> str | None:
        """What this build of Delta lacks."""
        missing = self._transactions().missing()
        return missing and f"this Delta cannot adopt files: {missing}"

    def _begin(self, *, newest: bool = True) -> Transaction:
        """A transaction in which the table has the source's columns, or is made with them.

        Not on the newest version: on the one that this process has seen last, which costs no request.
        """
        transaction = self._transactions().begin(newest=newest)
        follow_size(self._spark, transaction.snapshot)
        if transaction.snapshot.version < 0:
            properties = new_table_properties(self._wanted, self._partition_by)
            transaction.create_table(nullable(self._wanted), self._partition_by, properties)
            check_keeps_txns(transaction.described().properties, self._uri)
            return transaction
        described = transaction.described()
        check_keeps_txns(described.properties, self._uri)
        if self._fit(described):
            return self._begin()
        self._checkpoint_interval = described.checkpoint_interval
        return transaction

    @cached_property
    def _wanted(self) -> list[StructField]:
        """NOT NULL where the rows hold no nulls, as the reader sees to."""
        self._session()
        partitions = [
            StructField(name, columns_of(f"c {type_name}").fields[0].dataType)
            for name, type_name in self._partition_columns.items()
        ]
        return [*columns_of(self._ddl).fields, *partitions, SOURCE_COLUMN]

    def _fit(self, found: Described) -> bool:
        """Add the columns that the table lacks; whether there were any. Raises PermanentError for what it has
        otherwise."""
        problems = list(misfits(found, self._wanted, self._partition_by))
        if problems:
            raise PermanentError(
                f"table {self._uri} does not fit source {self._source_id}: {'; '.join(problems)}. "
                "Change the configuration to fit the table, or write to another table."
            )
        missing = lacking(found, self._wanted)
        if missing:
            columns = ", ".join(f"{quoted(field.name)} {type_sql(field.dataType)}" for field in missing)
            self._spark.sql(f"ALTER TABLE delta.`{self._uri}` ADD COLUMNS ({columns})")
        return bool(missing)

    # -- the commit

    def append(self, rows: WrittenRows | None, *, sequence: int, user_metadata: str) -> None:
        if rows is not None and rows.layout.folder and rows.data_files:
            self._append_staged(rows, sequence, user_metadata)
        elif self._adopts():
            self._adopt(rows, sequence, user_metadata)
        else:
            self._save(None, sequence, user_metadata)

    def _adopts(self) -> bool:
        with engine(f"beginning a commit to table {self._uri}"):
            return self._incapable is None

    def _adopt(self, rows: WrittenRows | None, sequence: int, user_metadata: str) -> None:
        files = rows.data_files if rows is not None else ()
        with engine(f"beginning a commit to table {self._uri}"):
            transaction = self._begin()
            if rows is not None and files:
                self._check_layout(transaction.described(), rows.layout)
            with self._watch.part("lookup"):
                seen = transaction.txn_version(self._app_id)
        if seen is not None and seen >= sequence:
            raise LostRace(
                f"the table has sequence {seen} of source {self._source_id}, this commit was to be {sequence}"
            )
        try:
            transaction.commit(files, app_id=self._app_id, sequence=sequence, user_metadata=user_metadata)
        except ENGINE_ERRORS as error:
            raise translated(error) from error

    def _check_layout(self, table: Described, layout: TableLayout) -> None:
        """That it still takes the files as they were written. Other statistics than it would ask for now do no harm."""
        reason = why_staged(table, self._wanted)
        if reason is None and layout.partition_by != table.partition_by:
            reason = f"partitioned by {list(table.partition_by)}"
        if reason is not None:
            raise RetryableError(
                f"table {self._uri} no longer takes files as this batch has written them: {reason}. Nothing was "
                "committed; the batch is planned anew."
            )

    def _append_staged(self, rows: WrittenRows, sequence: int, user_metadata: str) -> None:
        self.prepare()  # another source may have made the table since the batch was planned, with its own columns
        self._save(rows, sequence, user_metadata)
        self.staging.remove(rows.data_files)

    def replace(self, rows: WrittenRows, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        files = ", ".join(literal(path) for path in sorted(paths))
        predicate = f"_source.source = {literal(self._source_id)} AND _source.file IN ({files})"
        self._save(rows, sequence, user_metadata, replacing=predicate)
        self.staging.remove(rows.data_files)

    def _save(
        self, rows: WrittenRows | None, sequence: int, user_metadata: str, *, replacing: str | None = None
    ) -> None:
        """By Delta's public writer, which skips a sequence that the table has seen. `replacing`: which rows go."""
        with engine(f"beginning a commit to table {self._uri}"):
            writer = self._writer(rows, replacing)
            writer = writer.options(txnAppId=self._app_id, txnVersion=str(sequence), userMetadata=user_metadata)
        try:
            writer.save(self._uri)
        except ENGINE_ERRORS as error:
            raise translated(error) from error

    def _writer(self, rows: WrittenRows | None, replacing: str | None) -> DataFrameWriter:
        writer = self._staged(rows).write.format("delta").mode("append" if replacing is None else "overwrite")
        if replacing is not None:
            writer = writer.option("replaceWhere", replacing)
        if self.newest_version() < 0:  # CREATE TABLE takes a folder with `_blizzard/` for a table that exists
            writer = writer.options(**new_table_properties(self._wanted, self._partition_by))
            writer = writer.partitionBy(*self._partition_by) if self._partition_by else writer
        return writer

    def _staged(self, rows: WrittenRows | None) -> DataFrame:
        schema = nullable(self._wanted)
        if rows is None or not rows.data_files:
            return self._spark.createDataFrame([], schema)
        with engine("reading the staged rows"):
            return self.staging.frame(self._spark, self._uri, rows.data_files, schema)
