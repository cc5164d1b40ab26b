"""What a source's commits brought, counted from their receipts: for metrics, which must not rest on lines of a log."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from blizzard.errors import NotFound, UnreadableState
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipt, Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.state.schema_changes import ChangeRecord, ChangeRecords, sequence_of
from blizzard.storage.base import ObjectStore

MAX_COMMITS = 2_000
"""Receipts that are read at a time, in a few seconds. A sweep a minute stays far below it."""


class CommittedState(Protocol):
    """What is counted of a checkpoint, of files or of topics."""

    @property
    def sequence(self) -> int: ...
    @property
    def receipt(self) -> str | None: ...
    @property
    def schema_change(self) -> str | None: ...


@dataclass(slots=True)
class CommitCounts:
    """Sums over commits. `files` of topics are the partitions that each commit read. `dead_files` were dead-lettered as
    a whole; `dead_records` are single records.

    `unknown_values` and `misfit_values`: of the fields that receipts name, how many records had them. `schema_changes`:
    columns and fields that files have added to the table or widened.
    """

    files: int = 0
    rows: int = 0
    dead_files: int = 0
    dead_records: int = 0
    unknown_values: int = 0
    misfit_values: int = 0
    schema_changes: int = 0

    def add(self, receipt: Receipt) -> None:
        self.files += len(receipt.lines)
        self.rows += sum(line.rows for line in receipt.lines)
        self.dead_files += sum(line.error is not None for line in receipt.lines)
        self.dead_records += sum(line.dead_records for line in receipt.lines)
        self.unknown_values += sum(field.records for field in receipt.unknown_fields.fields)
        self.misfit_values += sum(field.records for field in receipt.misfits.fields)


def count_commits(
    store: ObjectStore, identity: SourceIdentity, checkpoint: CommittedState, counted: int | None, log: Log
) -> CommitCounts:
    """The commits after sequence `counted` up to the checkpoint. None of those before the first count, nor of a table
    that was restored to a commit before. Commits whose receipts cannot be read are logged, and left out."""
    counts = CommitCounts()
    if counted is None or checkpoint.sequence <= counted:
        return counts
    first = max(counted + 1, checkpoint.sequence - MAX_COMMITS + 1)
    missing = [SequenceRange(counted + 1, first - 1)] if first > counted + 1 else []
    chain = ReceiptChain(Receipts(store, identity.state_prefix))
    for found in chain.back_from(checkpoint.receipt, SequenceRange(first, checkpoint.sequence)):
        if isinstance(found, MissingReceipts):
            missing.append(found.sequences)
        else:
            counts.add(found)
    for each in missing:
        log("commits_not_counted", source=identity.source_id, first=each.first, last=each.last)
    records = ChangeRecords(store, identity.state_prefix, identity.source_id)
    counts.schema_changes = sum(len(one.change.fields) for one in _changes(records, checkpoint.schema_change, counted))
    return counts


def _changes(records: ChangeRecords, newest: str | None, counted: int) -> Iterator[ChangeRecord]:
    """The records that lead from the newest one back to those of commits that are counted. One that is gone or damaged
    ends the way: only the history needs them."""
    name = newest
    while name is not None and sequence_of(name) > counted:
        try:
            record = records.get(name)
        except (NotFound, UnreadableState):
            return
        yield record
        name = record.previous
