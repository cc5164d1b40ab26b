"""The state of a source of topics as the table has it: the checkpoint of its newest commit, or its copy."""

from contextlib import suppress
from dataclasses import dataclass

from blizzard.errors import BucketMissing, NotFound, PermanentError, UnreadableState
from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import TopicCheckpoint, decode
from blizzard.state.txns import txns_of
from blizzard.storage.base import ObjectStore


def newest_state(
    commit: Commit, identity: SourceIdentity, store: ObjectStore
) -> tuple[TopicCheckpoint | None, UnreadableState | None]:
    """`commit`: the newest one of the source. The checkpoint that it has; or if that cannot be read, and why is the
    second value, its copy, if that is of the same commit. Raises PermanentError for the state of a source of files."""
    sequence = commit.txns[identity.app_id]
    try:
        return _checkpoint_of(commit, sequence, identity), None
    except UnreadableState as error:
        copy = None
        with suppress(UnreadableState):
            copy = copied_state(identity, store)
        return (copy if copy is not None and copy.sequence == sequence else None), error


def copied_state(identity: SourceIdentity, store: ObjectStore) -> TopicCheckpoint | None:
    """Of whichever commit; None: there is none. Raises UnreadableState, and PermanentError as `newest_state` does."""
    try:
        return decode(store.get(identity.copy_key), pipeline=identity.pipeline, source=identity.source)
    except (NotFound, BucketMissing):
        return None


def readable_copy(identity: SourceIdentity, store: ObjectStore) -> TopicCheckpoint | None:
    """As `copied_state`, for readers to whom one that cannot be read is as none."""
    with suppress(UnreadableState, PermanentError):
        return copied_state(identity, store)
    return None


def _checkpoint_of(commit: Commit, sequence: int, identity: SourceIdentity) -> TopicCheckpoint:
    found = decode(commit.user_metadata or "", pipeline=identity.pipeline, source=identity.source)
    if found.sequence != sequence:
        raise UnreadableState(f"the checkpoint is of commit {found.sequence} of the source; expected {sequence}")
    return found


@dataclass(frozen=True, slots=True)
class TopicState:
    """`version`: the table's; None: there is no table. `checkpoint`: None: nothing of the source is committed yet.
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
    return TopicState(version, found, None if error is None else str(error))


def _without_commit(store: ObjectStore, identity: SourceIdentity, version: int) -> TopicState:
    """The log's JSON files have none: either there was none, or its file was cleaned up."""
    sequence = next((txn.version for txn in txns_of(store) if txn.app_id == identity.app_id), None)
    if sequence is None:
        return TopicState(version)
    copy = readable_copy(identity, store)
    if copy is None or copy.sequence != sequence:
        raise UnreadableState(
            f"the log no longer has the commit {sequence} of {identity.source_id}, and the checkpoint's copy is of "
            "another one; the next run reads the positions from the table's Txns"
        )
    return TopicState(version, copy)
