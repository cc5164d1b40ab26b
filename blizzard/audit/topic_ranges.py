"""Which offsets of topics each commit brought, and which wait: the life of the messages of a source."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from blizzard.audit.topic_plan import PartitionBacklog
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipt, ReceiptLine, Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.state.topic_checkpoint import TopicCheckpoint, path_of
from blizzard.storage.base import ObjectStore

COMMITTED, DEAD_LETTERED, PENDING, MISSING = "committed", "dead_lettered", "pending", "missing"
MAX_COMMITS = 10_000
"""So many commits are looked at if there is a limit; each takes two requests."""
LOST = "the messages were gone before they were read"


@dataclass(frozen=True, slots=True)
class OffsetsLife:
    """What became of a range of offsets of one partition: from `first_offset` (inclusive) to `next_offset` (exclusive);
    None: the receipt does not say, as that of a replay or of an earlier version. `rows`, `rejected`: that the commit
    brought. `table_version`: None if the log no longer has the commit. `repair`: as in `ReceiptLine`. `problem`: why
    nothing is known of the source; the path is empty then."""

    source: str
    path: str
    state: str
    reason: str | None = None
    etag: str | None = None
    first_offset: int | None = None
    next_offset: int | None = None
    rows: int | None = None
    rejected: int | None = None
    sequence: int | None = None
    table_version: int | None = None
    committed_ts: float | None = None
    repair: str | None = None
    kind: str = "topics"
    problem: str | None = None


@dataclass(slots=True)
class CommittedRanges:
    """`lives`: by partition, newest first. `missing`: commits whose receipts cannot be read. `cut`: whether there are
    older ones."""

    lives: dict[str, list[OffsetsLife]] = field(default_factory=dict)
    missing: list[SequenceRange] = field(default_factory=list)
    cut: bool = False


def committed_ranges(
    store: ObjectStore,
    identity: SourceIdentity,
    checkpoint: TopicCheckpoint,
    matches: Callable[[str], bool],
    *,
    since_ts: float | None,
    limit: int,
) -> CommittedRanges:
    """From the newest commit back, of the partitions that match: those since a time (Unix seconds; None: all), and at
    most `limit` (0: all)."""
    found, receipts, count = CommittedRanges(), list[Receipt](), 0
    chain = ReceiptChain(Receipts(store, identity.state_prefix))
    for each in chain.back_from(checkpoint.receipt, SequenceRange(0, checkpoint.sequence)):
        if isinstance(each, MissingReceipts):
            found.missing.append(each.sequences)
            continue
        if since_ts is not None and each.written_ts < since_ts:
            break
        if limit and (count >= limit or len(receipts) >= MAX_COMMITS):
            found.cut = True
            break
        receipts.append(each)
        count += sum(1 for line in each.lines if matches(line.path))
    commits = _commits(store, identity, receipts)
    for receipt in receipts:
        for line in receipt.lines:
            if matches(line.path):
                life = _life(identity.source_id, receipt, line, commits.get(receipt.sequence))
                found.lives.setdefault(line.path, []).append(life)
    return found


def _commits(store: ObjectStore, identity: SourceIdentity, receipts: Sequence[Receipt]) -> Mapping[int, Commit]:
    """Those of these receipts that the log still has, by sequence."""
    found: dict[int, Commit] = {}
    lowest = receipts[-1].sequence if receipts else 0
    for commit in DeltaLogTail(store).commits(WHOLE_LOG) if receipts else ():
        sequence = commit.txns.get(identity.app_id)
        if sequence is not None:
            found[sequence] = commit
            if sequence <= lowest:
                break
    return found


def _life(source_id: str, receipt: Receipt, line: ReceiptLine, commit: Commit | None) -> OffsetsLife:
    first, after = receipt.offsets.get(line.path, (None, None))
    all_refused = line.dead_records > 0 and not line.rows
    return OffsetsLife(
        source_id,
        line.path,
        DEAD_LETTERED if all_refused else COMMITTED,
        etag=line.etag,
        first_offset=first,
        next_offset=after,
        rows=line.rows,
        rejected=line.dead_records,
        sequence=receipt.sequence,
        table_version=None if commit is None else commit.version,
        committed_ts=receipt.written_ts if commit is None or commit.committed_ts is None else commit.committed_ts,
        repair=line.repair,
    )


def with_losses(lives: Sequence[OffsetsLife]) -> list[OffsetsLife]:
    """Of one partition, newest first: with the offsets between two commits that no commit read, since they were gone.
    A chain of receipts ends with the first that is missing, so none is missing between two."""
    found, newer = list[OffsetsLife](), None
    for life in lives:
        if life.first_offset is not None and life.next_offset is not None:
            if newer is not None and newer.first_offset is not None and life.next_offset < newer.first_offset:
                gone = replace(newer, state=DEAD_LETTERED, reason=LOST, rows=0, rejected=0)
                found.append(replace(gone, first_offset=life.next_offset, next_offset=newer.first_offset))
            newer = life
        found.append(life)
    return found


def waiting_ranges(
    source_id: str, backlog: Iterable[PartitionBacklog], matches: Callable[[str], bool]
) -> Iterator[OffsetsLife]:
    """What no commit has yet, and what is gone before it."""
    for one in backlog:
        path = path_of((one.topic, one.partition))
        if one.lost and matches(path):
            first = one.next_offset - one.lost
            yield OffsetsLife(source_id, path, MISSING, LOST, first_offset=first, next_offset=one.next_offset)
        if one.lag and matches(path):
            yield OffsetsLife(source_id, path, PENDING, first_offset=one.next_offset, next_offset=one.end_offset)
