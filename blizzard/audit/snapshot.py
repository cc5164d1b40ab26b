"""The state of a source as one version of the table has it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from blizzard.audit.source import AuditedSource
from blizzard.errors import BucketMissing, NotFound, UnreadableState
from blizzard.state.checkpoint import BaseUnreadable, Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.delta_log import Commit, DeltaLogTail
from blizzard.state.newest_commit import TAIL_COMMITS, newest_commit_of, no_checkpoint
from blizzard.table.active_files import active_files
from blizzard.table.lost_txn import TXN_LOST, holds_rows

RESTORE = "RESTORE"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`version` None: there is no table. `restored`: versions among the newest commits that restored an older one.
    `problem`: what of the state cannot be read. `txn_lost`: the table has rows of the source and no Txn, so nobody
    knows whether the checkpoint, that of the copy, fits them."""

    version: int | None
    checkpoint: Checkpoint
    restored: Sequence[int] = ()
    problem: str | None = None
    txn_lost: bool = False

    @property
    def stops_runs(self) -> str | None:
        """Why no run reads what is pending; None: the next one does."""
        return TXN_LOST if self.txn_lost else self.checkpoint.about_move


def read_snapshot(source: AuditedSource, tail_commits: int = TAIL_COMMITS) -> Snapshot:
    """Of the table's newest version. `tail_commits`: how many are read at least, and searched for restores. Raises
    UnreadableState if its checkpoint cannot be had from anywhere."""
    log, identity = DeltaLogTail(source.state), source.identity
    nothing = Checkpoint(pipeline=identity.pipeline, source=identity.source)
    try:
        commits = log.commits(max(tail_commits, TAIL_COMMITS))
        tail = [*islice(commits, tail_commits)]
        version = tail[0].version if tail else log.newest_version()
    except BucketMissing:
        return Snapshot(None, nothing)
    if version is None:
        return Snapshot(None, nothing)
    restored = [commit.version for commit in tail if commit.operation == RESTORE]
    newest = newest_commit_of(source.state, identity.app_id, chain(tail, commits), lambda: _sequence(copy_of(source)))
    if newest.commit is not None:
        checkpoint, problem = _checkpoint(source, newest.commit)
        return Snapshot(version, checkpoint, restored, problem)
    copy = copy_of(source)
    if newest.sequence is None:
        txn_lost = holds_rows(source.state, active_files(source.table_uri, version, source.s3), identity.source_id)
        known = copy if copy is not None and (txn_lost or copy.sequence < 0) else nothing
        return Snapshot(version, known, restored, txn_lost=txn_lost)
    if copy is not None and copy.sequence == newest.sequence:
        return Snapshot(version, copy, restored)
    begun = copy if copy is not None and copy.sequence < newest.sequence else nothing
    return Snapshot(version, replace(begun, sequence=newest.sequence), restored, no_checkpoint(newest.sequence))


def _sequence(copy: Checkpoint | None) -> int | None:
    return None if copy is None else copy.sequence


def _checkpoint(source: AuditedSource, commit: Commit) -> tuple[Checkpoint, str | None]:
    try:
        return CheckpointCodec(source.state, source.identity).decode(commit.user_metadata or ""), None
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
