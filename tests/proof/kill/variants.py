"""Jobs that are broken on purpose, to show that the campaign would find it. Each breaks the product's parts in one
life, by what the harness puts around them; the product has no such switch."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from spark_job.loop.ingest import Ingest, Step
from spark_job.table.commit import TableCommits
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.preparation import TablePreparation
from spark_job.table.staging import Staging
from spark_job.tasks.reader import BatchRows
from spark_job.write.data_file import DataFile
from tests.proof.breaks import (
    BOTH_READS,
    LATE_LETTERS,
    NO_LOOK,
    NO_TXN,
    OLDER_STATE,
    READ_BEFORE,
    TXN_ALONE,
    older_state_as_current,
)
from tests.proof.kill.transactions import TRANSACTIONS

Whole = Callable[..., int]
"""Commits a transaction of either engine as the product does: `whole(transaction, files, …)`."""


def rows_without_txn() -> None:
    """Rows in one commit, the Txn with its state in the next: who dies in between leaves rows that nobody claims."""

    def commit(whole: Whole, transaction: Any, files: Any, *, app_id: str, sequence: int, user_metadata: str) -> int:
        if files:
            named = json.dumps({**json.loads(user_metadata), "rows": 1})
            whole(transaction, files, app_id=f"{app_id}/rows", sequence=sequence, user_metadata=named)
            transaction = begin_again(transaction)
        return whole(transaction, [], app_id=app_id, sequence=sequence, user_metadata=user_metadata)

    with_tables(commit)


def txn_without_rows() -> None:
    """The Txn with its state in one commit, its rows in the next: who dies in between leaves a claim on rows that are
    nowhere."""

    def commit(whole: Whole, transaction: Any, files: Any, *, app_id: str, sequence: int, user_metadata: str) -> int:
        version = whole(transaction, [], app_id=app_id, sequence=sequence, user_metadata=user_metadata)
        if not files:
            return version
        named, again = json.dumps({**json.loads(user_metadata), "rows": 1}), begin_again(transaction)
        return whole(again, files, app_id=f"{app_id}/rows", sequence=sequence, user_metadata=named)

    with_tables(commit)


def letters_after_the_commit() -> None:
    """The letters of bad records wait until their batch is committed: who dies in between never writes them."""
    put_whole = BatchRows.write_dead_records
    waiting: list[BatchRows] = []

    def commit(whole: Whole, transaction: Any, files: Any, **more: Any) -> int:
        version = whole(transaction, files, **more)
        while waiting:
            put_whole(waiting.pop())
        return version

    BatchRows.write_dead_records = lambda self: waiting.append(self)  # type: ignore[method-assign,assignment]
    with_tables(commit)


def retry_without_a_look() -> None:
    """After an error of the commit it writes the same rows again and commits them under the next number."""

    def commit(whole: Whole, transaction: Any, files: Any, *, app_id: str, sequence: int, user_metadata: str) -> int:
        try:
            return whole(transaction, files, app_id=app_id, sequence=sequence, user_metadata=user_metadata)
        except Exception:  # noqa: BLE001 - whatever it is
            state = json.dumps({**json.loads(user_metadata), "sequence": sequence + 1})
            transaction = begin_again(transaction)
            again = [_written_again(transaction, file) for file in files]
            return whole(transaction, again, app_id=app_id, sequence=sequence + 1, user_metadata=state)

    with_tables(commit)


def rows_of_both_reads() -> None:
    """The data files of a batch that is read again are not discarded, but committed with the change of the schema."""
    kept: list[DataFile] = []

    def commit(whole: Whole, transaction: Any, files: Any, *, app_id: str, sequence: int, user_metadata: str) -> int:
        version = whole(transaction, files, app_id=app_id, sequence=sequence, user_metadata=user_metadata)
        if not kept:
            return version
        named, again, held = json.dumps({**json.loads(user_metadata), "rows": 1}), begin_again(transaction), [*kept]
        kept.clear()
        return whole(again, held, app_id=f"{app_id}/rows", sequence=sequence, user_metadata=named)

    Staging.discard = lambda self, files: kept.extend(files)  # type: ignore[method-assign]
    with_tables(commit)


def rows_as_they_were_read_before() -> None:
    """A batch that changes the schema is not read again, and its data files have the types of before."""

    def ingest(self: Ingest, plan: Any) -> Step:
        plan = self._source.start(plan)
        self._prepare()
        batch = self._source.read(plan)
        if batch is None:
            return Step.MOVED
        try:
            changing = self._source.change_schema(plan, batch)
            if changing is not None and self._commit(changing, None) is Step.LOST:
                return Step.LOST
            if changing is not None:
                plan = replace(plan, batch=replace(plan.batch, base=self._checkpoint))
            return self._commit(plan, batch)
        finally:
            batch.rows.release()

    Ingest._ingest_batch = ingest  # type: ignore[method-assign]
    TableCommits._check_layout = lambda *_: None  # type: ignore[method-assign]


def with_tables(commit: Callable[..., int]) -> None:
    """`commit`, called with the product's own and what that gets, in place of it in both engines; it can begin another
    transaction of the same table."""
    make, begin = DeltaSourceTable.__init__, TablePreparation.start_transaction
    wholes = {kind: kind.commit for kind in TRANSACTIONS}

    def made(self: DeltaSourceTable, *given: Any, **named: Any) -> None:
        make(self, *given, **named)
        self.preparation.table = self  # type: ignore[attr-defined]

    def begun(self: TablePreparation, **more: Any) -> Any:
        transaction: Any = begin(self, **more)
        # The engine `auto` wraps the commit that makes a table.
        getattr(transaction, "_chosen", transaction).of = self.table  # type: ignore[attr-defined]
        transaction.of = self.table  # type: ignore[attr-defined]
        return transaction

    def whole(transaction: Any, *given: Any, **named: Any) -> int:
        return wholes[type(transaction)](transaction, *given, **named)

    DeltaSourceTable.__init__ = made  # type: ignore[method-assign]
    TablePreparation.start_transaction = begun  # type: ignore[method-assign]
    for kind in TRANSACTIONS:
        kind.commit = lambda self, *given, **named: commit(whole, self, *given, **named)


def _written_again(transaction: Any, file: DataFile) -> DataFile:
    store, path = transaction.of.staging._store, f"again-{file.path}"
    store.put(path, store.get(file.path))
    return replace(file, path=path)


def begin_again(transaction: Any) -> Any:
    """Another one of the same table, as `with_tables` knows it."""
    table: DeltaSourceTable = transaction.of
    return table.preparation.start_transaction()


VARIANTS: Mapping[str, Callable[[], None]] = {
    NO_TXN: rows_without_txn,
    NO_LOOK: retry_without_a_look,
    OLDER_STATE: older_state_as_current,
    TXN_ALONE: txn_without_rows,
    BOTH_READS: rows_of_both_reads,
    LATE_LETTERS: letters_after_the_commit,
    READ_BEFORE: rows_as_they_were_read_before,
}
