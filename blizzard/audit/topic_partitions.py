"""The rows and letters of one partition, compared with the messages that the brokers have, and with the receipts."""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.attempts import Key
from blizzard.audit.topic_receipts import Brought, brought_by_commits, compared, is_vouched_for
from blizzard.audit.topic_report import PartitionAudit
from blizzard.audit.topic_rows import OffsetCounts, as_array, count_offsets
from blizzard.state.receipts import Receipts
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, path_of

NAMED = 1000
"""Ranges of offsets of each kind that are in the answer."""


@dataclass(slots=True)
class PartitionJudge:
    """`checkpoint`: of the source, which knows the partitions. `receipts`: None: they are not read. `named`: by kind,
    ranges of offsets, at most NAMED of each. `doubled`, `added`, `gone`: of all partitions that were judged, `gone` by
    the sequence of the commit. `with_added`, `with_gone`: paths. `uncounted`: paths of partitions of which receipts are
    lost that are needed."""

    checkpoint: TopicCheckpoint
    rows: "Mapping[Key, array[int]]"
    letters: Mapping[Key, Collection[int]]
    receipts: Receipts | None
    named: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {"missing": [], "doubled": [], "added": []},
    )
    doubled: int = 0
    added: int = 0
    gone: Counter[int] = field(default_factory=Counter)
    with_added: list[str] = field(default_factory=list)
    with_gone: list[str] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)
    _brought: Mapping[Key, Brought] | None = None

    def judge(self, plan: PartitionAudit, messages: "array[int]") -> PartitionAudit:
        """`messages`: the offsets of those that the brokers have of what is compared, ascending."""
        partition = plan.topic, plan.partition
        counts, letters = self._counts(partition), self._letters(partition)
        own = counts.own
        compared_rows = own.filter(pc.greater_equal(own, plan.first_offset))
        on_brokers = as_array(messages)
        in_table = pc.is_in(on_brokers, own)
        in_letters = pc.and_not(pc.is_in(on_brokers, letters), in_table)
        missing = on_brokers.filter(pc.invert(pc.or_(in_table, in_letters)))
        self._name("missing", partition, missing)
        vouched = is_vouched_for(len(messages), plan.first_offset, counts.end, self._began(partition))
        doubled, added, gone = self._judge_rows(partition, counts, vouched=vouched)
        return replace(
            plan,
            messages=len(on_brokers),
            committed=pc.sum(in_table).as_py() or 0,
            dead_lettered=pc.sum(in_letters).as_py() or 0,
            missing=len(missing),
            doubled=doubled,
            added=added,
            gone=gone,
            only_in_table=pc.sum(pc.invert(pc.is_in(compared_rows, on_brokers))).as_py() or 0,
            older_rows=counts.before(self.rows.get(self._key(partition), array("q")), plan.first_offset),
        )

    def judge_without_brokers(self, judged: Iterable[PartitionAudit]) -> None:
        """Those partitions that are not judged yet: the brokers do not have them any more, or others."""
        done = {(one.topic, one.partition) for one in judged}
        for name, topic in self.checkpoint.topics.items():
            for number in topic.next_offsets:
                if (name, number) not in done:
                    self._judge_rows((name, number), self._counts((name, number)), vouched=False)

    def _judge_rows(self, partition: Partition, counts: OffsetCounts, *, vouched: bool) -> tuple[int, int, int]:
        """How many offsets are doubled, and how many rows are added and gone."""
        path, letters = path_of(partition), self._letters(partition)
        doubled = pc.unique(pa.concat_arrays([counts.doubled, letters.filter(pc.is_in(letters, counts.once))]))
        self._name("doubled", partition, doubled.take(pc.sort_indices(doubled)))
        self._name("added", partition, counts.forged)
        added, gone = len(counts.forged), 0
        if not vouched and self.receipts is not None:
            began = self._began(partition)
            by_receipts = compared(self._brought_to(partition, self.receipts), counts.own, began, counts.end)
            added, gone = added + by_receipts.added, by_receipts.gone.total()
            self.gone += by_receipts.gone
            if began is not None and not by_receipts.is_complete:
                self.uncounted.append(path)
        self.doubled, self.added = self.doubled + len(doubled), self.added + added
        self.with_added += [path] if added else []
        self.with_gone += [path] if gone else []
        return len(doubled), added, gone

    def _brought_to(self, partition: Partition, receipts: Receipts) -> Brought | None:
        if self._brought is None:
            self._brought = brought_by_commits(receipts, self.checkpoint)
        return self._brought.get(self._key(partition))

    def _key(self, partition: Partition) -> Key:
        return path_of(partition), self.checkpoint.topics[partition[0]].topic_id

    def _began(self, partition: Partition) -> int | None:
        return self.checkpoint.topics[partition[0]].first_offsets.get(partition[1])

    def _counts(self, partition: Partition) -> OffsetCounts:
        end = self.checkpoint.topics[partition[0]].next_offsets[partition[1]]
        return count_offsets(self.rows.get(self._key(partition), array("q")), self._began(partition) or 0, end)

    def _letters(self, partition: Partition) -> pa.Array:
        return pa.array(sorted(self.letters.get(self._key(partition), ())), pa.int64())

    def _name(self, kind: str, partition: Partition, offsets: pa.Array) -> None:
        room = NAMED - len(self.named[kind])
        self.named[kind] += [{"path": path_of(partition), **each} for each in _ranges(offsets.to_pylist())[:room]]


def _ranges(offsets: Sequence[int]) -> list[dict[str, int]]:
    """Ascending offsets, as ranges from the first to the last (inclusive)."""
    found: list[dict[str, int]] = []
    for offset in offsets:
        if found and found[-1]["last"] == offset - 1:
            found[-1]["last"] = offset
        else:
            found.append({"first": offset, "last": offset})
    return found
