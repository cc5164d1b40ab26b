"""The audit of a source that reads topics: every message that the brokers still have accounted for.

First the table is read, then the brokers, up to where the table's checkpoint stands: what a run commits meanwhile is
behind that. Of each message only the offset is kept, 8 bytes: of 10 million messages and rows about 160 MB.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.attempts import Key, without_commit
from blizzard.audit.notices import DATA_FILES_LOST, data_file_notices
from blizzard.audit.report import Notice, Verdict
from blizzard.audit.table_rows import LOST
from blizzard.audit.topic_report import PartitionAudit, TopicAuditReport, digest_of
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.kafka.epochs import cut_logs
from blizzard.kafka.table_state import topic_state
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipts, attempt_of
from blizzard.state.settled_letters import letters_with_settlements
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, partition_of_path, path_of
from blizzard.storage.base import ObjectStore
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.active_files import ActiveFiles, active_files
from blizzard.table.row_runs import rows_of
from blizzard.table.source_column import SourceColumn

LETTERS_UNREADABLE = "letters_unreadable"
BAD = {DATA_FILES_LOST, LETTERS_UNREADABLE}
"""Notices of what is lost. Once the brokers no longer have its messages, nothing of it seems to be missing."""
NAMED = 1000
"""Ranges of offsets of each kind that are in the answer."""
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
    notices: list[Notice] = field(default_factory=list)
    has_rows: bool = True
    """False: they cannot be read here."""


@dataclass(frozen=True, slots=True)
class AuditedTopics:
    """`state`: the table, with the source's state. `offsets`: reads them from the brokers."""

    identity: SourceIdentity
    table_uri: str
    state: ObjectStore
    s3: S3Settings
    brokers: Brokers
    offsets: Offsets


def audit_topics(source: AuditedTopics, *, clock: Callable[[], float], progress: Progress) -> TopicAuditReport:
    """Errors as of `Brokers`, and of storage; UnreadableState if the table's state cannot be read."""
    stored = _stored(source, progress)
    listed_ts = clock()
    cluster = source.brokers.cluster()
    partitions, found = _compared(source, stored, cluster, progress)
    gone = sum(map(_gone, partitions))
    waiting = sum(max(0, one.end_offset - one.next_offset) for one in partitions) - gone
    known = _keys(stored.checkpoint)
    changed = sum(len(rows) for key, rows in stored.rows.items() if key not in known)
    totals = {
        name: sum(getattr(one, name) for one in partitions)
        for name in ("committed", "dead_lettered", "missing", "doubled")
    }
    bad = totals["missing"] or totals["doubled"] or changed or BAD & {notice.kind for notice in stored.notices}
    return TopicAuditReport(
        source=source.identity.source_id,
        table_uri=source.table_uri,
        verdict=Verdict.BAD if bad else Verdict.NOTES if stored.notices else Verdict.GOOD,
        objects=totals["committed"] + totals["dead_lettered"] + totals["missing"] + waiting,
        pending=waiting,
        changed=changed,
        lost=stored.lost + gone,
        rows=sum(map(len, stored.rows.values())),
        table_version=stored.version,
        listed_at=listed_ts,
        partitions=partitions,
        found=found,
        notices=stored.notices,
        digest=digest_of(partitions, found),
        **totals,
    )


def _gone(one: PartitionAudit) -> int:
    """Offsets that are gone before they were read, and of which no commit says so yet."""
    return max(0, min(one.first_offset, one.end_offset) - one.next_offset)


def _keys(checkpoint: TopicCheckpoint | None) -> set[Key]:
    """Of the partitions whose rows the table should have."""
    if checkpoint is None:
        return set()
    return {
        (path_of((name, number)), topic.topic_id)
        for name, topic in checkpoint.topics.items()
        for number in topic.next_offsets
    }


# -- the table and the letters


def _stored(source: AuditedTopics, progress: Progress) -> _Stored:
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
    _add_rows(source, active, stored, progress)
    _add_letters(source, stored)
    return stored


def _add_rows(source: AuditedTopics, active: ActiveFiles, stored: _Stored, progress: Progress) -> None:
    files, lost = [file for file in active.files if file.may_hold(source.identity.source_id)], list[str]()
    for number, file in enumerate(files):
        progress("reading the table", number, len(files))
        deleted = active.deleted.get(unquote(file.path), ())
        fields = ("source", "file", "etag", "row")
        try:
            for rows in rows_of(SourceColumn(source.state, file), source.identity.source_id, fields, deleted):
                _add_batch(rows, stored)
        except LOST:
            lost.append(unquote(file.path))
    stored.notices += data_file_notices(lost, len(lost))


def _add_batch(rows: pa.Table, stored: _Stored) -> None:
    for path in pc.unique(rows["file"]).to_pylist():
        of_path = rows.filter(pc.equal(rows["file"], path))
        for etag in pc.unique(of_path["etag"]).to_pylist():
            found = of_path.filter(pc.equal(of_path["etag"], etag))["row"]
            stored.rows.setdefault((path or "", etag or ""), array("q")).extend(found.to_pylist())


