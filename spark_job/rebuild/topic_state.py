"""The state of a source of topics, made anew from its table: what is wrong with it, and the commit without rows that
repairs it.

Recovery repairs a checkpoint by the Txns of the partitions. This does the same at once, and also helps where recovery
refuses: a table that has rows of the source, but no Txn of it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from blizzard.errors import NotFound, RecoveryError, TxnLost, UnreadableState
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.kafka.positions import check_topics, with_offsets
from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import (
    Partition,
    TopicCheckpoint,
    TopicPosition,
    decode,
    encode,
    further_txns,
    partition_of_path,
)
from blizzard.storage.base import ObjectStore
from spark_job.loop.ingest import Ingest
from spark_job.loop.read_batch import ReadBatch
from spark_job.loop.topics.range_plan import RangePlan
from spark_job.loop.topics.recovery import recover
from spark_job.loop.topics.source import TopicSource
from spark_job.ports.table import FileTable
from spark_job.rebuild.state import NOTES
from spark_job.rebuild.unknown_rows import lost_race, refuse_unknown_rows


@dataclass(frozen=True, slots=True)
class TopicParts:
    """What a rebuild needs of one source of topics. `ingest`: commits what a `RestatedTopics` says. `known`: the ids of
    all configured sources of the table."""

    identity: SourceIdentity
    table: FileTable[Any]
    state: ObjectStore
    brokers: Brokers
    ingest: Ingest
    known: Collection[str]
    first_positions: Callable[[TopicCheckpoint, Cluster], TopicCheckpoint]
    """Where a partition begins of which nothing is known, whatever `start` says."""
    log: Log

    @property
    def source_id(self) -> str:
        return self.identity.source_id


@dataclass(frozen=True, slots=True)
class TopicsFound:
    """What is to be done about a source. `checkpoint`: the state that it continues from, with `moved`: the partitions
    that need a Txn."""

    source: str
    checkpoint: TopicCheckpoint
    problems: Sequence[str]
    steps: Sequence[str]
    commits: bool
    writes_copy: bool = False

    @property
    def is_well(self) -> bool:
        return not self.problems

    def as_document(self) -> dict[str, Any]:
        return {
            "kind": "topics",
            "source": self.source,
            "sequence": None if self.checkpoint.sequence < 0 else self.checkpoint.sequence,
            "files": sum(len(topic.next_offsets) for topic in self.checkpoint.topics.values()),
            "in_progress": 0,
            "read_again": 0,
            "problems": [{"kind": kind, "text": NOTES[kind]} for kind in self.problems],
            "steps": [*self.steps],
        }


class RestatedTopics(TopicSource):
    """Commits a position as it is, with the Txns of the partitions that `moved` names."""

    def settle(self, plan: RangePlan, batch: ReadBatch | None) -> TopicCheckpoint:
        return plan.base


@dataclass(frozen=True, slots=True)
class TopicStateRebuild:
    """Of one source. Nothing is written before `apply`."""

    parts: TopicParts

    # -- finding out

    def find(self) -> TopicsFound:
        """Raises RecoveryError if the table and the brokers do not tell how far the source is; other errors as of
        `Brokers`, and of storage."""
        parts = self.parts
        try:
            found = recover(parts.table, parts.state, parts.identity, parts.brokers, parts.log)
        except TxnLost:
            return self._by_rows()
        if found is None:
            nothing = TopicCheckpoint(parts.identity.pipeline, parts.identity.source)
            return TopicsFound(parts.source_id, nothing, [], [], commits=False)
        if found.repaired:
            return self._found(found.checkpoint, "checkpoint_unreadable", commits=True)
        if found.unpublished:
            copy = self._copy()
            behind = copy is not None and copy.sequence > found.checkpoint.sequence
            return self._found(found.checkpoint, "table_behind" if behind else "copy_lost", commits=False)
        return TopicsFound(parts.source_id, found.checkpoint, [], [], commits=False)

    def _found(self, checkpoint: TopicCheckpoint, problem: str, *, commits: bool) -> TopicsFound:
        step = "write the checkpoint's copy"
        if commits:
            count = len(further_txns(self.parts.identity, checkpoint))
            txns = f", {count:,} Txns of partitions" if count else ""
            step = f"commit the Txn of the source{txns} and the checkpoint, without rows, and {step}"
        return TopicsFound(self.parts.source_id, checkpoint, [problem], [step], commits, writes_copy=not commits)

    def _by_rows(self) -> TopicsFound:
        """The table has lost its Txns, so its log proves nothing: only its rows say how far each partition is. Each
        commit reads on where the one before has ended, so what is before the last row is done; what is behind it is
        read again. The sequence becomes higher than any before."""
        parts = self.parts
        refuse_unknown_rows(parts.table, parts.source_id, parts.known)
        copy = self._copy()
        newest = parts.table.newest_sequence()
        sequence = max(each for each in (newest, None if copy is None else copy.sequence, 0) if each is not None)
        nexts = self._next_offsets()
        fresh = TopicCheckpoint(parts.identity.pipeline, parts.identity.source)
        cluster = parts.brokers.cluster()
        self._check_there(cluster, nexts.keys())
        ids = {topic: topic_id for (topic, _), (_, topic_id) in nexts.items()}
        begun = _begun(parts.first_positions(fresh, cluster), copy, cluster, nexts.keys())
        gone = {name: _of_rows(name, topic_id, nexts) for name, topic_id in ids.items() if name not in cluster.topics}
        begun = replace(begun, topics=MappingProxyType({**begun.topics, **gone}))
        found = with_offsets(begun, {each: offset for each, (offset, _) in nexts.items()}, cluster)
        of_rows = {name: replace(found.topics[name], topic_id=topic_id) for name, topic_id in ids.items()}
        check_topics(replace(found, topics=MappingProxyType(of_rows)), cluster)
        all_nexts = {(name, n): at for name, topic in found.topics.items() for n, at in topic.next_offsets.items()}
        taken = None if copy is None else copy.taken_over
        found = replace(found, sequence=sequence, moved=MappingProxyType(all_nexts), taken_over=taken)
        return self._found(found, "txn_lost", commits=True)

    def _next_offsets(self) -> Mapping[Partition, tuple[int, str]]:
        """By partition behind the last row, with the topic's id that the rows have."""
        found: dict[Partition, tuple[int, str]] = {}
        for (path, topic_id), row in self.parts.table.last_rows_after(-1).items():
            partition = partition_of_path(path)
            if partition is None:
                raise RecoveryError(
                    f"the table has rows of source {self.parts.source_id} whose `_source.file` is {path!r:.200}; "
                    "expected a topic and the number of a partition. Nothing was written. Is the source one of files?"
                )
            if partition in found:
                raise RecoveryError(
                    f"the table has rows of two topics of the name {partition[0]}, with the ids "
                    f"{found[partition][1]} and {topic_id}, so they do not tell how far the source "
                    "is. Nothing was written. Remove the rows of the one that is gone."
                )
            found[partition] = row + 1, topic_id
        return found

    def _check_there(self, cluster: Cluster, partitions: Collection[Partition]) -> None:
        """Raises RecoveryError if the brokers have none of the topics: nothing tells then of which cluster they are."""
        read = {topic for topic, _ in partitions}
        if read and not read & cluster.topics.keys():
            raise RecoveryError(
                f"the table has rows of topic {min(read)}, which the brokers do not have, or which `kafka` of source "
                f"{self.parts.source_id} does not name, and of no other one. Nothing was written. Correct the "
                "configuration."
            )

    def _copy(self) -> TopicCheckpoint | None:
        identity = self.parts.identity
        try:
            text = self.parts.state.get(identity.copy_key)
            return decode(text, pipeline=identity.pipeline, source=identity.source)
        except (NotFound, UnreadableState):
            return None

    # -- repairing

    def apply(self, found: TopicsFound) -> int:
        """Returns the sequence of the state as it is then. May be killed anywhere, and repeated from `find` on.

        Raises LostRace if another process has committed since `find`.
        """
        expected = None if "txn_lost" in found.problems else found.checkpoint.sequence
        if self.parts.table.txn_version(self.parts.identity.app_id) != expected:
            raise lost_race(self.parts.source_id)
        if found.writes_copy:
            self.parts.state.put(self.parts.identity.copy_key, encode(found.checkpoint).encode())
        if not found.commits:
            return found.checkpoint.sequence
        if not self.parts.ingest.commit_state(RangePlan(found.checkpoint, found.checkpoint)):
            raise lost_race(self.parts.source_id)
        return found.checkpoint.sequence + 1


def _of_rows(name: str, topic_id: str, nexts: Mapping[Partition, tuple[int, str]]) -> TopicPosition:
    """Of a topic that is not read on: where it began is not known."""
    by_number = {number: offset for (topic, number), (offset, _) in nexts.items() if topic == name}
    return TopicPosition(topic_id, MappingProxyType(by_number))


def _begun(
    first: TopicCheckpoint, copy: TopicCheckpoint | None, cluster: Cluster, with_rows: Collection[Partition]
) -> TopicCheckpoint:
    """Where partitions began: as the copy says if it is of the same topics, else with the first message that they have.
    Where those with rows began is not known without it."""
    topics = {}
    for name, position in first.topics.items():
        known = None if copy is None or copy.cluster_id != cluster.cluster_id else copy.topics.get(name)
        if known is not None and known.topic_id != position.topic_id:
            known = None
        before = {} if known is None else known.first_offsets
        nexts = {number: before.get(number, at) for number, at in position.next_offsets.items()}
        firsts = {n: at for n, at in nexts.items() if n in before or (name, n) not in with_rows}
        topics[name] = TopicPosition(position.topic_id, MappingProxyType(nexts), MappingProxyType(firsts))
    return replace(first, topics=MappingProxyType(topics))
