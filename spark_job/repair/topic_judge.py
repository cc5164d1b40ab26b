"""Decides, before anything is read, which messages can be read once more: from the checkpoint, the table's rows, and
the brokers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from blizzard.audit.attempts import Key, without_commit
from blizzard.audit.settled_by_commits import settled_by_commits
from blizzard.kafka.brokers import Brokers
from blizzard.kafka.epochs import cut_logs
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.receipts import Receipts
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, partition_of_path
from spark_job.ports.offset_range import OffsetRange
from spark_job.ports.table import FileTable, FileVersion
from spark_job.repair.work import Fate, Item, Kind, Result, Work

READ_THROUGH = 20_000
"""Offsets between two wanted messages that are read, too: that takes less time than to begin anew behind them."""
NAMED_RANGES = 20
GIVE = "give the repaired ones with --records"
DECIDED = (
    "their letters are of attempts that made no commit. A later one has brought their rows, and somebody has deleted "
    "these, or it has refused them, and its letters are lost: `blizzard replace --path` reads the partition anew, "
    "deleted rows included, or give them with --records"
)


@dataclass(frozen=True, slots=True)
class ChosenMessages:
    """Messages of one partition that are read. `wanted`: their offsets, ascending; empty: all of the ranges.
    `present`: those of the item that a commit has brought already. `count`: how many messages there have to be."""

    item: Item
    ranges: Sequence[OffsetRange]
    wanted: tuple[int, ...]
    present: tuple[int, ...] = ()
    count: int = 0


class TopicJudge:
    """Of one source. `letters`, `receipts`: the source's."""

    def __init__(self, *, table: FileTable[Any], brokers: Brokers, letters: DeadLetters, receipts: Receipts) -> None:
        self._table = table
        self._brokers = brokers
        self._letters, self._receipts = letters, receipts

    def choose(self, checkpoint: TopicCheckpoint, items: Sequence[Item], work: Work) -> Sequence[ChosenMessages]:
        """Those of the items of which something is read; ends what cannot be. All are of one kind, and of different
        partitions. Errors as of `Brokers`."""
        known = self._known(checkpoint, items)
        there = self._there(checkpoint, items)
        chosen = []
        for item in items:
            found = _judged(item, known[item.path], checkpoint, there, work)
            if found is not None:
                chosen.append(found)
        return chosen

    def _known(self, checkpoint: TopicCheckpoint, items: Sequence[Item]) -> Mapping[str, "_Known"]:
        """By path."""
        present = self._table.rows_present({item.path: item.records for item in items})
        known, unknown = dict[str, _Known](), dict[Key, set[int]]()
        for item in items:
            in_table = present.get(FileVersion(item.path, item.etag), frozenset())
            known[item.path] = _Known({*in_table, *item.settled_at(checkpoint.sequence)})
            partition = partition_of_path(item.path)
            end = None if partition is None else checkpoint.next_offset(partition)
            read = {offset for offset in item.records if end is not None and offset < end}
            unknown[item.path, item.etag] = read - known[item.path].brought
        stored = self._letters, self._receipts, checkpoint
        for key, offsets in without_commit(*stored, unknown).items():
            known[key[0]].decided |= offsets
            unknown[key] -= offsets
        for (path, _), offsets in settled_by_commits(*stored, unknown).items():
            known[path].brought |= offsets
        return known

    def _there(self, checkpoint: TopicCheckpoint, items: Sequence[Item]) -> "_There":
        cluster = self._brokers.cluster()
        ids = {name: topic.topic_id for name, topic in cluster.topics.items()}
        same = {name for name, position in checkpoint.topics.items() if ids.get(name) == position.topic_id}
        asked = {partition for item in items if (partition := partition_of_path(item.path)) is not None}
        partitions = sorted(each for each in asked & {*cluster.partitions()} if each[0] in same)
        firsts, ends = self._brokers.first_offsets(partitions), self._brokers.ends(partitions)
        cut = cut_logs(self._brokers, checkpoint, ends)
        return _There({each: (firsts[each], ends[each].offset) for each in partitions if each not in cut}, cut)


