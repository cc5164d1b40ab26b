"""The state of a source of topics as the table has it: the checkpoint of its newest commit, or its copy."""

from contextlib import suppress

from blizzard.errors import BucketMissing, NotFound, PermanentError, UnreadableState
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import TopicCheckpoint, decode
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
