"""The position of a source of topics, from the table's log: the newest readable checkpoint, or the Txns of its
partitions."""

from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from blizzard.errors import RecoveryError, TxnLost, UnreadableState
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.kafka.positions import check_topics
from blizzard.log import Log
from blizzard.state.delta_log import WHOLE_LOG, Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipts
from blizzard.state.topic_checkpoint import (
    Partition,
    TopicCheckpoint,
    TopicPosition,
    next_offsets_of_txns,
)
from blizzard.state.topic_state import copied_state, newest_state
from blizzard.storage.base import ObjectStore
from spark_job.loop.topics.topic_ids import ids_of_commits
from spark_job.ports.source import Recovered
from spark_job.ports.table import FileTable

COMMITS_SEARCHED = 100
"""Newest commits in which the checkpoint is looked for first."""


def recover(
    table: FileTable[Any], state: ObjectStore, identity: SourceIdentity, brokers: Brokers, log: Log
) -> Recovered[TopicCheckpoint] | None:
    """None: the table has nothing of the source, which begins afresh. Raises TxnLost, or RecoveryError."""
    commit = _newest(table.commits(COMMITS_SEARCHED), identity)
    version = commit.txns[identity.app_id] if commit is not None else table.txn_version(identity.app_id)
    if commit is None and version is not None and (commit := _newest(table.commits(WHOLE_LOG), identity)) is not None:
        version = commit.txns[identity.app_id]
    if version is None:
        if table.holds_rows():
            raise TxnLost(
                f"the table holds rows of source {identity.source_id} but no Txn of {identity.app_id!r}. Expected both "
                "or neither. The likely cause is a table that was copied or rebuilt without its log, or another "
                "writer that used this source's name. `blizzard rebuild` makes the state anew from the rows. Or "
                "restore the table with its log, or give the source another name and remove its rows first."
            )
        return None
    checkpoint = None if commit is None else _checkpoint_of(commit, identity, state, log)
    copy = None
    with suppress(UnreadableState):
        copy = copied_state(identity, state)
    if checkpoint is not None:
        return Recovered(checkpoint, unpublished=copy is None or copy.sequence != version)
    if copy is not None and copy.sequence == version:
        return Recovered(copy)
    return Recovered(_from_txns(table, state, identity, version, copy, brokers, log), repaired=True, unpublished=True)


def _newest(commits: Iterable[Commit], identity: SourceIdentity) -> Commit | None:
    return next((commit for commit in commits if identity.app_id in commit.txns), None)


def _checkpoint_of(commit: Commit, identity: SourceIdentity, state: ObjectStore, log: Log) -> TopicCheckpoint | None:
    checkpoint, error = newest_state(commit, identity, state)
    if error is not None:
        sequence = commit.txns[identity.app_id]
        log("state_unreadable", source=identity.source_id, sequence=sequence, error=str(error))
    return checkpoint


def _from_txns(
    table: FileTable[Any],
    state: ObjectStore,
    identity: SourceIdentity,
    version: int,
    copy: TopicCheckpoint | None,
    brokers: Brokers,
    log: Log,
) -> TopicCheckpoint:
    """The Txns have offsets. Of which topics, the newest rows say, or receipts, or a copy of another commit. Raises
    RecoveryError if the brokers have other ones of these names."""
    offsets = dict(next_offsets_of_txns(identity, ((txn.app_id, txn.version) for txn in table.txns())))
    cluster = brokers.cluster()
    names = {topic for topic, _ in offsets}
    nothing = TopicCheckpoint(identity.pipeline, identity.source)
    before = nothing if copy is None else copy
    copied = {name: topic.topic_id for name, topic in before.topics.items()}
    ids = copied | ids_of_commits(table, Receipts(state, identity.state_prefix), version, names)
    _check_gone(names, ids.keys(), cluster, before, identity.source_id)
    now = {name: topic.topic_id for name, topic in cluster.topics.items()}
    known = {name: ids.get(name) or now[name] for name in sorted(names | now.keys())}
    topics = {name: _position(name, topic_id, cluster, offsets, before) for name, topic_id in known.items()}
    found = replace(
        nothing,
        sequence=version,
        cluster_id=before.cluster_id or cluster.cluster_id,
        topics=MappingProxyType(topics),
        taken_over=before.taken_over,
    )
    check_topics(found, cluster)
    log(
        "state_rebuilt_from_txns",
        source=identity.source_id,
        sequence=version,
        partitions=len(offsets),
        unproven=sorted(names - ids.keys()),
    )
    return found


def _check_gone(names: Set[str], known: Set[str], cluster: Cluster, before: TopicCheckpoint, source_id: str) -> None:
    """`names`: of the Txns; `known`: those whose ids are. Raises RecoveryError for a topic of which nothing tells what
    it was, and if nothing tells of which cluster the topics were."""
    gone = sorted(names - cluster.topics.keys())
    lost = [name for name in gone if name not in known]
    if not gone or (not lost and (before.cluster_id is not None or names & cluster.topics.keys() & known)):
        return
    why = (
        f"neither the checkpoint's copy nor rows or receipts say which topic {lost[0]} it was"
        if lost
        else "without the checkpoint's copy nothing else says of which cluster the table has messages"
    )
    raise RecoveryError(
        f"the state of source {source_id} is lost, and its Txns have offsets of topic {(lost or gone)[0]}, which the "
        f"brokers do not have, or which `kafka` of the source does not name; {why}. Nothing was read. Correct the "
        "configuration. If the topic is gone for good: restore the checkpoint's copy, or give the source another name "
        "and remove its rows first, since it then reads all of its topics again."
    )


def _position(
    name: str, topic_id: str, cluster: Cluster, offsets: Mapping[Partition, int], before: TopicCheckpoint
) -> TopicPosition:
    """`before`: of another commit; where partitions began is the same there. One without a Txn has not been read yet:
    it is where it began, which is before its first message if nobody knows it."""
    former, topic = before.topics.get(name), cluster.topics.get(name)
    began = former.first_offsets if former is not None and former.topic_id == topic_id else {}
    read = {number for each, number in offsets if each == name}
    numbers = read if topic is None else {*topic.partitions} | read
    nexts = {number: offsets.get((name, number), began.get(number, 0)) for number in numbers}
    firsts = {number: at for number, at in began.items() if number in nexts and at <= nexts[number]}
    return TopicPosition(topic_id, MappingProxyType(nexts), MappingProxyType(firsts))
