"""Recovery: from what the table holds to the state of its newest commit of this source."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from blizzard.errors import LostRace, RecoveryError, UnreadableState
from blizzard.log import Log
from blizzard.state.checkpoint import FINISHED, Checkpoint, decode
from blizzard.state.delta_log import Commit
from blizzard.state.identity import Identity, read_copy
from blizzard.state.watermark import FolderOf, SourceProgress, prefix_of, split_path
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls
from spark_job.loop.takeover import Legacy, is_siblings, newest_legacy, take_over
from spark_job.ports.reader import Table, Txn

SCAN_COMMITS = 100
_HEADS_AT_ONCE = 32
_WORTH_LISTING = 30
"""So many objects may be listed for each file of a folder: a page of 1,000 takes as long as one HEAD, and those go
beside each other."""
_FEW_FILES = 10
"""Of one folder: asked for one by one whatever else it holds."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The state to go on from. `repaired`: neither commit nor copy has it; `unpublished`: the copy is older or gone."""

    checkpoint: Checkpoint
    repaired: bool = False
    unpublished: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """What the newest commits say: the Txn version, and every readable state, newest first."""

    txn_version: int | None
    states: tuple[Checkpoint, ...]
    legacy: Legacy | None
    """The newest of the first Blizzard's."""
    siblings: bool
    """Whether other sources have committed."""


def recover(
    table: Table,
    store: ObjectStore,
    identity: Identity,
    *,
    folder_of: FolderOf,
    slice_threshold_bytes: int,
    sizes: "SizeOf",
    log: Log,
    late_overlap_secs: float = 86_400.0,
    scan_commits: int = SCAN_COMMITS,
) -> Recovered:
    """Raises RecoveryError when going on could lose or double rows, LostRace when the table changed meanwhile."""
    found = _scan(table.commits(scan_commits), identity)
    version = found.txn_version if found.txn_version is not None else table.txn_version(identity.app_id)
    copy = read_copy(store, identity)
    if version is None:
        fresh = _fresh(table, identity, found, copy, late_overlap_secs, log)
        # Not before: a run that is refused takes nothing away, and the copy helps to set a lost Txn again.
        if copy is not None and copy.sequence >= 0:
            _forget_the_future(table, store, identity, copy, None, log)
        return Recovered(fresh)
    if copy is not None and copy.sequence > version:
        _forget_the_future(table, store, identity, copy, version, log)
    states = [*found.states, *([copy] if copy else [])]
    for state in states:
        if state.sequence == version:
            return Recovered(state, unpublished=copy is None or copy.sequence != version)
    older = max((s for s in states if s.sequence < version), key=lambda s: s.sequence, default=None)
    repaired = _repair(table, identity, older, version, folder_of, slice_threshold_bytes, sizes, log)
    return Recovered(repaired, repaired=True, unpublished=True)


def _forget_the_future(
    table: Table, store: ObjectStore, identity: Identity, copy: Checkpoint, version: int | None, log: Log
) -> None:
    """The copy speaks of commits that the table does not have: that was restored from a backup, or made again. Sweeps
    that began from the copy are in the manifest and prove nothing of this table; without both the next one lists anew.
    The copy goes last, so that after a death on the way the next run does it again."""
    if table.txn_version(identity.app_id) != version:
        raise LostRace(f"another job of source {identity.source_id} committed just now")
    log("table_behind", source=identity.source_id, sequence=version, copy_sequence=copy.sequence)
    store.delete([info.key for info in store.list(f"{identity.state_prefix}/pending/")])
    store.delete([identity.copy_key])


class SizeOf:
    """Sizes in bytes of a source's files, without those that are gone. Folders are listed as far as that is less work
    than asking for each file."""

    def __init__(self, source: ObjectStore) -> None:
        self._source = source

    def __call__(self, paths: Iterable[str]) -> Mapping[str, int]:
        folders: dict[str, set[str]] = {}
        for path in paths:
            folders.setdefault(split_path(path)[0], set()).add(path)
        sizes: dict[str, int] = {}
        with ParallelCalls(_HEADS_AT_ONCE, name="sizes") as heads:
            for folder, wanted in folders.items():
                for path in self._not_listed(folder, wanted, sizes):
                    heads.submit(partial(self._ask, path, sizes))
        return sizes

    def _not_listed(self, folder: str, wanted: Collection[str], sizes: dict[str, int]) -> list[str]:
        """List the folder from its first file to its last; those that are still to be asked for."""
        first, last = min(wanted), max(wanted)
        if len(wanted) <= _FEW_FILES:
            return [*wanted]
        listing = self._source.list(prefix_of(folder), start_after=first, recursive=False)
        for listed, info in enumerate(listing):
            if info.key > last:
                break
            if listed >= _WORTH_LISTING * len(wanted):
                return [first, *(path for path in wanted if path >= info.key)]
            if info.key in wanted:
                sizes[info.key] = info.size
        return [first]

    def _ask(self, path: str, sizes: dict[str, int]) -> None:
        info = self._source.head(path)
        if info is not None:
            sizes[path] = info.size