def _add_letters(source: AuditedTopics, found: _Stored) -> None:
    """A settled letter is about a message that is in the table since."""
    unreadable: list[str] = []
    stored = source.identity.state_prefix, source.identity.source_id
    receipt = None if found.checkpoint is None else found.checkpoint.receipt
    committed = None if receipt is None else attempt_of(receipt)
    for letter, settlement in letters_with_settlements(source.state, *stored, unreadable, committed=committed):
        if settlement is not None:
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


def _forget_letters_without_commit(source: AuditedTopics, stored: _Stored, plans: Iterable[PartitionAudit]) -> None:
    """Of the messages that are compared."""
    checkpoint = stored.checkpoint
    if checkpoint is None:
        return
    compared: dict[Key, set[int]] = {}
    for plan in plans:
        key = (path_of((plan.topic, plan.partition)), checkpoint.topics[plan.topic].topic_id)
        if letters := stored.letters.get(key):
            compared[key] = {offset for offset in letters if plan.first_offset <= offset < plan.next_offset}
    receipts = Receipts(source.state, source.identity.state_prefix)
    for key, offsets in without_commit(_letters_of(source), receipts, checkpoint, compared).items():
        stored.letters[key] -= offsets


# -- the brokers


def _compared(
    source: AuditedTopics, stored: _Stored, cluster: Cluster, progress: Progress
) -> tuple[list[PartitionAudit], dict[str, list[dict[str, Any]]]]:
    checkpoint = stored.checkpoint
    known = _comparable(checkpoint, cluster, stored.notices)
    told = source.brokers.ends(sorted({*known, *cluster.partitions()} if checkpoint is None else known))
    cut = {} if checkpoint is None else cut_logs(source.brokers, checkpoint, told)
    stored.notices += [Notice("log_truncated", f"{why}: nothing of it was compared") for _, why in sorted(cut.items())]
    every = sorted(told.keys() - cut.keys())
    firsts = source.brokers.first_offsets(every)
    found: dict[str, list[dict[str, Any]]] = {"missing": [], "doubled": []}
    plans = {each: _plan(stored, each, firsts[each], told[each].offset) for each in every}
    if not stored.has_rows:
        return [*plans.values()], found
    _forget_letters_without_commit(source, stored, plans.values())
    done: list[PartitionAudit] = []
    for at in range(0, len(every), PARTITIONS_AT_ONCE):
        progress("reading the topics", at, len(every))
        some = every[at : at + PARTITIONS_AT_ONCE]
        ranges = {each: (plans[each].first_offset, plans[each].next_offset) for each in some}
        ranges = {each: (first, end) for each, (first, end) in ranges.items() if first < end}
        offsets = {each: array("q") for each in some}
        for partition, messages in source.offsets(ranges) if ranges else ():
            offsets[partition].extend(messages)
        done += [_judged(plans[each], stored, checkpoint, offsets[each], found) for each in some]
    return done, found


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


def _judged(
    plan: PartitionAudit,
    stored: _Stored,
    checkpoint: TopicCheckpoint | None,
    messages: "array[int]",
    found: dict[str, list[dict[str, Any]]],
) -> PartitionAudit:
    path = path_of((plan.topic, plan.partition))
    key = (path, "" if checkpoint is None else checkpoint.topics[plan.topic].topic_id)
    rows, letters = (
        _as_array(stored.rows.get(key, array("q"))),
        pa.array(sorted(stored.letters.get(key, ())), pa.int64()),
    )
    older = pc.less(rows, plan.first_offset)
    counted = pc.value_counts(rows.filter(pc.invert(older)))
    once, counts = counted.field("values"), counted.field("counts")
    on_brokers = _as_array(messages)
    in_table = pc.is_in(on_brokers, once)
    in_letters = pc.and_not(pc.is_in(on_brokers, letters), in_table)
    missing = on_brokers.filter(pc.invert(pc.or_(in_table, in_letters)))
    doubled = pa.concat_arrays([once.filter(pc.greater(counts, 1)), letters.filter(pc.is_in(letters, once))])
    doubled = pc.unique(doubled).sort()
    for kind, offsets in (("missing", missing), ("doubled", doubled)):
        room = NAMED - len(found[kind])
        found[kind] += [{"path": path, **each} for each in _ranges(offsets.to_pylist())[:room]]
    return replace(
        plan,
        messages=len(on_brokers),
        committed=pc.sum(in_table).as_py() or 0,
        dead_lettered=pc.sum(in_letters).as_py() or 0,
        missing=len(missing),
        doubled=len(doubled),
        only_in_table=pc.sum(pc.invert(pc.is_in(once, on_brokers))).as_py() or 0,
        older_rows=pc.sum(older).as_py() or 0,
    )


def _as_array(offsets: "array[int]") -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(offsets), [None, pa.py_buffer(offsets)])


def _ranges(offsets: Sequence[int]) -> list[dict[str, int]]:
    """Ascending offsets, as ranges from the first to the last (inclusive)."""
    found: list[dict[str, int]] = []
    for offset in offsets:
        if found and found[-1]["last"] == offset - 1:
            found[-1]["last"] = offset
        else:
            found.append({"first": offset, "last": offset})
    return found
