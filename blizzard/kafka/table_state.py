"""How far a source of topics is, as the table says: by its newest commit, however old that is, or the copy of it."""

from dataclasses import dataclass
from functools import cache, partial
from itertools import chain

from blizzard.errors import BucketMissing, UnreadableState
from blizzard.state.delta_log import DeltaLogTail
from blizzard.state.identity import SourceIdentity
from blizzard.state.newest_commit import TAIL_COMMITS, newest_commit_of
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.state.topic_state import newest_state, readable_copy
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
    """`store`: the table's. How much of its log is read does not depend on the age of the table; only if the newest
    commit of the source is old, and the copy is not of it, it is searched. Raises UnreadableState if neither that
    commit nor the copy has the state; PermanentError if it is that of a source of files."""
    log = DeltaLogTail(store)
    try:
        version = log.newest_version()
    except BucketMissing:
        version = None
    if version is None:
        return TopicState()
    commits, copied = log.commits(TAIL_COMMITS), cache(partial(readable_copy, identity, store))
    first = next(commits, None)
    version = version if first is None else first.version
    newest = newest_commit_of(
        store,
        identity.app_id,
        commits if first is None else chain([first], commits),
        lambda: None if (copy := copied()) is None else copy.sequence,
        version,
    )
    if newest.commit is not None:
        found, error = newest_state(newest.commit, identity, store)
        if error is not None and found is None:
            raise error
        return TopicState(version, found, None if error is None else str(error))
    if newest.sequence is None:
        return TopicState(version)
    return TopicState(version, _copy_of(newest.sequence, copied(), identity))


def _copy_of(sequence: int, copy: TopicCheckpoint | None, identity: SourceIdentity) -> TopicCheckpoint:
    if copy is None or copy.sequence != sequence:
        raise UnreadableState(
            f"the log no longer has the commit {sequence} of {identity.source_id}, and the checkpoint's copy is of "
            "another one; the next run reads the positions from the table's Txns"
        )
    return copy
