"""The position of a source of topics, from the table's log: the newest readable checkpoint, or the Txns of its
partitions."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from blizzard.errors import RecoveryError, TxnLost, UnreadableState
from blizzard.kafka.brokers import Brokers
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
    gone = sorted(names - cluster.topics.keys())
    if gone:
        raise RecoveryError(
            f"the state of source {identity.source_id} is lost, and its Txns have offsets of topic {gone[0]}, which "
            "the brokers do not have, or which `kafka` of the source does not name. Correct the configuration. If "
            "the topic is gone for good: restore the checkpoint's copy, or give the source another name and remove its "
            "rows first, since it then reads all of its topics again."
        )
    copied = {} if copy is None else {name: topic.topic_id for name, topic in copy.topics.items()}
    ids = copied | ids_of_commits(table, Receipts(state, identity.state_prefix), version, names)
    topics = {
        name: TopicPosition(ids.get(name, topic.topic_id), _positions(name, topic.partitions, offsets))
        for name, topic in cluster.topics.items()
    }
    fresh = TopicCheckpoint(identity.pipeline, identity.source)
    found = replace(fresh, sequence=version, cluster_id=cluster.cluster_id, topics=MappingProxyType(topics))
    check_topics(found, cluster)
    log(
        "state_rebuilt_from_txns",
        source=identity.source_id,
        sequence=version,
        partitions=len(offsets),
        unproven=sorted(names - ids.keys()),
    )
    return found


def _positions(topic: str, partitions: Iterable[int], offsets: Mapping[Partition, int]) -> Mapping[int, int]:
    """A partition without a Txn has not been read yet: it began with its first message, and still does."""
    read = {number for name, number in offsets if name == topic}
    return MappingProxyType({number: offsets.get((topic, number), 0) for number in {*partitions} | read})