@dataclass(slots=True)
class _Known:
    """Messages of one partition. `brought`: by commits already. Somebody may have deleted their rows since: then
    receipts still say so, also if nobody has marked their letters as settled, or the marks are lost. `decided`: those
    without a row whose letters are of attempts that made no commit. Another one has dealt with them since."""

    brought: set[int]
    decided: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _There:
    """What the brokers have of the topics that were read: of each partition from which offset to which. `cut`: of which
    they may have other messages, and why."""

    offsets: Mapping[Partition, tuple[int, int]]
    cut: Mapping[Partition, str]

    def why_gone(self, partition: Partition) -> str:
        if partition in self.cut:
            return f"{self.cut[partition]}: {GIVE}"
        if partition not in self.offsets:
            return f"the brokers no longer have the topic: {GIVE}"
        first, end = self.offsets[partition]
        return f"the brokers no longer have them (they have {first} to {end - 1}): {GIVE}"


def _judged(item: Item, known: _Known, checkpoint: TopicCheckpoint, there: _There, work: Work) -> ChosenMessages | None:
    present = tuple(sorted(known.brought))
    wanted = {*item.records} - known.brought
    if not wanted:
        work.end(Result(item, Fate.IN_ALREADY, settled=present))
        return None
    partition = partition_of_path(item.path)
    position = None if partition is None else checkpoint.topics.get(partition[0])
    if partition is None or position is None or partition[1] not in position.next_offsets:
        work.hold(item, item.records, "no commit of this table has the partition")
        return None
    if position.topic_id != item.etag:
        what = f"the table has messages of another topic of this name, with the id {position.topic_id}"
        work.hold(item, item.records, what)
        return None
    later = {offset for offset in wanted if offset >= position.next_offsets[partition[1]]}
    first, end = there.offsets.get(partition, (0, 0))
    on_brokers = {offset for offset in wanted - later if first <= offset < end}
    holds = [(later, "no commit has them yet: the next run reads them")]
    if item.kind is not Kind.GIVEN:
        holds.append((known.decided, DECIDED))
        holds.append((wanted - later - on_brokers - known.decided, there.why_gone(partition)))
    left: Item | None = item
    for offsets, reason in holds:
        if offsets and left is not None:
            left = work.hold(left, offsets, f"offsets {shown(offsets)}: {reason}")
            wanted -= offsets
    if left is None or not wanted:
        return None
    ranges = [*_ranges(left, partition, on_brokers, wanted)]
    return ChosenMessages(left, ranges, tuple(sorted(wanted)), present, len(wanted))


def _ranges(
    item: Item, partition: Partition, on_brokers: Collection[int], wanted: Collection[int]
) -> Iterator[OffsetRange]:
    topic, number = partition
    for offsets in _near(sorted(on_brokers)):
        given = tuple((offset, item.given[offset]) for offset in offsets if item.given)
        yield OffsetRange(topic, number, item.etag, offsets[0], offsets[-1] + 1, offsets, given)
    if gone := sorted({*wanted} - {*on_brokers}):
        given = tuple((offset, item.given[offset]) for offset in gone)
        yield OffsetRange(topic, number, item.etag, gone[0], gone[0], tuple(gone), given)


def near(one: OffsetRange, offsets: Collection[int]) -> Iterator[OffsetRange]:
    """Parts of a range that have these offsets."""
    for some in _near(sorted(offsets)):
        yield replace(one, start=some[0], end=some[-1] + 1)


def _near(offsets: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ascending offsets, in groups without large gaps."""
    starts = [0, *(at for at, (one, other) in enumerate(pairwise(offsets), 1) if other - one > READ_THROUGH)]
    for start, end in zip(starts, [*starts[1:], len(offsets)], strict=True):
        if offsets[start:end]:
            yield tuple(offsets[start:end])


def shown(offsets: Collection[int]) -> str:
    """For people: `1, 3 to 7`."""
    ranges: list[list[int]] = []
    for offset in sorted(offsets):
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    more = f" and {len(texts) - NAMED_RANGES} more ranges" if len(texts) > NAMED_RANGES else ""
    return ", ".join(texts[:NAMED_RANGES]) + more
