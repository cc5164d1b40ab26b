"""The files of commits that the ledger has lost: from their receipts, or from the table's rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from blizzard.audit.ranges import Ranges
from blizzard.audit.source import AuditedSource
from blizzard.audit.spill import Place, SpillWriter, items_at
from blizzard.ledger.committed_receipts import CommittedReceipts
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.ledger import Gap
from blizzard.ledger.rebuild import pieces_of
from blizzard.ledger.receipt_chain import ReceiptChain
from blizzard.state.delta_log import WHOLE_LOG, DeltaLogTail
from blizzard.state.receipts import Receipts
from blizzard.state.run_ref import SequenceRange


@dataclass(slots=True)
class Pieces:
    """`places`: by range, where the files are. `from_receipts` and `from_table`: of how many commits."""

    places: dict[int, list[Place]] = field(default_factory=dict)
    from_receipts: int = 0
    from_table: int = 0


def fill_gaps(
    source: AuditedSource,
    gaps: Iterable[Gap],
    ask_table: Callable[[SequenceRange], Iterable[LedgerEntry]],
    *,
    ranges: Ranges,
    folder: Path,
) -> Pieces:
    """Writes nothing but to `folder`: the next run of the job fills them for good."""
    receipts = Receipts(source.state, source.identity.state_prefix)
    committed = CommittedReceipts(DeltaLogTail(source.state).commits(WHOLE_LOG), source.identity)
    chain = ReceiptChain(receipts, named_by_commits=committed.newest)
    pieces = Pieces()
    with SpillWriter(folder, "pieces") as spill:
        for gap in gaps:
            for piece in pieces_of(gap, chain, ask_table):
                commits = piece.sequences.last - piece.sequences.first + 1
                pieces.from_table += commits if piece.from_table else 0
                pieces.from_receipts += 0 if piece.from_table else commits
                for entry in piece.entries:
                    if entry.path.startswith(ranges.prefix):
                        spill.add(ranges.of(entry.path), tuple(entry))
    pieces.places = spill.places
    return pieces


def entries_at(folder: Path, places: Iterable[Place]) -> Iterator[LedgerEntry]:
    """Those that `fill_gaps` has left."""
    for entry in map(LedgerEntry._make, items_at(folder, places)):
        yield entry._replace(state=FileState(entry.state))
