"""Filling the gaps of a ledger: from receipts, or from the table's rows where there are none."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from blizzard.ledger.entry import LedgerEntry, entries_of, merge_sorted
from blizzard.ledger.ledger import Gap
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.state.receipts import Receipt
from blizzard.state.run_ref import SequenceRange

RUN_FILES = 200_000
"""Files are collected in memory until there are so many, then written as a run."""
_FIRST_COMMITS = 8
_GROWTH = 4

AskTable = Callable[[SequenceRange], Iterable[LedgerEntry]]
"""The files of which the table has rows that these commits brought."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The files of neighbouring commits, sorted. `previous` as in `write_run`."""

    sequences: SequenceRange
    entries: Sequence[LedgerEntry]
    previous: str | None
    from_table: bool


def pieces_of(gap: Gap, chain: ReceiptChain, ask_table: AskTable) -> Iterator[Piece]:
    """The commits of a gap, newest first, in pieces that fit into memory."""
    waiting: list[Receipt] = []
    files = 0
    for found in chain.back_from(gap.receipt, gap.sequences):
        if isinstance(found, Receipt):
            waiting.append(found)
            files += len(found.lines)
            if files < RUN_FILES:
                continue
        if waiting:
            yield _from_receipts(waiting)
            waiting, files = [], 0
        if isinstance(found, MissingReceipts):
            yield from _from_table(found.sequences, ask_table)
    if waiting:
        yield _from_receipts(waiting)


def _from_receipts(receipts: Sequence[Receipt]) -> Piece:
    """`receipts`: newest first, of neighbouring commits."""
    sequences = SequenceRange(receipts[-1].sequence, receipts[0].sequence)
    entries = merge_sorted(*(sorted(entries_of(receipt)) for receipt in receipts))
    return Piece(sequences, [*entries], receipts[-1].previous, from_table=False)


def _from_table(sequences: SequenceRange, ask_table: AskTable) -> Iterator[Piece]:
    """Asks for as many commits at a time as bring a run's worth of files."""
    upper, commits = sequences.last, _FIRST_COMMITS
    while upper >= sequences.first:
        asked = SequenceRange(max(sequences.first, upper - commits + 1), upper)
        entries = [*merge_sorted(sorted(ask_table(asked)))]
        yield Piece(asked, entries, None, from_table=True)
        upper = asked.first - 1
        if len(entries) < RUN_FILES // (2 * _GROWTH):
            commits *= _GROWTH
        elif len(entries) > RUN_FILES:
            commits = max(1, commits // 2)
