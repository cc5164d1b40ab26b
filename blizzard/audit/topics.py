"""The audit of a source that reads topics: every message that the brokers still have accounted for.

First the marks of settled letters are read, then the table, then all letters, then the brokers, up to where the table's
checkpoint stands: what a run commits meanwhile is behind that. Of each message only the offset is kept, 8 bytes: of 10
million messages and rows about 160 MB. What the brokers no longer have, the receipts know.
"""

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.attempts import Key, without_commit
from blizzard.audit.deletions import Deletions
from blizzard.audit.notices import DATA_FILES_LOST, data_file_notices, stranger_notices, topic_row_notices
from blizzard.audit.report import Notice, Verdict
from blizzard.audit.settled_by_commits import settled_by_commits
from blizzard.audit.strangers import Strangers, sources_committed_to, strangers_of
from blizzard.audit.taken_out import explained
from blizzard.audit.topic_partitions import PartitionJudge
from blizzard.audit.topic_report import PartitionAudit, TopicAuditReport, digest_of
from blizzard.audit.topic_rows import TopicRows, as_array
from blizzard.errors import BucketMissing
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.kafka.epochs import cut_logs
from blizzard.kafka.table_state import topic_state
from blizzard.kafka.takeover import has_been_filled_by_another
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipts, attempt_of
from blizzard.state.settled_letters import Settled, SettledLetters, letters_with_settlements
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, partition_of_path, path_of
from blizzard.state.txns import txns_of
from blizzard.storage.base import ObjectStore
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.active_files import ActiveFiles, active_files
from blizzard.table.lost_txn import TXN_LOST, holds_rows

LETTERS_UNREADABLE = "letters_unreadable"
BAD = {DATA_FILES_LOST, LETTERS_UNREADABLE, "rows_gone", "rows_of_unknown_sources", "txn_lost"}
"""Notices of what is lost or forged. Once the brokers no longer have its messages, nothing of it seems to be missing.
"""
PARTITIONS_AT_ONCE = 64

Offsets = Callable[[Mapping[Partition, tuple[int, int]]], Iterator[tuple[Partition, Sequence[int]]]]
"""The offsets of the messages of some ranges."""
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class _Stored:
    """What the table and the letters have, by partition and topic."""

    version: int | None = None
    checkpoint: TopicCheckpoint | None = None
    rows: "dict[Key, array[int]]" = field(default_factory=dict)
    letters: dict[Key, set[int]] = field(default_factory=dict)
    lost: int = 0
    others: Sequence[Strangers] = ()
    notices: list[Notice] = field(default_factory=list)
    has_rows: bool = True
    """False: they cannot be read here."""


@dataclass(frozen=True, slots=True)
class AuditedTopics:
    """`state`: the table, with the source's state. `offsets`: reads them from the brokers. `known`: the sources that
    are configured for the table; None: nobody asks for rows of others. `by_receipts`: whether receipts and log are read
    for what the brokers do not have; if not, nothing counts as gone, and as added only what no commit can have
    brought."""

    identity: SourceIdentity
    table_uri: str
    state: ObjectStore
    s3: S3Settings
    brokers: Brokers
    offsets: Offsets
    known: Collection[str] | None = None
    by_receipts: bool = True


def audit_topics(source: AuditedTopics, *, clock: Callable[[], float], progress: Progress) -> TopicAuditReport:
    """Errors as of `Brokers`, and of storage; UnreadableState if the table's state cannot be read."""
    stored = _stored(source, progress)
    listed_ts = clock()
    cluster = source.brokers.cluster()
    judge = _judge(source, stored)
    partitions = _compared(source, stored, cluster, judge, progress)
    deletions = Deletions()
    if stored.has_rows:
        judge.judge_without_brokers(partitions)
        deletions = explained(source, judge.gone, stored.version)
        stored.notices += topic_row_notices(judge, deletions)
    gone = sum(map(_gone, partitions))
    waiting = sum(max(0, one.end_offset - one.next_offset) for one in partitions) - gone
    changed = _changed(stored)
    totals = {name: sum(getattr(one, name) for one in partitions) for name in ("committed", "dead_lettered", "missing")}
    bad = totals["missing"] or judge.doubled or judge.added or changed
    bad = bad or BAD & {notice.kind for notice in stored.notices}
    return TopicAuditReport(
        source=source.identity.source_id,
        table_uri=source.table_uri,
        verdict=Verdict.BAD if bad else Verdict.NOTES if stored.notices else Verdict.GOOD,
        objects=totals["committed"] + totals["dead_lettered"] + totals["missing"] + waiting,
        pending=waiting,
        doubled=judge.doubled,
        changed=changed,
        added=judge.added,
        gone=deletions.gone,
        unexplained=deletions.unexplained,
        lost=stored.lost + gone,
        rows=sum(map(len, stored.rows.values())),
        others=stored.others,
        table_version=stored.version,
        listed_at=listed_ts,
        partitions=partitions,
        found=judge.named,
        notices=stored.notices,
        digest=digest_of(partitions, judge.named, (changed, judge.doubled, judge.added, deletions.gone), stored.others),
        **totals,
    )


