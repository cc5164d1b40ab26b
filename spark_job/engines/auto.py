"""The local engine, and Spark for what only Spark can do. Spark starts when it is first needed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.types import StructField, StructType

from blizzard.errors import SetupError
from blizzard.ledger.entry import LedgerEntry
from blizzard.log import Log
from blizzard.state.run_ref import SequenceRange
from spark_job.engines.needs_spark import NeedsSpark, SparkMissing
from spark_job.ports.table import NO_TXNS, FileVersion, SourceFile, Txn, Txns
from spark_job.table.configured_changes import Widening
from spark_job.table.engine import NewTable, TableEngine, Transaction
from spark_job.table.file_layout import TableDescription
from spark_job.table.table_source import TableSource
from spark_job.tasks.engine import Engine, Undecided
from spark_job.write.data_file import DataFile

if TYPE_CHECKING:
    from spark_job.tasks.batch_tasks import Task
    from spark_job.tasks.decided_records import DecidedRecords
    from spark_job.tasks.report import Report

T = TypeVar("T")


class AutoEngine:
    """Implements `Engine`. `spark` makes the other engine and starts it, once. `check` starts nothing. Both may raise
    SetupError."""

    def __init__(
        self, local: Engine, spark: Callable[[], Engine], log: Log, *, check: Callable[[], object] = lambda: None
    ) -> None:
        self._local = local
        self._check = check
        self._make = spark
        self._spark: Engine | None = None
        self._said: set[tuple[str, str]] = set()
        self._log = log

    @property
    def cores(self) -> int:
        return self._local.cores

    def translating(self, action: str) -> AbstractContextManager[None]:
        return self._translating(action)

    @contextmanager
    def _translating(self, action: str) -> Iterator[None]:
        """Spark may start while the block runs."""
        with self._local.translating(action):
            try:
                yield
            except Exception:
                if self._spark is None:
                    raise
                with self._spark.translating(action):
                    raise

    def table(self, source: TableSource) -> "AutoTable":
        return AutoTable(self._local.table(source), source, self)

    def run(self, task: "Task", parts: Sequence[str]) -> "list[Report]":
        return self._local.run(task, parts)

    def judge(self, task: "Task", undecided: Undecided) -> "DecidedRecords":
        try:
            return self._local.judge(task, undecided)
        except NeedsSpark as error:
            return self.spark_for(error, task.destination.provenance.source_id).judge(task, undecided)

    def complete(self, task: "Task", staged: Sequence[DataFile]) -> "DecidedRecords":
        try:
            return self._local.complete(task, staged)
        except NeedsSpark as error:
            return self.spark_for(error, task.destination.provenance.source_id).complete(task, staged)

    def spark_for(self, error: NeedsSpark, source_id: str) -> Engine:
        """Says why, each kind of reason once for each source, unless the error says it: raises SparkMissing."""
        if self._spark is None:
            with _saying_why(error):
                self._check()
        if (source_id, error.kind) not in self._said:
            self._said.add((source_id, error.kind))
            self._log("spark_needed", source=source_id, reason=error.reason)
        if self._spark is None:
            with _saying_why(error):
                self._spark = self._make()
        return self._spark


@contextmanager
def _saying_why(needed: NeedsSpark) -> Iterator[None]:
    try:
        yield
    except SetupError as missing:
        raise SparkMissing(needed, str(missing)) from missing


class AutoTable:
    """Implements `TableEngine`. A table that once needed Spark stays with it until the process ends."""

    def __init__(self, local: TableEngine, source: TableSource, engine: AutoEngine) -> None:
        self._local = local
        self._source = source
        self._engine = engine
        self._spark: TableEngine | None = None

    def _ask(self, call: Callable[[TableEngine], T]) -> T:
        if self._spark is not None:
            return call(self._spark)
        try:
            return call(self._local)
        except NeedsSpark as error:
            return call(self._switch(error))

    def _switch(self, error: NeedsSpark) -> TableEngine:
        self._spark = table = self._engine.spark_for(error, self._source.source_id).table(self._source)
        return table

    def translating(self, action: str) -> AbstractContextManager[None]:
        return self._engine.translating(action)

    def why_no_transactions(self) -> str | None:
        return self._ask(lambda table: table.why_no_transactions())

    def why_no_widening(self) -> str | None:
        """Starts Spark if the table needs it for that, and says why there is none."""
        if self._spark is None and (reason := self._local.why_no_widening()) is not None:
            try:
                self._switch(NeedsSpark(reason))
            except SparkMissing as missing:
                return f"{reason}, and Spark cannot start: {missing.problem}"
        return self._ask(lambda table: table.why_no_widening())

    def check_writer(self, reason: str | None) -> None:
        self._ask(lambda table: table.check_writer(reason))

    def start(self, *, newest: bool = True) -> Transaction:
        transaction = self._ask(lambda table: table.start(newest=newest))
        is_local = self._spark is None
        return _FirstCommit(transaction, self._switch) if is_local and transaction.version < 0 else transaction

    def check_changes(
        self, added: Sequence[StructField], widened: Sequence[Widening], constraints: Mapping[str, str]
    ) -> None:
        self._ask(lambda table: table.check_changes(added, widened, constraints))

    def add_columns(self, columns: Sequence[StructField], properties: Mapping[str, str]) -> None:
        self._ask(lambda table: table.add_columns(columns, properties))

    def widen_columns(self, widened: Sequence[Widening]) -> None:
        self._ask(lambda table: table.widen_columns(widened))

    def add_constraints(self, constraints: Mapping[str, str]) -> None:
        self._ask(lambda table: table.add_constraints(constraints))

    def types_of(self, expressions: Mapping[str, str], columns: StructType) -> StructType:
        return self._ask(lambda table: table.types_of(expressions, columns))

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
        self._ask(
            lambda table: table.rewrite(
                staged,
                schema,
                sequence=sequence,
                user_metadata=user_metadata,
                replaced=replaced,
                new_table=new_table,
                further_txns=further_txns,
            )
        )

    def txn_version(self, app_id: str) -> int | None:
        return self._ask(lambda table: table.txn_version(app_id))

    def txns(self) -> Sequence[Txn]:
        return self._ask(lambda table: table.txns())

    def data_file_paths(self) -> set[str]:
        return self._ask(lambda table: table.data_file_paths())

    def warm_up(self) -> bool:
        return self._ask(lambda table: table.warm_up())

    def has_source_column(self) -> bool:
        return self._ask(lambda table: table.has_source_column())

    def holds_rows(self) -> bool:
        return self._ask(lambda table: table.holds_rows())

    def holds_rows_of_nobody(self) -> bool:
        return self._ask(lambda table: table.holds_rows_of_nobody())

    def newest_sequence(self) -> int | None:
        return self._ask(lambda table: table.newest_sequence())

    def last_rows(self, *, after_sequence: int) -> Mapping[FileVersion, int]:
        return self._ask(lambda table: table.last_rows(after_sequence=after_sequence))

    def rows_present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        return self._ask(lambda table: table.rows_present(wanted))

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        return self._ask(lambda table: table.files_of_commits(sequences))

    def newest_files_of_others(self, known: frozenset[str], limit: int) -> Sequence[SourceFile]:
        return self._ask(lambda table: table.newest_files_of_others(known, limit))


class _FirstCommit:
    """Implements `Transaction`, for a table that does not exist: which engine can make it depends on what it is."""

    def __init__(self, local: Transaction, switch: Callable[[NeedsSpark], TableEngine]) -> None:
        self._chosen = local
        self._switch = switch

    @property
    def version(self) -> int:
        return self._chosen.version

    def description(self) -> TableDescription:
        return self._chosen.description()

    def stats_columns(self) -> Sequence[str]:
        return self._chosen.stats_columns()

    def txn_version(self, app_id: str) -> int | None:
        return self._chosen.txn_version(app_id)

    def create_table(self, table: NewTable) -> None:
        try:
            self._chosen.create_table(table)
        except NeedsSpark as error:
            self._chosen = self._switch(error).start()
            self._chosen.create_table(table)

    def change_schema(self, schema: StructType, *, widens: bool, properties: Mapping[str, str]) -> None:
        self._chosen.change_schema(schema, widens=widens, properties=properties)

    def add_txns(self, txns: Mapping[str, int]) -> None:
        self._chosen.add_txns(txns)

    def commit(self, files: Sequence[DataFile], *, app_id: str, sequence: int, user_metadata: str) -> int:
        return self._chosen.commit(files, app_id=app_id, sequence=sequence, user_metadata=user_metadata)
