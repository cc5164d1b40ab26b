"""Jobs that are broken on purpose, by what the harness puts around the product's parts, of each engine."""

import json
import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType

from blizzard.errors import LostRace
from blizzard.state.delta_log import commit_key
from blizzard.state.receipts import Receipts
from blizzard.state.schema_changes import SchemaChange
from spark_job.engines.local.log_file import encoded
from spark_job.engines.local.transaction import AppendTransaction
from spark_job.engines.spark.transaction import Transaction
from spark_job.table.add_action import add_fields
from spark_job.table.commit import TableCommits
from spark_job.table.schema import type_of
from spark_job.table.widening import widens
from spark_job.write.data_file import DataFile
from tests.proof.breaks import NARROWER_WINS, OVERWRITING_LOG, ROWS_LEFT_OUT, TXN_NOT_COMPARED
from tests.proof.kill.variants import Whole, begin_again, with_tables
from tests.proof.race.names import NARROW_SOURCE
from tests.proof.race.waiting import wait_until

MAX_WIDER_SECS = 15.0
"""Maximum wait for the wider column of the other source."""


def break_job(variant: str, *, loses: bool) -> None:
    """`loses`: whether this job is certain to lose its race."""
    if variant == ROWS_LEFT_OUT and loses:
        _leave_rows_out()
    if variant == TXN_NOT_COMPARED:
        _compare_no_txns()
    if variant == NARROWER_WINS:
        _widen_as_planned()
    if variant == OVERWRITING_LOG:
        _overwrite_commits()


def _compare_no_txns() -> None:
    """Delta compares the Txns that were asked for, deltalake those of the commits since the version in memory."""
    whole = AppendTransaction.commit

    def commit(self: AppendTransaction, *given: Any, **named: Any) -> int:
        self._table.update_incremental()
        self._started_at = self.version  # else it is known that nobody has compared them
        return whole(self, *given, **named)

    for kind in (Transaction, AppendTransaction):
        kind.txn_version = lambda self, app_id: None  # type: ignore[method-assign]
    AppendTransaction.commit = commit  # type: ignore[method-assign]


def _overwrite_commits() -> None:
    """Of the local engine. Spark commits through the log store of `overwriting_log`."""

    def commit(
        self: AppendTransaction, files: Sequence[DataFile], *, app_id: str, sequence: int, user_metadata: str
    ) -> int:
        before, now_ms = self.version, time.time_ns() // 1_000_000
        actions = [
            {"commitInfo": {"timestamp": now_ms, "operation": "WRITE", "userMetadata": user_metadata}},
            {"txn": {"appId": app_id, "version": sequence, "lastUpdated": now_ms}},
            *({"add": add_fields(file)} for file in files),
        ]
        self._store.put(commit_key(before + 1), encoded(actions))
        self._table.update_incremental()
        self._opened.committed(self._table, before, added=len(files))
        return before + 1

    AppendTransaction.commit = commit  # type: ignore[method-assign]


def _leave_rows_out() -> None:
    """After a lost race, the job commits again under the next sequence, with a receipt of its own, as if its rows were
    in the table already. Without that receipt the ledger would ask the table, and mend it."""

    def commit(whole: Whole, transaction: Any, files: Any, *, app_id: str, sequence: int, user_metadata: str) -> int:
        try:
            return whole(transaction, files, app_id=app_id, sequence=sequence, user_metadata=user_metadata)
        except LostRace:
            again = begin_again(transaction)
            if again.txn_version(app_id) == sequence:
                state = json.loads(user_metadata)
                state |= {"sequence": sequence + 1, "receipt": _receipt_again(again, state["receipt"], sequence)}
                whole(again, [], app_id=app_id, sequence=sequence + 1, user_metadata=json.dumps(state))
            raise

    with_tables(commit)


def _receipt_again(transaction: Any, lost: str, sequence: int) -> str:
    """The files of a lost receipt in one of the next commit, after that of the commit that won. Returns its name."""
    staging = transaction.of.staging
    receipts = Receipts(staging._store, staging._prefix.removesuffix("/staging/"))
    (winner,) = (name for name in receipts.names(sequence, sequence) if name != lost)
    lines = receipts.get(lost).lines
    made = receipts.put(sequence=sequence + 1, attempt="again", previous=winner, now_ts=time.time(), lines=lines)
    return made.name


def _widen_as_planned() -> None:
    """The narrow source waits with each change until the column is wider than the change makes it, and then makes that
    change, also if the product refuses it. The fence of its own source it keeps."""
    whole = TableCommits.change_schema

    def change_schema(
        self: TableCommits, change: SchemaChange, *, sequence: int, user_metadata: str, **more: Any
    ) -> None:
        planned = {one.path: type_of(one.type) for one in change.fields}

        def is_wider() -> bool:
            schema = self._preparation.start_transaction().description().schema
            return any(widens(data_type, schema[name].dataType) for name, data_type in planned.items())

        if self._source.source_id == NARROW_SOURCE:
            wait_until(is_wider, within_secs=MAX_WIDER_SECS)
        try:
            whole(self, change, sequence=sequence, user_metadata=user_metadata, **more)
        except LostRace:
            again = self._preparation.start_transaction()
            committed = again.txn_version(self._source.app_id)
            if committed is not None and committed >= sequence:
                raise
            schema = again.description().schema
            fields = [StructField(one.name, planned.get(one.name, one.dataType), one.nullable) for one in schema.fields]
            again.change_schema(StructType(fields), widens=True, properties={})
            again.commit((), app_id=self._source.app_id, sequence=sequence, user_metadata=user_metadata)

    TableCommits.change_schema = change_schema  # type: ignore[method-assign]
