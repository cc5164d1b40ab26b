"""What the next runs of a source would read and commit."""

from collections.abc import Callable
from dataclasses import dataclass, field

from blizzard.audit.lives import Lives
from blizzard.audit.question import Question
from blizzard.audit.reach import PARTITION_FILTER, Fate
from blizzard.audit.source import AuditedSource
from blizzard.ledger.receipt_chain import ReceiptChain
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.receipts import Receipt, Receipts
from blizzard.state.run_ref import SequenceRange

RECEIPTS = 20
"""So many of the newest commits tell how many rows a byte brings."""
_COUNTED = frozenset({Fate.PENDING, Fate.SKIPPED, Fate.MISSING})


@dataclass(slots=True)
class Backlog:
    """Files that the next runs read. `announced`: those among them that are in the manifest, or in progress. `skipped`
    and `missing` are never read by themselves."""

    files: int = 0
    bytes: int = 0
    announced: int = 0
    commits: int = 0
    skipped: int = 0
    missing: int = 0
    listed: int = 0
    oldest_ts: float | None = None
    newest_ts: float | None = None


@dataclass(slots=True)
class BatchCounter:
    """Counts the commits of files that are read in this order, as batches are filled."""

    interval_files: int
    interval_bytes: int
    commits: int = 0
    _files: int = field(default=0)
    _bytes: int = field(default=0)

    def add(self, size: int) -> None:
        if self._files and (self._files >= self.interval_files or self._bytes + size > self.interval_bytes):
            self._end()
        self._files += 1
        self._bytes += size
        if self._bytes >= self.interval_bytes:
            self.commits += max(1, -(-size // self.interval_bytes)) - 1  # a large file is read in slices
            self._end()

    def total(self) -> int:
        return self.commits + bool(self._files)

    def _end(self) -> None:
        self.commits += 1
        self._files = self._bytes = 0


def backlog_of(lives: Lives, *, interval_files: int, interval_bytes: int, since_ts: float | None = None) -> Backlog:
    """`since_ts`: only files that were modified since then."""
    found, batches = Backlog(), BatchCounter(interval_files, interval_bytes)
    for life in lives.wanted(Question(since_ts, _COUNTED)):
        came_ts = life.modified_ts if life.modified_ts is not None else life.announced_ts
        if since_ts is not None and (came_ts is None or came_ts < since_ts):
            continue
        found.skipped += life.state == Fate.SKIPPED and life.rule == PARTITION_FILTER
        found.missing += life.state == Fate.MISSING
        if life.state != Fate.PENDING:
            continue
        found.files += 1
        found.bytes += life.size or 0
        found.announced += life.announced_by is not None
        batches.add(life.size or 0)
        if came_ts is not None:
            found.oldest_ts = came_ts if found.oldest_ts is None else min(found.oldest_ts, came_ts)
            found.newest_ts = came_ts if found.newest_ts is None else max(found.newest_ts, came_ts)
    found.commits, found.listed = batches.total(), lives.listed
    return found


@dataclass(frozen=True, slots=True)
class History:
    """What the newest commits have read."""

    commits: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    rejected: int = 0

    def expected(self, size: int, count: int) -> int | None:
        """Of the `count` rows or records that these commits had, how many as many bytes bring; None: nobody knows."""
        return round(count / self.bytes * size) if self.bytes else None


def history_of(source: AuditedSource, checkpoint: Checkpoint) -> History:
    if checkpoint.sequence < 0:
        return History()
    chain = ReceiptChain(Receipts(source.state, source.identity.state_prefix))
    sequences = SequenceRange(max(0, checkpoint.sequence - RECEIPTS + 1), checkpoint.sequence)
    receipts = [each for each in chain.back_from(checkpoint.receipt, sequences) if isinstance(each, Receipt)]
    lines = [line for receipt in receipts for line in receipt.lines]
    return History(
        len(receipts),
        len(lines),
        sum(line.size for line in lines),
        sum(line.rows for line in lines),
        sum(line.dead_records for line in lines),
    )


def lives_of(source: AuditedSource, now_ts: float, progress: Callable[[int], None]) -> Lives:
    """All of its files."""
    return Lives(source, "", lambda path: True, now_ts, progress)
