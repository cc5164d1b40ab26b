"""Which topics a source has read: their ids, as the newest rows and receipts have them."""

from collections.abc import Iterable, Iterator, Set
from typing import Any

from blizzard.errors import NotFound, UnreadableState
from blizzard.state.receipts import Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.state.topic_checkpoint import partition_of_path
from spark_job.ports.table import FileTable

FIRST_WINDOW = 32
"""So many of the newest commits are asked first, and then four times as many each time."""
_Line = tuple[str, str, int]
"""A path, an id, and the sequence of a commit."""


def ids_of_commits(table: FileTable[Any], receipts: Receipts, sequence: int, topics: Set[str]) -> dict[str, str]:
    """By name the ids of these topics in the newest rows of commits up to `sequence`; where there are none, in the
    newest receipts. Without topics of which neither are there. Goes back no further than to the newest commits that
    have them."""
    found: dict[str, str] = {}
    for window in _windows(sequence):
        entries = table.files_of_commits(window)
        found = _newest((one.path, one.etag, one.sequence) for one in entries) | found
        if not topics <= found.keys():
            found = _newest(_of_receipts(receipts, window)) | found
        if topics <= found.keys():
            break
    return {name: found[name] for name in topics if name in found}


def _windows(sequence: int) -> Iterator[SequenceRange]:
    last, size = sequence, FIRST_WINDOW
    while last >= 0:
        yield SequenceRange(max(0, last - size + 1), last)
        last, size = last - size, 4 * size


def _newest(lines: Iterable[_Line]) -> dict[str, str]:
    by_topic: dict[str, tuple[int, str]] = {}
    for path, topic_id, sequence in lines:
        topic = _topic(path)
        if topic is not None:
            by_topic[topic] = max((sequence, topic_id), by_topic.get(topic, (sequence, topic_id)))
    return {topic: topic_id for topic, (_, topic_id) in by_topic.items()}


def _of_receipts(receipts: Receipts, window: SequenceRange) -> Iterator[_Line]:
    """Those of attempts without a commit have read the same topics."""
    for name in receipts.names(window.first, window.last):
        try:
            receipt = receipts.get(name)
        except (NotFound, UnreadableState):
            continue
        yield from ((line.path, line.etag, receipt.sequence) for line in receipt.lines)


def _topic(path: str) -> str | None:
    partition = partition_of_path(path)
    return None if partition is None else partition[0]
