"""Letters of messages that a repair has settled, by the receipt of its commit. The marks of settled letters say it,
too, but not yet between the commit and its marks, and not any more if these are lost."""

from collections.abc import Collection, Iterator, Mapping

from blizzard.audit.attempts import Key, attempts_of
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.receipts import Receipt, Receipts, attempt_of
from blizzard.state.run_ref import SequenceRange
from blizzard.state.topic_checkpoint import TopicCheckpoint

Message = tuple[Key, int]


def settled_by_commits(
    letters: DeadLetters, receipts: Receipts, checkpoint: TopicCheckpoint, wanted: Mapping[Key, Collection[int]]
) -> dict[Key, set[int]]:
    """Those of the `wanted` messages, by offset, of which a commit up to `checkpoint` has settled the letters, and none
    since has refused the message again. Reads the letters of these partitions, and the receipts back to those of the
    commits that stored them. Where a receipt is lost, or of a version that does not say it, letters count as open."""
    attempts = {
        (key, offset): its
        for key, offsets in wanted.items()
        if offsets
        for offset, its in attempts_of(letters, key, offsets).items()
    }
    refused_by = dict[str | None, list[Message]]()
    for message, its in attempts.items():
        for attempt in its:
            refused_by.setdefault(attempt, []).append(message)
    settled = dict[Key, set[int]]()
    for receipt in _newest_first(receipts, checkpoint) if attempts else ():
        for message in refused_by.get(attempt_of(receipt.name), ()):
            attempts.pop(message, None)
        for message in _settled_by(receipt):
            if attempts.pop(message, None) is not None:
                settled.setdefault(message[0], set()).add(message[1])
        if not attempts:
            break
    return settled


def _newest_first(receipts: Receipts, checkpoint: TopicCheckpoint) -> Iterator[Receipt]:
    for found in ReceiptChain(receipts).back_from(checkpoint.receipt, SequenceRange(0, checkpoint.sequence)):
        if isinstance(found, MissingReceipts):
            return
        yield found


def _settled_by(receipt: Receipt) -> Iterator[Message]:
    for line in receipt.lines if receipt.settles else ():
        for offset in receipt.settles.get(line.path, ()):
            yield (line.path, line.etag), offset
