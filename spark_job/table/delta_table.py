"""One Delta table, as one source sees it: implements the port `Table` with Delta's log, an engine, and the modules
`source_rows` (queries), `preparation` (columns), `commit` and `staging`."""

import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from pyspark.sql.types import StructType

from blizzard.errors import BucketMissing, PermanentError
from blizzard.ledger.entry import LedgerEntry
from blizzard.log import Log, silent
from blizzard.state.delta_log import Commit, DeltaLogTail
from blizzard.state.run_ref import SequenceRange
from blizzard.state.schema_changes import FieldChange, SchemaChange
from blizzard.storage.base import ObjectStore
from spark_job.expressions.rules import RowRules
from spark_job.ports.stopwatch import Stopwatch
from spark_job.ports.table import NO_TXNS, FileVersion, SchemaProposal, SourceFile, Txn, Txns
from spark_job.table.columns import new_table_stats_columns
from spark_job.table.commit import TableCommits
from spark_job.table.engine import TableEngine, Transaction
from spark_job.table.file_layout import NO_TABLE, why_spark_must_write
from spark_job.table.preparation import TablePreparation
from spark_job.table.proposals import Proposals
from spark_job.table.safety_checks import HasFile, check_txns_are_kept
from spark_job.table.source_rows import SourceRows
from spark_job.table.staging import Staging
from spark_job.table.table_source import TableSource
from spark_job.table.written_files import WrittenFiles
from spark_job.write.data_file import TableLayout

REPLACING = "rows that replace others"
_HIDDEN_NAME = re.compile(r"(^|/)[_.]")
"""Paths of files that are not data files: no writer starts the name of a data file or its folders with these."""


