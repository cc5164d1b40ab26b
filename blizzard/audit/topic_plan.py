"""What the next runs of a source of topics would read and commit."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from blizzard.config.kafka_options import NOTHING, KafkaOptions
from blizzard.errors import RecoveryError, RetryableError
from blizzard.kafka.batch_limits import FIRST_GUESS_BYTES, BatchLimits
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.kafka.epochs import check_logs, with_other_leaders
from blizzard.kafka.former_sources import check_not_renamed, former_topics
from blizzard.kafka.positions import (
    check_ends,
    check_topics,
    first_positions,
    lost_before,
    refuse_gaps,
    topics_missing,
    with_new_partitions,
    with_offsets,
)
from blizzard.kafka.table_state import TopicState
from blizzard.kafka.takeover import check_since, check_still_taken_over, taken_over
from blizzard.ledger.receipt_chain import ReceiptChain
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipt, Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint
from blizzard.state.txns import txns_of
from blizzard.storage.base import ObjectStore
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.active_files import active_files
from blizzard.table.lost_txn import TXN_LOST, holds_rows

RECEIPTS = 20
"""So many of the newest commits tell how many messages an offset is, and how large one is."""


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """`next_offset`: where the next run goes on, behind what is lost. `lag`: offsets up to the end, some of which may
    have no message. `lost`: offsets that were gone before they were read."""

    topic: str
    partition: int
    next_offset: int
    end_offset: int
    lag: int
    lost: int


@dataclass(frozen=True, slots=True)
class TopicBacklog:
    """`problem`: why the next run would stop; None: it would not. `is_new`: nothing of the source is in the table yet.
    `missing`: topics, or the pattern, as of `topics_missing`, without which the run goes on."""

    is_new: bool
    partitions: Sequence[PartitionBacklog] = ()
    problem: str | None = None
    missing: Sequence[str] = ()

    @property
    def lag(self) -> int:
        return sum(one.lag for one in self.partitions)


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """What the newest commits have read. `offsets`: of the lines of which receipts say them; `messages_in_them`: how
    many messages these lines had."""

    commits: int = 0
    rows: int = 0
    rejected: int = 0
    bytes: int = 0
    offsets: int = 0
    messages_in_them: int = 0

    @property
    def messages(self) -> int:
        return self.rows + self.rejected

    def messages_expected(self, lag: int) -> int:
        """All of the offsets, if nobody knows how many have none."""
        return round(lag * self.messages_in_them / self.offsets) if self.offsets else lag

    def expected(self, messages: int, count: int) -> int | None:
        """Of the `count` rows, refused messages or bytes that these commits had, how many as many messages bring; None:
        nobody knows."""
        return round(messages * count / self.messages) if self.messages else None


def has_lost_txn(
    state: TopicState, store: ObjectStore, identity: SourceIdentity, table_uri: str, settings: S3Settings
) -> bool:
    """Whether the table has rows of the source and no Txn of it, so that runs refuse it. `store`: the table's."""
    if state.version is None or state.checkpoint is not None:
        return False
    return holds_rows(store, active_files(table_uri, state.version, settings), identity.source_id)


