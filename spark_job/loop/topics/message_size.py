"""How large the messages of a source are."""

from collections.abc import Iterable

from blizzard.errors import NotFound, UnreadableState
from blizzard.kafka.batch_limits import LARGEST_BYTES
from blizzard.state.receipts import Receipt, Receipts
from blizzard.state.topic_checkpoint import TopicCheckpoint
from spark_job.ports.reader import Outcome

MAX_RECEIPTS = 20


def bytes_each(receipts: Receipts, checkpoint: TopicCheckpoint) -> float | None:
    """Bytes of keys, headers and payloads for each offset of the newest commit that read messages. None: nobody knows.
    Any error of storage but NotFound goes through."""
    name = checkpoint.receipt
    for _ in range(MAX_RECEIPTS):
        if name is None:
            return None
        try:
            receipt = receipts.get(name)
        except (NotFound, UnreadableState):
            return None
        known = _of_commit(receipt)
        if known is not None:
            return known
        name = receipt.previous
    return None


def _of_commit(receipt: Receipt) -> float | None:
    read = {line.path: line.size for line in receipt.lines if line.repair is None and line.path in receipt.offsets}
    offsets = sum(end - start for start, end in (receipt.offsets[path] for path in read))
    return sum(read.values()) / offsets or None if offsets else None


def after(before: float | None, offsets: int, outcomes: Iterable[Outcome]) -> float:
    """For each offset, as a batch of so many tells it that was read. Offsets without messages, such as those of an
    aborted transaction, say nothing of the size of others: so the next batch has twice as many at most. `before`: what
    was expected of this batch; None: nothing was known."""
    size = messages = 0
    for one in outcomes:
        size, messages = size + one.size, messages + one.rows + one.dead_records
    if before is None and messages:
        return size / messages
    return max(size / offsets, (LARGEST_BYTES if before is None else before) / 2)