class DeltaSourceTable:
    """`engine` makes the table's engine for this source.

    `state_prefix`: prefix of the source's own files below the table. `clock` gives Unix seconds, `new_id` a short
    unique text. `watch` times the Txn lookups. `siblings`: ids of the pipeline's other sources. `has_file`: as of
    `SourceRows`.
    """

    def __init__(
        self,
        engine: TableEngine,
        source: TableSource,
        *,
        store: ObjectStore,
        state_prefix: str | None = None,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
        watch: Stopwatch | None = None,
        siblings: frozenset[str] = frozenset(),
        has_file: HasFile | None = None,
        log: Log = silent,
    ) -> None:
        self._log = log
        self._engine, self._source, self._uri, self._store = engine, source, source.table_uri, store
        self._log_tail = DeltaLogTail(store)
        self._watch = watch or Stopwatch(time.monotonic)
        prefix = state_prefix or f"_blizzard/{source.source_id.replace(':', '_')}"
        self.staging = Staging(store, prefix, clock=clock, new_id=new_id)
        self.preparation = TablePreparation(engine, source)
        exists, prepare = self._exists, lambda: self.prepare()
        self._source_rows = SourceRows(engine, source, siblings=siblings, has_file=has_file, table_exists=exists)
        self._commits = TableCommits(
            engine, source, self.preparation, self.staging, watch=self._watch, table_exists=exists, prepare=prepare
        )
        self._proposals = Proposals(engine, source, self.preparation)
        self._said = set[str]()
        self._said_replacing = False
        self.layout_reason: str | None = None
        """Why the last `layout` is for the engine's own writer; None if the commit adds the files as they are."""
        self.record_type = StructType([*self.preparation.record_columns(None)])
        """The columns of a record in files of the last `layout`."""

    # -- the log, without Spark

    def newest_version(self) -> int:
        try:
            version = self._log_tail.newest_version()
        except BucketMissing:
            return -1
        return -1 if version is None else version

    def _exists(self) -> bool:
        return self.newest_version() >= 0

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        """Raises PermanentError when the newest change of the table's metadata lets Delta expire Txns."""
        checked = False
        try:
            for commit in self._log_tail.commits(limit, above=above):
                if commit.properties is not None and not checked:
                    check_txns_are_kept(commit.properties, self._uri)
                    checked = True
                yield commit
        except BucketMissing:
            return

    def commit_at(self, version: int) -> Commit | None:
        try:
            return self._log_tail.commit_at(version)
        except BucketMissing:
            return None

    def checkpoints_at(self, version: int) -> bool:
        return version > 0 and version % self.preparation.checkpoint_interval == 0

    # -- the snapshot

    def txn_version(self, app_id: str) -> int | None:
        if not self._exists():
            return None
        with self._engine.translating("reading a Txn from the table's snapshot"), self._watch.part("lookup"):
            return self._engine.txn_version(app_id)

    def txns(self) -> Sequence[Txn]:
        if not self._exists():
            return []
        with self._engine.translating("reading all Txns from the table's snapshot"), self._watch.part("lookup"):
            return self._engine.txns()

    def orphan_files(self) -> list[str]:
        with self._engine.translating("reading the files of the table's snapshot"):
            known = self._engine.data_file_paths()
        names = (info.key for info in self._store.list() if info.key.endswith(".parquet"))
        return [name for name in names if name not in known and not _HIDDEN_NAME.search(name)]

    def warm_up(self) -> bool:
        return self._engine.warm_up()

    # -- the rows of this source

    def holds_rows(self) -> bool:
        return self._source_rows.exist()

    def holds_rows_of_nobody(self) -> bool:
        return self._source_rows.of_nobody_exist()

    def newest_sequence(self) -> int | None:
        return self._source_rows.newest_sequence()

    def files_of_others(self) -> Sequence[SourceFile]:
        return self._source_rows.files_of_others()

    def last_rows_after(self, sequence: int) -> Mapping[FileVersion, int]:
        return self._source_rows.last_rows(after_sequence=sequence)

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        return self._source_rows.present(wanted)

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        return self._source_rows.files_of_commits(sequences)

    # -- writing

    def prepare(self) -> None:
        if self._exists():
            with self._engine.translating(f"preparing table {self._uri}"):
                self.preparation.start_transaction()
            self._say_what_is_left_out()
            self.staging.remove_leftovers()

    def takes_states(self) -> bool:
        return True

    def _say_what_is_left_out(self) -> None:
        """Once in a process."""
        left_out = [name for name in self.preparation.left_out if name not in self._said]
        if left_out:
            self._said.update(left_out)
            self._log("columns_left_out", source=self._source.source_id, columns=left_out)

    def layout(self, *, staged: bool = False, members: bool = False) -> TableLayout:
        """How tasks write the rows of the next commit. `staged`: for `replace`. `members`: some are from zip files.

        Sets `layout_reason` when the rows must be staged, for the engine to write them again. Raises PermanentError if
        the table allows no `replace`.
        """
        if staged and self.preparation.why_no_replacing is not None:
            raise PermanentError(f"{self.preparation.why_no_replacing}. Nothing was read.")
        if members and not self.preparation.members:
            self.preparation.members = True
            if staged:
                self.prepare()
        with self._engine.translating(f"reading the file layout of table {self._uri}"):
            self.layout_reason = self._engine.why_no_transactions()
            transaction = self.preparation.start_transaction(newest=False) if self.layout_reason is None else None
            table = NO_TABLE if transaction is None else transaction.description()
            record = self.preparation.record_columns(None if transaction is None else table.schema)
            self.record_type = StructType([*record])
            rules = self.preparation.rules(table, record)
            if transaction is None:
                layout = self._staged_layout(rules)  # Delta itself checks what it writes
            else:
                layout = self._direct_layout(transaction, rules, staged=staged)
        if staged:
            self.layout_reason = REPLACING
        return layout

    def _direct_layout(self, transaction: Transaction, rules: RowRules, *, staged: bool) -> TableLayout:
        """The layout of files that a transaction adds as they are, if the table takes such files."""
        table, columns = transaction.description(), self.preparation.row_columns(self.record_type.fields)
        self.layout_reason = why_spark_must_write(table, columns)
        if staged or self.layout_reason is not None:
            self._engine.check_writer(None if staged else self.layout_reason)
            return self._staged_layout(rules)
        if transaction.version < 0:
            stats = new_table_stats_columns(columns, self._source.partition_by, self._source.cluster_by)
        else:
            stats = tuple(transaction.stats_columns())
        target_file_bytes, members = self._source.target_file_bytes, self.preparation.members
        prefix_chars = table.string_prefix_chars
        return TableLayout("", table.partition_by, stats, prefix_chars, target_file_bytes, members, rules)

    def _staged_layout(self, rules: RowRules) -> TableLayout:
        folder, target_file_bytes = self.staging.new_folder(), self._source.target_file_bytes
        return TableLayout(folder, (), (), 0, target_file_bytes, self.preparation.members, rules)

    def inferred_columns(self) -> Sequence[FieldChange]:
        return ()

    def propose_change(self, rows: WrittenFiles) -> SchemaProposal:
        return self._proposals.of(rows)

    def change_schema(
        self, change: SchemaChange, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS
    ) -> None:
        self._commits.change_schema(change, sequence=sequence, user_metadata=user_metadata, further_txns=further_txns)

    def append(
        self, rows: WrittenFiles | None, *, sequence: int, user_metadata: str, further_txns: Txns = NO_TXNS
    ) -> None:
        self._commits.append(rows, sequence=sequence, user_metadata=user_metadata, further_txns=further_txns)

    def replace(self, rows: WrittenFiles, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        self._commits.replace(rows, paths, sequence=sequence, user_metadata=user_metadata)
        if not self._said_replacing:
            self._said_replacing = True
            self._log("rows_written_twice", source=self._source.source_id, reason=REPLACING)