def topic_backlog(
    state: TopicState,
    store: ObjectStore,
    identity: SourceIdentity,
    brokers: Brokers,
    options: KafkaOptions,
    *,
    configured: Collection[str],
    txn_lost: bool,
) -> TopicBacklog:
    """As the next run would find it, without committing where a new source begins. `store`: the table's. `configured`:
    ids of the sources of its pipeline. `txn_lost`: as of `has_lost_txn`; the backlog is that of a new source then.
    Errors as of `Brokers`, and of storage; PermanentError or RecoveryError for a source that cannot begin."""
    is_new = state.checkpoint is None and not txn_lost
    checkpoint = state.checkpoint
    cluster = brokers.cluster()
    if checkpoint is None:
        checkpoint = _beginning(state, store, identity, brokers, cluster, options, configured)
    missing = topics_missing(options, cluster.topics.keys())
    try:
        check_topics(checkpoint, cluster)
        _check_taken_over(checkpoint, store, identity, options)
    except RecoveryError as error:
        return TopicBacklog(is_new, problem=str(error), missing=missing)
    checkpoint = with_new_partitions(checkpoint, brokers, cluster)
    told = brokers.ends(sorted(cluster.partitions()))
    ends = {partition: end.offset for partition, end in told.items()}
    gaps = lost_before(checkpoint, brokers, ends)
    lost = {gap.partition: gap.end - gap.start for gap in gaps}
    behind = with_offsets(checkpoint, {gap.partition: gap.end for gap in gaps})
    found = [_of_partition(each, behind, end, lost.get(each, 0)) for each, end in sorted(ends.items())]
    problem = None
    try:
        check_logs(brokers, with_other_leaders(checkpoint, told))
        check_ends(behind, ends)
        if gaps and options.on_lost_offsets == "stop":
            refuse_gaps(gaps, identity.source_id)
    except (RecoveryError, RetryableError) as error:
        problem = str(error)
    return TopicBacklog(is_new, found, TXN_LOST if txn_lost else problem, missing)


def _beginning(
    state: TopicState,
    store: ObjectStore,
    identity: SourceIdentity,
    brokers: Brokers,
    cluster: Cluster,
    options: KafkaOptions,
    configured: Collection[str],
) -> TopicCheckpoint:
    """Of a source that has no checkpoint."""
    txns = txns_of(store) if state.version is not None else []
    known = taken_over(store, txns, options, identity.source_id)
    if options.take_over != NOTHING and (former := former_topics(store, txns, (), configured)):
        check_not_renamed(former, cluster, identity.source_id)
    return first_positions(brokers, cluster, options, TopicCheckpoint(identity.pipeline, identity.source), known)


def _check_taken_over(
    checkpoint: TopicCheckpoint, store: ObjectStore, identity: SourceIdentity, options: KafkaOptions
) -> None:
    check_still_taken_over(checkpoint, options, identity.source_id)
    if checkpoint.sequence >= 0 and options.app_id_to_take_over is not None:
        check_since(checkpoint, store, txns_of(store), options, identity.source_id)


def _of_partition(partition: Partition, checkpoint: TopicCheckpoint, end: int, lost: int) -> PartitionBacklog:
    topic, number = partition
    at = checkpoint.topics[topic].next_offsets[number]
    return PartitionBacklog(topic, number, at, end, max(0, end - at), lost)


def commits_of(lag: int, bytes_each: float | None, limits: BatchLimits) -> int:
    """How many batches so many offsets are, of so many bytes each; None: the first batch has to tell."""
    if bytes_each is not None:
        return -(-lag // limits.messages_of(bytes_each))
    return min(1, lag) + commits_of(max(0, lag - limits.first), FIRST_GUESS_BYTES, limits)


def message_history(store: ObjectStore, identity: SourceIdentity, checkpoint: TopicCheckpoint | None) -> MessageHistory:
    if checkpoint is None or checkpoint.receipt is None:
        return MessageHistory()
    receipts = [*_newest(store, identity, checkpoint)]
    lines = [(line, receipt) for receipt in receipts for line in receipt.lines if line.repair is None]
    ranges = [(line, receipt.offsets[line.path]) for line, receipt in lines if line.path in receipt.offsets]
    return MessageHistory(
        len({receipt.sequence for _, receipt in lines}),
        sum(line.rows for line, _ in lines),
        sum(line.dead_records for line, _ in lines),
        sum(line.size for line, _ in lines),
        sum(end - start for _, (start, end) in ranges),
        sum(line.rows + line.dead_records for line, _ in ranges),
    )


def _newest(store: ObjectStore, identity: SourceIdentity, checkpoint: TopicCheckpoint) -> Iterator[Receipt]:
    chain = ReceiptChain(Receipts(store, identity.state_prefix))
    sequences = SequenceRange(max(0, checkpoint.sequence - RECEIPTS + 1), checkpoint.sequence)
    yield from (each for each in chain.back_from(checkpoint.receipt, sequences) if isinstance(each, Receipt))