def _scan(commits: Iterable[Commit], identity: Identity) -> _Found:
    version: int | None = None
    states: list[Checkpoint] = []
    legacy: Legacy | None = None
    siblings = False
    for commit in commits:
        mine = commit.txns.get(identity.app_id)
        if mine is not None:
            version = mine if version is None else version
            states.extend(_states_of(commit, mine, identity))
            if states and states[0].sequence == version:
                break
        of_commit = (Txn(app_id, number, commit.committed_ts) for app_id, number in commit.txns.items())
        legacy = legacy or newest_legacy(of_commit, identity)
        siblings = siblings or any(is_siblings(app_id, identity) for app_id in commit.txns)
    return _Found(version, tuple(states), legacy, siblings)


def _states_of(commit: Commit, sequence: int, identity: Identity) -> list[Checkpoint]:
    try:
        state = decode(commit.user_metadata or "", pipeline=identity.pipeline, source=identity.source)
    except UnreadableState:
        return []
    return [state] if state.sequence == sequence else []


def _fresh(
    table: Table, identity: Identity, found: _Found, copy: Checkpoint | None, late_overlap_secs: float, log: Log
) -> Checkpoint:
    """The state to begin with: the first Blizzard's, or none."""
    legacy, siblings = found.legacy, found.siblings
    if legacy is None:
        txns = table.txns()
        legacy = newest_legacy(txns, identity)
        siblings = siblings or any(is_siblings(txn.app_id, identity) for txn in txns)
    taken_over = take_over(
        table, legacy, copy, identity, siblings=siblings, late_overlap_secs=late_overlap_secs, log=log
    )
    if taken_over is not None:
        return taken_over
    if table.holds_rows():
        if table.txn_version(identity.app_id) is not None:
            raise LostRace(f"the first commit of source {identity.source_id} came from another job just now")
        raise RecoveryError(
            f"the table holds rows of source {identity.source_id} but no Txn of {identity.app_id!r}. Expected both or "
            "neither. The likely cause is a table that was copied or rebuilt without its log, or that let Delta forget "
            "Txns for a time, or a foreign writer that used this source's name. Restore the table with its log, or set "
            "the Txn again as docs/runbook.md says, or give the source another name and remove its rows from the table "
            "first."
        )
    return Checkpoint(pipeline=identity.pipeline, source=identity.source)


def _repair(
    table: Table,
    identity: Identity,
    older: Checkpoint | None,
    version: int,
    folder_of: FolderOf,
    slice_threshold_bytes: int,
    sizes: SizeOf,
    log: Log,
) -> Checkpoint:
    """Add to an older state what the commits after it hold; without any, take all from the table's rows."""
    base = older or Checkpoint(pipeline=identity.pipeline, source=identity.source)
    committed = table.files_after(base.sequence)
    log(
        "repair_began",
        source=identity.source_id,
        from_sequence=base.sequence if older else None,
        to_sequence=version,
        files=len(committed),
    )
    # No commit says how much of a file it took: one that is larger than a batch may have been taken in part.
    in_progress = base.in_progress
    large = {path for path, size in sizes(committed.keys() - in_progress).items() if size > slice_threshold_bytes}
    files = dict(base.files)
    for path, last_row in committed.items():
        files[path] = last_row + 1 if path in large or path in in_progress else FINISHED
    progress = SourceProgress.from_checkpoint(replace(base, files=MappingProxyType(files)), folder_of)
    progress.forget_settled_files()
    log(
        "state_repaired",
        source=identity.source_id,
        from_sequence=base.sequence if older else None,
        to_sequence=version,
        files_added=len(committed),
    )
    return replace(progress.to_checkpoint(base, active=True), sequence=version)
