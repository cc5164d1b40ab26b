"""Jobs that are broken on purpose, to show that the campaign would find it. Each breaks the product's parts in one
life, by what the harness puts around them; the product has no such switch."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from spark_job.engines.spark.transaction import Transaction
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.preparation import TablePreparation
from spark_job.tasks.reader import BatchRows
from spark_job.write.parquet_files import DataFile
from tests.proof.breaks import (
    LATE_LETTERS,
    NO_LOOK,
    NO_TXN,
    OLDER_STATE,
    TXN_ALONE,
    older_state_as_current,
)


def rows_without_txn() -> None:
    """Rows in one commit, the Txn with its state in the next: who dies in between leaves rows that nobody claims."""
    whole = Transaction.commit

    def commit(self: Transaction, files: Any, *, app_id: str, sequence: int, user_metadata: str) -> int:
        if files:
            named = json.loads(user_metadata)
            whole(
                self, files, app_id=f"{app_id}/rows", sequence=sequence, user_metadata=json.dumps({**named, "rows": 1})
            )
            self = begin_again(self)
        return whole(self, [], app_id=app_id, sequence=sequence, user_metadata=user_metadata)

    with_tables(commit)


def txn_without_rows() -> None:
    """The Txn with its state in one commit, its rows in the next: who dies in between leaves a claim on rows that are
    nowhere."""
    whole = Transaction.commit

    def commit(self: Transaction, files: Any, *, app_id: str, sequence: int, user_metadata: str) -> int:
        version = whole(self, [], app_id=app_id, sequence=sequence, user_metadata=user_metadata)
        if not files:
            return version
        named = json.dumps({**json.loads(user_metadata), "rows": 1})
        return whole(begin_again(self), files, app_id=f"{app_id}/rows", sequence=sequence, user_metadata=named)

    with_tables(commit)


def letters_after_the_commit() -> None:
    """The letters of bad records wait until their batch is committed: who dies in between never writes them."""
    commit_whole, put_whole = Transaction.commit, BatchRows.write_dead_records
    waiting: list[BatchRows] = []

    def commit(self: Transaction, files: Any, **more: Any) -> int:
        version = commit_whole(self, files, **more)
        while waiting:
            put_whole(waiting.pop())
        return version

    BatchRows.write_dead_records = lambda self: waiting.append(self)  # type: ignore[method-assign,assignment]
    Transaction.commit = commit  # type: ignore[method-assign]


def retry_without_a_look() -> None:
    """After an error of the commit it writes the same rows again and commits them under the next number."""
    whole = Transaction.commit

    def commit(self: Transaction, files: Any, *, app_id: str, sequence: int, user_metadata: str) -> int:
        try:
            return whole(self, files, app_id=app_id, sequence=sequence, user_metadata=user_metadata)
        except Exception:  # noqa: BLE001 - whatever it is
            state = json.dumps({**json.loads(user_metadata), "sequence": sequence + 1})
            transaction = begin_again(self)
            again = [_written_again(transaction, file) for file in files]
            return whole(transaction, again, app_id=app_id, sequence=sequence + 1, user_metadata=state)

    with_tables(commit)


def with_tables(commit: Callable[..., int]) -> None:
    """`commit` in place of Transaction's; it can begin another transaction of the same table."""
    make, begin = DeltaSourceTable.__init__, TablePreparation.start_transaction

    def made(self: DeltaSourceTable, *given: Any, **named: Any) -> None:
        make(self, *given, **named)
        self.preparation.table = self  # type: ignore[attr-defined]

    def begun(self: TablePreparation, **more: Any) -> Transaction:
        transaction = begin(self, **more)
        transaction.of = self.table  # type: ignore[attr-defined]
        return transaction

    DeltaSourceTable.__init__ = made  # type: ignore[method-assign]
    TablePreparation.start_transaction = begun  # type: ignore[method-assign]
    Transaction.commit = commit  # type: ignore[method-assign]


def _written_again(transaction: Any, file: DataFile) -> DataFile:
    store, path = transaction.of.staging._store, f"again-{file.path}"
    store.put(path, store.get(file.path))
    return replace(file, path=path)


def begin_again(transaction: Any) -> Transaction:
    """Another one of the same table, as `with_tables` knows it."""
    table: DeltaSourceTable = transaction.of
    return table.preparation.start_transaction()


VARIANTS: Mapping[str, Callable[[], None]] = {
    NO_TXN: rows_without_txn,
    NO_LOOK: retry_without_a_look,
    OLDER_STATE: older_state_as_current,
    TXN_ALONE: txn_without_rows,
    LATE_LETTERS: letters_after_the_commit,
}
