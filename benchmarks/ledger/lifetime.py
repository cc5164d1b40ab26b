"""`python -m benchmarks.ledger.lifetime FILES PER_COMMIT`: what the ledger writes while that many files are committed.

The keeper looks a file of each commit up and gets the receipt, as in a job; its merges run at once.
"""

import json
import sys
import time
from dataclasses import replace
from typing import Any

from benchmarks.counting_store import CountingStore
from benchmarks.ledger import random_names
from benchmarks.ledger.stored import IDENTITY
from benchmarks.verify import WrongResult
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.ledger import open_ledger
from blizzard.ledger.merge import LedgerSettings
from blizzard.log import silent
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.receipts import Receipt, ReceiptLine, Receipts
from blizzard.storage.memory import MemoryStore

SECS_PER_COMMIT = 10.0


class _Life:
    """A source whose commits have only receipts and a ledger, in memory."""

    def __init__(self) -> None:
        self.store = CountingStore(MemoryStore(lambda: self.now_ts))
        self.now_ts = 0.0
        self.checkpoint = Checkpoint(IDENTITY.pipeline, IDENTITY.source)
        self.receipts = Receipts(self.store, IDENTITY.state_prefix)
        self._ids = 0
        self.keeper = LedgerKeeper(
            self.store,
            IDENTITY,
            ask_table=lambda sequences: [],
            clock=lambda: self.now_ts,
            new_id=self._new_id,
            log=silent,
            settings=LedgerSettings(in_background=False),
        )

    def commit(self, files: int) -> None:
        before = self.checkpoint
        self.keeper.find(before, random_names.paths(1, f"new {before.sequence}"))
        runs, sequence = self.keeper.refs(before), before.sequence + 1
        receipt = self._put(sequence, before.receipt, files)
        self.keeper.expect(receipt)
        self.checkpoint = replace(before, sequence=sequence, receipt=receipt.name, ledger=runs)
        self.now_ts += SECS_PER_COMMIT
        if runs != before.ledger:
            self.keeper.clean(self.checkpoint)

    def _put(self, sequence: int, previous: str | None, files: int) -> Receipt:
        entries = random_names.entries(files, sequence, sequence, f"commit {sequence}")
        lines = [ReceiptLine(e.path, e.etag, e.size, e.rows, 0, e.time_ms / 1000) for e in entries]
        return self.receipts.put(
            sequence=sequence, attempt=self._new_id(), previous=previous, now_ts=self.now_ts, lines=lines
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:016x}"


def measure(files: int, per_commit: int) -> dict[str, Any]:
    """Bytes written to the ledger and to receipts, and the runs at the end. Raises WrongResult if a file is missing."""
    life, began = _Life(), time.perf_counter()
    for first in range(0, files, per_commit):
        life.commit(min(per_commit, files - first))
    secs = time.perf_counter() - began
    written = life.store.written_bytes
    ledger = open_ledger(life.store, IDENTITY, life.checkpoint, with_filters=False)
    if (found := sum(1 for _ in ledger.scan())) != files:
        raise WrongResult(f"names: expected {files} files in the ledger, found {found}")
    return {
        "files": files,
        "per_commit": per_commit,
        "secs": secs,
        "ledger_bytes": written.get(f"{IDENTITY.state_prefix}/ledger", 0),
        "receipt_bytes": written[f"{IDENTITY.state_prefix}/receipts"],
        "runs": len(ledger.runs),
        "files_in_runs": sum(ref.files for ref in ledger.refs),
        "stored_bytes": sum(ref.size for ref in ledger.refs),
    }


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
