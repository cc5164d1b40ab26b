"""How large the messages of a source are."""

from blizzard.errors import NotFound, UnreadableState
from blizzard.state.receipts import Receipt, Receipts
from blizzard.state.topic_checkpoint import TopicCheckpoint

MAX_RECEIPTS = 20


def bytes_each(receipts: Receipts, checkpoint: TopicCheckpoint) -> float | None:
    """Bytes of keys, headers and payloads for each offset of the newest commit that read some. None: nobody knows. Any
    error of storage but NotFound goes through."""
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
    return sum(read.values()) / offsets if offsets else None
