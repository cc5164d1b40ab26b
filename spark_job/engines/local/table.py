"""A table as deltalake reads it and commits to it, without Spark and without Java."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from deltalake.schema import Field
from pyspark.sql.types import StructField, StructType

from blizzard.errors import LostRace
from blizzard.ledger.entry import LedgerEntry
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectStore
from spark_job.engines.local.delta_errors import translating_delta_errors
from spark_job.engines.local.open_table import OpenTable
from spark_job.engines.local.replace import replace_rows
from spark_job.engines.local.source_rows import SourceRows
from spark_job.engines.local.transaction import AppendTransaction, FirstCommit, describe
from spark_job.engines.local.txns import txns_of
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.ports.table import Txn
from spark_job.table.engine import NewTable, Transaction
from spark_job.table.file_layout import why_spark_must_write
from spark_job.table.safety_checks import SourceFile
from spark_job.table.table_source import TableSource
from spark_job.write.parquet_files import DataFile


class LocalTable:
    """Implements `TableEngine`. `store` is the table's folder; `clock` gives Unix seconds."""

    def __init__(
        self,
        source: TableSource,
        store: ObjectStore,
        storage_options: Callable[[], Mapping[str, str]],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._uri = source.table_uri
        self._store = store
        self._clock = clock
        self._opened = OpenTable(source.table_uri, store, storage_options)

    def translating(self, action: str) -> AbstractContextManager[None]:
        return translating_delta_errors(action)

    # -- commits

    def why_no_transactions(self) -> str | None:
        return None

    def start(self, *, newest: bool = True) -> Transaction:
        table = self._opened.newest() if newest else self._opened.last_seen()
        if table is None:
            return FirstCommit(self._store, self._uri, self._clock)
        return AppendTransaction(self._opened, table)

    def add_columns(self, columns: Sequence[StructField]) -> None:
        table = self._opened.newest()
        if table is not None:
            table.alter.add_columns([Field.from_json(json.dumps(column.jsonValue())) for column in columns])
            self._opened.committed()

    def rewrite(
        self,
        staged: Sequence[DataFile],
        schema: StructType,
        *,
        sequence: int,
        user_metadata: str,
        replaced: Sequence[str] | None = None,
        new_table: NewTable | None = None,
    ) -> None:
        app_id = self._source.app_id
        with translating_delta_errors(f"beginning a commit to table {self._uri}"):
            table = self._opened.newest()
            if table is None or replaced is None:
                raise NeedsSpark(f"writing to table {self._uri} as it is")
            if (reason := why_spark_must_write(describe(table), schema.fields)) is not None:
                raise NeedsSpark(f"a table with {reason}")
            committed = table.transaction_version(app_id)
            if committed is not None and committed >= sequence:
                raise LostRace(f"the table has sequence {committed} of source {self._source.source_id} already")
            replacement = replace_rows(
                table,
                self._store,
                staged,
                source_id=self._source.source_id,
                paths=replaced,
                target_file_bytes=self._source.target_file_bytes,
                clock=self._clock,
            )
        transaction = AppendTransaction(self._opened, table)
        transaction.commit(
            replacement.added,
            app_id=app_id,
            sequence=sequence,
            user_metadata=user_metadata,
            removed=replacement.removed,
        )

    # -- the snapshot

    def txn_version(self, app_id: str) -> int | None:
        table = self._opened.newest()
        return None if table is None else table.transaction_version(app_id)

    def txns(self) -> Sequence[Txn]:
        return txns_of(self._store)

    def data_file_paths(self) -> set[str]:
        raise NeedsSpark("looking for data files that no commit has")

    def warm_up(self) -> bool:
        return False

    # -- rows

    def has_source_column(self) -> bool:
        table = self._opened.newest()
        return table is not None and "_source" in describe(table).schema.names

    def holds_rows(self) -> bool:
        return self._rows().exist()

    def holds_rows_of_nobody(self) -> bool:
        return self._rows().of_nobody_exist()

    def last_row_by_file(self, *, after_sequence: int) -> Mapping[str, int]:
        return self._rows().last_row_by_file(after_sequence=after_sequence)

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        return self._rows().files_of_commits(sequences)

    def newest_files_of_others(self, known: frozenset[str], limit: int) -> Sequence[SourceFile]:
        return self._rows().newest_files_of_others(known, limit)

    def _rows(self) -> SourceRows:
        table = self._opened.newest()
        if table is None:
            raise NeedsSpark(f"reading table {self._uri}, which has just disappeared")
        return SourceRows(table, self._store, self._source.source_id)
