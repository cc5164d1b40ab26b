"""The newest commit of a source in its table, however many others have committed since."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail
from blizzard.state.txns import txns_of
from blizzard.storage.base import ObjectStore

TAIL_COMMITS = 100
"""Read before the table is asked for its Txn."""


@dataclass(frozen=True, slots=True)
class NewestCommit:
    """`sequence`: the version of the source's Txn; None: the table has none. `commit`: None also if the log no longer
    has it, or if its state is in the copy."""

    sequence: int | None = None
    commit: Commit | None = None


def newest_commit(store: ObjectStore, app_id: str, copy_sequence: Callable[[], int | None]) -> NewestCommit:
    """As `newest_commit_of`, of the newest commits of the table at the root of `store`."""
    return newest_commit_of(store, app_id, DeltaLogTail(store).commits(TAIL_COMMITS), copy_sequence)


def newest_commit_of(
    store: ObjectStore,
    app_id: str,
    newest: Iterable[Commit],
    copy_sequence: Callable[[], int | None],
    version: int | None = None,
) -> NewestCommit:
    """`newest`: commits of the table without a gap, the newest first. If none of them is of the source, the table's Txn
    tells which one is; then the whole log is read only if the copy is of another one. `copy_sequence` says of which;
    None: there is no copy. `version`: if `newest` is empty, the version whose Txns are meant; None: the newest. Raises
    UnreadableState if a part of the log cannot be read."""
    read: list[int] = []
    for commit in newest:
        if app_id in commit.txns:
            return NewestCommit(commit.txns[app_id], commit)
        read.append(commit.version)
    txns = txns_of(store, through=max(read, default=version), without={*read})
    sequence = next((txn.version for txn in txns if txn.app_id == app_id), None)
    if sequence is None or sequence == copy_sequence():
        return NewestCommit(sequence)
    older = (commit for commit in DeltaLogTail(store).commits(WHOLE_LOG) if not read or commit.version < min(read))
    return NewestCommit(sequence, next((commit for commit in older if commit.txns.get(app_id) == sequence), None))


def no_checkpoint(sequence: int) -> str:
    """What is wrong if only the Txn is left of the newest commit."""
    return (
        f"the checkpoint of commit {sequence:,} of the source, which the table has by its Txn, is neither in the log "
        "nor in the copy; the next run repairs it"
    )