def _judge(source: AuditedTopics, stored: _Stored) -> PartitionJudge:
    identity = source.identity
    checkpoint = stored.checkpoint or TopicCheckpoint(identity.pipeline, identity.source)
    receipts = Receipts(source.state, identity.state_prefix) if source.by_receipts else None
    return PartitionJudge(checkpoint, stored.rows, stored.letters, receipts)


def _gone(one: PartitionAudit) -> int:
    """Offsets that are gone before they were read, and of which no commit says so yet."""
    return max(0, min(one.first_offset, one.end_offset) - one.next_offset)


def _changed(stored: _Stored) -> int:
    """Rows of other topics than the checkpoint has."""
    if stored.checkpoint is None:
        return 0
    own = {
        (path_of((name, number)), topic.topic_id)
        for name, topic in stored.checkpoint.topics.items()
        for number in topic.next_offsets
    }
    return sum(len(stored.rows[key]) for key in stored.rows.keys() - own)


# -- the table and the letters


def _stored(source: AuditedTopics, progress: Progress) -> _Stored:
    settled = _settled(source)  # first: what they are about is in the table that is read after them
    state = topic_state(source.state, source.identity)
    stored = _Stored(state.version, state.checkpoint)
    if state.problem is not None:
        stored.notices.append(Notice("state_unreadable", f"{state.problem}; the next run repairs it"))
    if stored.version is None:
        return stored
    active = active_files(source.table_uri, stored.version, source.s3)
    if active.problem is not None:
        stored.has_rows = False
        stored.notices.append(Notice("rows_not_compared", f"nothing was compared: {active.problem}"))
    if stored.checkpoint is None and holds_rows(source.state, active, source.identity.source_id):
        stored.notices.append(Notice("txn_lost", f"{TXN_LOST}."))
    _add_rows(source, active, stored, progress)
    _add_letters(source, stored, settled)
    return stored


def _settled(source: AuditedTopics) -> Settled:
    with suppress(BucketMissing):  # before the table's first write
        return SettledLetters(source.state, source.identity.state_prefix).read()
    return Settled()


def _add_rows(source: AuditedTopics, active: ActiveFiles, stored: _Stored, progress: Progress) -> None:
    rows = TopicRows(source.state, source.identity.source_id, source.known)
    rows.read(active, progress)
    stored.rows = rows.offsets
    stored.notices += data_file_notices(rows.lost, len(rows.lost))
    if source.known is None:
        return
    ever_committed = sources_committed_to(source.table_uri, stored.version or 0, source.s3)
    known = {source.identity.source_id, *source.known}
    stored.others = strangers_of(rows.others, known, ever_committed)
    has_nobodys = any(each.source is None for each in stored.others)
    taken_over = has_nobodys and has_been_filled_by_another(txns_of(source.state))
    stored.notices += stranger_notices(stored.others, taken_over=taken_over)


def _add_letters(source: AuditedTopics, found: _Stored, settled: Settled) -> None:
    """A settled letter is about a message that is in the table since, unless it was settled by a commit that the table
    does not have: it may have been restored."""
    unreadable: list[str] = []
    stored = source.identity.state_prefix, source.identity.source_id
    receipt = None if found.checkpoint is None else found.checkpoint.receipt
    committed = None if receipt is None else attempt_of(receipt)
    sequence = -1 if found.checkpoint is None else found.checkpoint.sequence
    for letter, settlement in letters_with_settlements(
        source.state, *stored, unreadable, committed=committed, settled=settled
    ):
        if settlement is not None and (settlement.sequence is None or settlement.sequence <= sequence):
            continue
        if "lost_from" in letter and _is_behind(letter, found.checkpoint):
            found.lost += letter["lost_to"] - letter["lost_from"] + 1
        elif "lost_from" not in letter and isinstance(letter.get("row"), int):
            found.letters.setdefault((letter["path"], letter["etag"]), set()).add(letter["row"])
    if unreadable:
        text = f"{len(unreadable)} dead letters cannot be read, the first: {unreadable[0]}"
        found.notices.append(Notice(LETTERS_UNREADABLE, text))


def _is_behind(letter: Mapping[str, Any], checkpoint: TopicCheckpoint | None) -> bool:
    """Whether the source has gone on behind the gap that the letter is about. If not, no commit has the letter."""
    partition = partition_of_path(letter["path"])
    known = None if checkpoint is None or partition is None else checkpoint.next_offset(partition)
    return known is None or bool(letter["lost_from"] < known)


def _letters_of(source: AuditedTopics) -> DeadLetters:
    return DeadLetters(source.state, source.identity.state_prefix, source.identity.source_id)


