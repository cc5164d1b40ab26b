"""The state of a source as one version of the table has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from blizzard.audit.source import AuditedSource
from blizzard.errors import BucketMissing, NotFound, UnreadableState
from blizzard.state.checkpoint import BaseUnreadable, Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail

TAIL_COMMITS = 100
"""Read before the whole log is."""
RESTORE = "RESTORE"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`version` None: there is no table. `restored`: versions among the newest commits that restored an older one.
    `problem`: what of the state cannot be read."""

    version: int | None
    checkpoint: Checkpoint
    restored: Sequence[int] = ()
    problem: str | None = None


def read_snapshot(source: AuditedSource, tail_commits: int = TAIL_COMMITS) -> Snapshot:
    """Of the table's newest version. `tail_commits`: how many are read at least, and searched for restores. Raises
    UnreadableState if its checkpoint cannot be had from anywhere."""
    log, identity = DeltaLogTail(source.state), source.identity
    nothing = Checkpoint(pipeline=identity.pipeline, source=identity.source)
    try:
        tail = [*log.commits(tail_commits)]
        version = tail[0].version if tail else log.newest_version()
    except BucketMissing:
        tail, version = [], None
    if version is None:
        return Snapshot(None, nothing)
    restored = [commit.version for commit in tail if commit.operation == RESTORE]
    older = (commit for commit in log.commits(WHOLE_LOG) if commit.version < tail[-1].version) if tail else ()
    own = next((commit for commit in chain(tail, older) if identity.app_id in commit.txns), None)
    checkpoint, problem = _checkpoint(source, own)
    return Snapshot(version, checkpoint or nothing, restored, problem)


def _checkpoint(source: AuditedSource, commit: Commit | None) -> tuple[Checkpoint | None, str | None]:
    codec = CheckpointCodec(source.state, source.identity)
    if commit is None:
        return copy_of(source), None
    try:
        return codec.decode(commit.user_metadata or ""), None
    except BaseUnreadable as error:
        return error.rest, f"{error}; the next run repairs it"
    except UnreadableState as error:
        copy = copy_of(source)
        if copy is None or copy.sequence != commit.txns[source.identity.app_id]:
            raise
        return copy, f"{error}; the next run repairs it"


def copy_of(source: AuditedSource) -> Checkpoint | None:
    """The copy of the newest checkpoint; None if there is none that can be read."""
    try:
        return CheckpointCodec(source.state, source.identity).read_copy()
    except BaseUnreadable as error:
        return error.rest
    except (NotFound, BucketMissing, UnreadableState):
        return None
