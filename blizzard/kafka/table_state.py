"""How far a source of topics is, as the table says: by its newest commit, however old that is, or the copy of it."""

from dataclasses import dataclass

from blizzard.errors import BucketMissing, UnreadableState
from blizzard.state.delta_log import WHOLE_LOG, DeltaLogTail
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.state.topic_state import newest_state, readable_copy
from blizzard.state.txns import txns_of
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class TopicState:
    """`version`: of the table, which has the rows of `checkpoint` and none of later commits of the source; None: there
    is no table. `checkpoint`: None: nothing of the source is committed yet.
    `problem`: why the checkpoint is that of the copy; None: it is that of the newest commit, or there is none."""

    version: int | None = None
    checkpoint: TopicCheckpoint | None = None
    problem: str | None = None


def topic_state(store: ObjectStore, identity: SourceIdentity) -> TopicState:
    """`store`: the table's. Raises UnreadableState if neither the newest commit of the source nor the copy has it;
    PermanentError if it is that of a source of files."""
    log = DeltaLogTail(store)
    try:
        version = log.newest_version()
    except BucketMissing:
        version = None
    if version is None:
        return TopicState()
    own = next((commit for commit in log.commits(WHOLE_LOG) if identity.app_id in commit.txns), None)
    if own is None:
        return _without_commit(store, identity, version)
    found, error = newest_state(own, identity, store)
    if error is not None and found is None:
        raise error
    return TopicState(max(version, own.version), found, None if error is None else str(error))


def _without_commit(store: ObjectStore, identity: SourceIdentity, version: int) -> TopicState:
    """The log's JSON files have none: either there was none, or its file was cleaned up."""
    sequence = next((txn.version for txn in txns_of(store, through=version) if txn.app_id == identity.app_id), None)
    if sequence is None:
        return TopicState(version)
    copy = readable_copy(identity, store)
    if copy is None or copy.sequence != sequence:
        raise UnreadableState(
            f"the log no longer has the commit {sequence} of {identity.source_id}, and the checkpoint's copy is of "
            "another one; the next run reads the positions from the table's Txns"
        )
    return TopicState(version, copy)