def _forget_letters_that_do_not_count(source: AuditedTopics, stored: _Stored) -> None:
    """Of all messages that the source has read: those of attempts without a commit, and of rows those that a repair has
    settled, whose marks were not there yet, or are lost."""
    checkpoint = stored.checkpoint
    if checkpoint is None:
        return
    compared: dict[Key, set[int]] = {}
    for name, topic in checkpoint.topics.items():
        for number, end in topic.next_offsets.items():
            if letters := stored.letters.get(key := (path_of((name, number)), topic.topic_id)):
                compared[key] = {offset for offset in letters if offset < end}
    known = _letters_of(source), Receipts(source.state, source.identity.state_prefix), checkpoint
    for key, offsets in without_commit(*known, compared).items():
        stored.letters[key] -= offsets
    for key, offsets in settled_by_commits(*known, {key: _with_rows(stored, key) for key in compared}).items():
        stored.letters[key] -= offsets


def _with_rows(stored: _Stored, key: Key) -> set[int]:
    """The messages of a partition that have both a letter and a row."""
    letters = pa.array(sorted(stored.letters[key]), pa.int64())
    return {*letters.filter(pc.is_in(letters, as_array(stored.rows.get(key, array("q"))))).to_pylist()}


# -- the brokers


def _compared(
    source: AuditedTopics, stored: _Stored, cluster: Cluster, judge: PartitionJudge, progress: Progress
) -> list[PartitionAudit]:
    checkpoint = stored.checkpoint
    known = _comparable(checkpoint, cluster, stored.notices)
    told = source.brokers.ends(sorted({*known, *cluster.partitions()} if checkpoint is None else known))
    cut = {} if checkpoint is None else cut_logs(source.brokers, checkpoint, told)
    stored.notices += [Notice("log_truncated", f"{why}: nothing of it was compared") for _, why in sorted(cut.items())]
    every = sorted(told.keys() - cut.keys())
    firsts = source.brokers.first_offsets(every)
    plans = {each: _plan(stored, each, firsts[each], told[each].offset) for each in every}
    if not stored.has_rows:
        return [*plans.values()]
    _forget_letters_that_do_not_count(source, stored)
    done: list[PartitionAudit] = []
    for at in range(0, len(every), PARTITIONS_AT_ONCE):
        progress("reading the topics", at, len(every))
        some = every[at : at + PARTITIONS_AT_ONCE]
        ranges = {each: (plans[each].first_offset, plans[each].next_offset) for each in some}
        ranges = {each: (first, end) for each, (first, end) in ranges.items() if first < end}
        offsets = {each: array("q") for each in some}
        for partition, messages in source.offsets(ranges) if ranges else ():
            offsets[partition].extend(messages)
        done += [judge.judge(plans[each], offsets[each]) if each in known else plans[each] for each in some]
    return done


def _comparable(checkpoint: TopicCheckpoint | None, cluster: Cluster, notices: list[Notice]) -> list[Partition]:
    """Those partitions of the checkpoint that the brokers still have."""
    if checkpoint is None:
        return []
    if checkpoint.cluster_id not in (None, cluster.cluster_id):
        text = f"the brokers are of cluster {cluster.cluster_id}, and the table has messages of {checkpoint.cluster_id}"
        notices.append(Notice("another_cluster", f"{text}: nothing was compared. Correct `kafka.bootstrap_servers`."))
        return []
    partitions: list[Partition] = []
    for name, position in checkpoint.topics.items():
        topic = cluster.topics.get(name)
        if topic is None or topic.topic_id != position.topic_id:
            what = "is gone" if topic is None else "was deleted and made again"
            notices.append(Notice("topic_gone", f"topic {name} {what}: its messages cannot be compared any more"))
            continue
        if lost := sorted({*position.next_offsets} - {*topic.partitions}):
            text = f"topic {name} has no partition {lost[0]} any more: its messages cannot be compared"
            notices.append(Notice("topic_gone", text))
        partitions += [(name, number) for number in position.next_offsets if number in topic.partitions]
    return partitions


def _plan(stored: _Stored, partition: Partition, first: int, end: int) -> PartitionAudit:
    name, number = partition
    checkpoint = stored.checkpoint
    known = None if checkpoint is None else checkpoint.next_offset(partition)
    if known is None or checkpoint is None:
        return PartitionAudit(name, number, first, first, end)
    began = checkpoint.topics[name].first_offsets.get(number)
    if began is None:
        began = _first_stored(stored, (path_of(partition), checkpoint.topics[name].topic_id), known)
    return PartitionAudit(name, number, max(first, began), known, end)


def _first_stored(stored: _Stored, key: Key, next_offset: int) -> int:
    """Where the source seems to have begun: a state that was rebuilt from Txns does not tell it."""
    if all(notice.kind != "start_unknown" for notice in stored.notices):
        text = (
            "the state does not say where the source began, since it was rebuilt: messages before the first one that "
            "is stored were not compared"
        )
        stored.notices.append(Notice("start_unknown", text))
    return min([*stored.rows.get(key, ()), *stored.letters.get(key, ())], default=next_offset)
