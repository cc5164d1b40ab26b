"""How many rows of each partition the commits of a source of topics have brought: for messages that the brokers no
longer have, only the receipts say so."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from operator import methodcaller
from typing import NamedTuple

import pyarrow as pa

from blizzard.audit.attempts import Key
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.state.receipts import ReceiptLine, Receipts, Repair
from blizzard.state.run_ref import SequenceRange
from blizzard.state.topic_checkpoint import TopicCheckpoint, path_of

NOBODY_KNOWS = -1
"""The sequence of a commit that may be any."""
_value = methodcaller("as_py")


class BroughtRange(NamedTuple):
    """`rows`: what commit `sequence` has brought from offset `first` to before `end` (None: as far as all that follows
    does not go)."""

    sequence: int
    first: int
    end: int | None
    rows: int


@dataclass(slots=True)
class Brought:
    """Of one partition, the newest first, as far back as there are receipts. `put_back`: rows of messages that had been
    refused before, of whichever offset. `is_closed`: what was before does not count, or is not known. `is_whole`: the
    receipts of all commits were read, and all count."""

    ranges: list[BroughtRange] = field(default_factory=list)
    put_back: int = 0
    is_closed: bool = False
    is_whole: bool = False


class RowsComparison(NamedTuple):
    """`gone`: rows that were brought and are not there, by the sequence of the commit. `added`: rows that are there and
    were not brought. `is_complete`: whether the receipts say of all rows what was brought."""

    gone: Counter[int]
    added: int
    is_complete: bool


def brought_by_commits(receipts: Receipts, checkpoint: TopicCheckpoint) -> dict[Key, Brought]:
    """Reads all receipts from that of `checkpoint` back to the first one that is lost. Has all of its partitions."""
    found = {
        (path_of((name, number)), topic.topic_id): Brought()
        for name, topic in checkpoint.topics.items()
        for number in topic.next_offsets
    }
    for receipt in ReceiptChain(receipts).back_from(checkpoint.receipt, SequenceRange(0, checkpoint.sequence)):
        if isinstance(receipt, MissingReceipts):
            return found
        for line in receipt.lines:
            brought = found.setdefault((line.path, line.etag), Brought())
            if not brought.is_closed:
                _add(brought, line, receipt.sequence, receipt.offsets.get(line.path))
    for brought in found.values():
        brought.is_whole = not brought.is_closed
    return found


def _add(brought: Brought, line: ReceiptLine, sequence: int, offsets: tuple[int, int] | None) -> None:
    if line.repair == Repair.WHOLE:
        brought.ranges.append(BroughtRange(sequence, 0, None, line.rows))
        brought.is_closed = True
    elif line.repair is not None:
        brought.put_back += line.rows
    elif offsets is not None:
        brought.ranges.append(BroughtRange(sequence, *offsets, line.rows))
    else:  # of a version whose receipts do not say it
        brought.is_closed = True


def compared(brought: Brought | None, rows: pa.Array, first: int | None, end: int) -> RowsComparison:
    """`rows`: offsets of rows, ascending, each once, none before `first`. `first`: where the source began, behind which
    may be a gap; None: nobody knows. `end`: where it stands. What was put back may make up for what is gone, as long as
    receipts are lost."""
    brought = brought or Brought()
    ranges = brought.ranges
    low = ranges[-1].first if ranges else end
    is_complete = low == 0 or (first is not None and (low <= first or brought.is_whole))
    gone, inside, extra = Counter[int](), 0, 0
    following = end
    for each in ranges:
        there = _count(rows, each.first, following if each.end is None else each.end)
        inside, extra = inside + there, extra + max(0, there - each.rows)
        gone[each.sequence] += max(0, each.rows - there)
        following = each.first
    if not is_complete:
        return RowsComparison(+gone, 0, is_complete)
    extra += _count(rows, 0, end) - inside
    added = max(0, extra - brought.put_back)
    gone[NOBODY_KNOWS] += brought.put_back + added - extra
    return RowsComparison(+gone, added, is_complete)


def _count(rows: pa.Array, first: int, end: int) -> int:
    before_first, before_end = (bisect_left(rows, offset, key=_value) for offset in (first, end))
    return before_end - before_first


def is_vouched_for(messages: int, first: int, end: int, began: int | None) -> bool:
    """Whether the brokers have a message at each offset from where the source began to where it stands, so that no
    receipt is needed to know of all that should be there."""
    return began is not None and first <= began and messages == end - first
