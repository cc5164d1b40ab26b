"""Records that an earlier repair has put back, and whose rows somebody has deleted since, though their letters look
open: whoever settles letters may have died after the commit."""

from collections.abc import Iterator
from typing import Any

from blizzard.errors import NotFound, UnreadableState
from blizzard.ledger.committed_receipts import CommittedReceipts
from blizzard.ledger.entry import LedgerEntry
from blizzard.state.delta_log import WHOLE_LOG
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipt, ReceiptLine, Receipts, Repair
from blizzard.state.settled_letters import Scope, SettledLetters
from blizzard.storage.base import ObjectStore
from spark_job.ports.table import FileTable


class PutBack:
    """Of one source. `state`: the table's store."""

    def __init__(self, table: FileTable[Any], state: ObjectStore, identity: SourceIdentity) -> None:
        self._table = table
        self._identity = identity
        self._receipts = Receipts(state, identity.state_prefix)
        self._settled = SettledLetters(state, identity.state_prefix)

    def count(self, entry: LedgerEntry, *, unseen: int, present: int) -> int:
        """How many of the records with open letters have been put back and are not in the table. `unseen`: how many
        more of them there are than the ledger counts as refused; `present`: how many others the table has. Only what
        receipts of repairs say counts, since the ledger may lack refused records of a file whose receipts are lost."""
        if unseen <= 0:
            return 0
        marks = self._settled.read().by_path.get(entry.path, ())
        brought = 0
        for sequence, line in self._repairs(entry):
            settled = {
                row
                for mark, settlement in marks
                if settlement.sequence == sequence and mark.scope is Scope.RECORDS and mark.etag == entry.etag
                for row in mark.rows
            }
            brought += line.rows - len(settled)
        return max(0, min(unseen, brought - present))

    def _repairs(self, entry: LedgerEntry) -> Iterator[tuple[int, ReceiptLine]]:
        """The commits that have put back records of the file's content, newest first."""
        named = CommittedReceipts(self._table.commits(WHOLE_LOG), self._identity)
        sequence: int | None = entry.sequence
        while sequence is not None:
            lines = [line for line in self._lines(sequence, named.newest(sequence)) if line.path == entry.path]
            line = max(lines, key=lambda each: each.rows, default=None)
            if line is None or line.etag != entry.etag or line.repair not in (Repair.RECORDS, Repair.GIVEN):
                return
            yield sequence, line
            sequence = line.repairs

    def _lines(self, sequence: int, name: str | None) -> Iterator[ReceiptLine]:
        """Of the receipt that the commit names; if the log does not reach back to it, of all attempts to make it."""
        found = self._read(name) if name is not None else None
        if found is not None and found.sequence == sequence:
            yield from found.lines
            return
        for each in self._receipts.names(sequence, sequence):
            attempt = self._read(each)
            yield from attempt.lines if attempt is not None else ()

    def _read(self, name: str) -> Receipt | None:
        try:
            return self._receipts.get(name)
        except (NotFound, UnreadableState):
            return None
