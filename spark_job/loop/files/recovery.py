"""Recovery: finds the checkpoint of the newest commit of a source in the table."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from blizzard.config import source_names
from blizzard.errors import LostRace, NotFound, RecoveryError, TableMoved, TxnLost, UnreadableState
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.log import Log
from blizzard.state.batch import BatchRules
from blizzard.state.checkpoint import FINISHED, BaseUnreadable, Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.delta_log import WHOLE_LOG, Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.watermark import FolderOf, SourceProgress
from blizzard.storage.base import ObjectStore
from spark_job.loop.files.takeover import Legacy, is_of_other_source, newest_legacy, take_over
from spark_job.ports.source import Recovered
from spark_job.ports.table import FileTable, FileVersion, Txn

SCAN_COMMITS = 100

Sizes = Callable[[Collection[str]], Mapping[str, int]]
"""Maps paths to sizes in bytes. Files that no longer exist are left out."""


@dataclass(frozen=True, slots=True)
class _Scanned:
    """What the newest commits contain: the Txn version, and the newest readable checkpoint."""

    txn_version: int | None
    states: tuple[Checkpoint, ...]
    rest: Checkpoint | None
    """Of the newest commit, if its bases are lost: all but what they held."""
    legacy: Legacy | None
    """The newest state of the first Blizzard."""
    other_sources: bool
    """Whether other sources have committed."""


def recover(
    table: FileTable[Any],
    store: ObjectStore,
    identity: SourceIdentity,
    *,
    rules: BatchRules,
    sizes: Sizes,
    log: Log,
    codec: CheckpointCodec,
    ledger: LedgerKeeper,
    scan_commits: int = SCAN_COMMITS,
    moved: bool = False,
) -> Recovered[Checkpoint]:
    """The checkpoint to continue from. `store` holds the checkpoint's copy. A newest checkpoint that cannot be read is
    repaired from an older one and the ledger; where that lacks receipts, from the table's rows, and files larger than
    a batch (`rules`) may have been read in part. `moved`: whether the table may have been moved. Raises
    RecoveryError if continuing could lose or double rows, LostRace if another job committed meanwhile.
    """
    scanned = _scan(table.commits(scan_commits), identity, codec, log)
    version = scanned.txn_version if scanned.txn_version is not None else table.txn_version(identity.app_id)
    copy, copy_rest = copy_of(codec)
    copy_sequence = max((known.sequence for known in (copy, copy_rest) if known), default=-1)
    if version is None:
        fresh = _fresh(table, identity, scanned, copy, rules.late_overlap_secs, log)
        _discard_newer_copy(table, store, identity, copy_sequence, None, log)
        return Recovered(fresh)
    _discard_newer_copy(table, store, identity, copy_sequence, version, log)
    if not scanned.states and copy_sequence != version:
        scanned, version = _search(table, identity, version, codec, log)
    states = [*scanned.states, *([copy] if copy else [])]
    known = next((state for state in states if state.sequence == version), None)
    begun = known or _begin_repair(table, identity, version, states, (scanned.rest, copy_rest))
    _refuse_moved(begun, identity, moved)
    if known is not None:
        return Recovered(known, unpublished=copy is None or copy.sequence != version)
    files = FilesRead(table, ledger, sizes, rules.interval_bytes)
    repaired = repair(begun, version, files, rules.folder_of, log)
    return Recovered(repaired, repaired=True, unpublished=True)


def _refuse_moved(state: Checkpoint, identity: SourceIdentity, moved: bool) -> None:
    if state.moved_to is not None and not moved:
        raise TableMoved(
            f"table {state.moved_to} has taken the place of this table, which gets no more rows of source "
            f"{identity.source_id}. Expected a configuration with the new table: change `table_uri` to "
            f"{state.moved_to} (on AWS, publish and deploy the configuration). Nothing is lost: files that arrive "
            "meanwhile are ingested into the new table. docs/cli.md says how to go back (blizzard rebuild)."
        )


def _watermarks_lost(identity: SourceIdentity) -> RecoveryError:
    return RecoveryError(
        f"the bases of the newest checkpoint of source {identity.source_id} are lost, and no older one is readable. "
        "They held the only record of which files the first Blizzard ingested, whose rows do not name their files: "
        f"continuing would double these rows. Restore the files below {identity.bases_folder} from a version or a "
        "backup of the bucket; docs/runbook.md says how (Lost bases of a table that was taken over)."
    )


def copy_of(codec: CheckpointCodec) -> tuple[Checkpoint | None, Checkpoint | None]:
    """The checkpoint's copy; or, if its bases are lost, all but what they held. None: there is none that can be
    read."""
    try:
        return codec.read_copy(), None
    except BaseUnreadable as error:
        return None, error.rest
    except (NotFound, UnreadableState):
        return None, None


def _scan(commits: Iterable[Commit], identity: SourceIdentity, codec: CheckpointCodec, log: Log) -> _Scanned:
    version: int | None = None
    states: list[Checkpoint] = []
    rest: Checkpoint | None = None
    legacy: Legacy | None = None
    other_sources = False
    for commit in commits:
        ours = commit.txns.get(identity.app_id)
        if ours is not None:
            try:
                states.extend(_states_of(commit, ours, codec))
            except UnreadableState as error:
                if version is None:
                    log("state_unreadable", source=identity.source_id, sequence=ours, error=str(error))
                    rest = error.rest if isinstance(error, BaseUnreadable) else None
            version = ours if version is None else version
            if states:
                break
        txns = (Txn(app_id, number, commit.committed_ts) for app_id, number in commit.txns.items())
        legacy = legacy or newest_legacy(txns, identity)
        other_sources = other_sources or any(is_of_other_source(app_id, identity) for app_id in commit.txns)
    return _Scanned(version, tuple(states), rest, legacy, other_sources)


def _search(
    table: FileTable[Any], identity: SourceIdentity, version: int, codec: CheckpointCodec, log: Log
) -> tuple[_Scanned, int]:
    """The same of all commits of the log, with the newest Txn version. Others may have made hundreds since."""
    log("log_searched", source=identity.source_id, sequence=version)
    found = _scan(table.commits(WHOLE_LOG), identity, codec, log)
    return found, version if found.txn_version is None else found.txn_version


def _states_of(commit: Commit, sequence: int, codec: CheckpointCodec) -> list[Checkpoint]:
    state = codec.decode(commit.user_metadata or "")
    return [state] if state.sequence == sequence else []


def _fresh(
    table: FileTable[Any],
    identity: SourceIdentity,
    scanned: _Scanned,
    copy: Checkpoint | None,
    late_overlap_secs: float,
    log: Log,
) -> Checkpoint:
    """The state to start with if the table has no Txn of this source: the first Blizzard's, or an empty one."""
    legacy, other_sources = scanned.legacy, scanned.other_sources
    if legacy is None:
        txns = table.txns()
        legacy = newest_legacy(txns, identity)
        other_sources = other_sources or any(is_of_other_source(txn.app_id, identity) for txn in txns)
    taken_over = take_over(
        table, legacy, copy, identity, other_sources=other_sources, late_overlap_secs=late_overlap_secs, log=log
    )
    if taken_over is not None:
        return taken_over
    if table.holds_rows():
        if table.txn_version(identity.app_id) is not None:
            raise LostRace(f"another job has just made the first commit of source {identity.source_id}")
        raise TxnLost(
            f"the table holds rows of source {identity.source_id} but no Txn of {identity.app_id!r}. Expected both or "
            "neither. The likely cause is a table that was copied or rebuilt without its log, or whose properties let "
            "Delta expire Txns for a time, or another writer that used this source's name. `blizzard rebuild` makes "
            "the Txn and the state anew from the rows. Or restore the table with its log, or give the source another "
            "name and remove its rows from the table first."
        )
    return Checkpoint(pipeline=identity.pipeline, source=identity.source)


def _discard_newer_copy(
    table: FileTable[Any],
    store: ObjectStore,
    identity: SourceIdentity,
    copy_sequence: int,
    version: int | None,
    log: Log,
) -> None:
    """Deletes a copy that names commits which the table does not have, since the table was restored from a backup or
    recreated. Also deletes the manifest, which has records of sweeps that started from that copy. The next sweep then
    lists everything again. The copy is deleted last, so that the next run repeats this after a crash in between. A run
    that is refused leaves it, since it helps to restore a lost Txn. `copy_sequence`: -1 if there is none."""
    if copy_sequence <= (-1 if version is None else version):
        return
    if table.txn_version(identity.app_id) != version:
        raise LostRace(f"another job of source {identity.source_id} has just committed")
    log("table_behind", source=identity.source_id, sequence=version, copy_sequence=copy_sequence)
    store.delete([info.key for info in store.list(f"{identity.state_prefix}/pending/")])
    store.delete([identity.copy_key])


def _begin_repair(
    table: FileTable[Any],
    identity: SourceIdentity,
    version: int,
    states: Iterable[Checkpoint],
    rests: Iterable[Checkpoint | None],
) -> Checkpoint:
    """What a repair begins with: the newest older checkpoint, or nothing; but if only the bases of the newest one are
    lost, the ledger that it names. Otherwise the ledger finds its files by itself."""
    older = max((s for s in states if s.sequence < version), key=lambda s: s.sequence, default=None)
    rest = next((r for r in rests if r is not None and r.sequence == version), None)
    begun = older or Checkpoint(pipeline=identity.pipeline, source=identity.source)
    if rest is None:
        return begun
    if older is None and rest.before_ledger_ts is not None and table.holds_rows_of_nobody():
        raise _watermarks_lost(identity)
    return replace(
        begun,
        receipt=rest.receipt,
        ledger=rest.ledger,
        moved_to=rest.moved_to,
        closed_through=rest.closed_through,
        before_ledger_ts=rest.before_ledger_ts,
    )


@dataclass(frozen=True, slots=True)
class FilesRead:
    """What tells of files how far they are ingested."""

    table: FileTable[Any]
    ledger: LedgerKeeper
    sizes: Sizes
    slice_threshold_bytes: int

    def changed_since(self, base: Checkpoint, version: int) -> tuple[int, Mapping[str, LedgerEntry]]:
        """How many files the commits after `base` up to `version` settled, and those that may be in progress before or
        after them."""

        def may_be_in_progress(entry: LedgerEntry) -> bool:
            return entry.is_in_progress or entry.is_from_table or entry.path in base.in_progress

        return self.ledger.since(replace(base, sequence=version), base.sequence, may_be_in_progress)

    def in_progress(self, base: Checkpoint, changed: Mapping[str, LedgerEntry]) -> dict[str, int]:
        """Those of the changed files that are in progress, with the number of records read. Receipts tell it exactly.
        Without all of them a large file counts as read up to its last row: refused records behind that, and rows that a
        user has deleted there, are read again."""
        counted = {path: e.rows + e.rejected for path, e in changed.items() if e.state is FileState.COUNTED}
        partly = {path for path, entry in changed.items() if entry.is_in_progress} - counted.keys()
        unclear = [path for path, entry in changed.items() if entry.is_from_table]
        large = {path for path, size in self.sizes(unclear).items() if size > self.slice_threshold_bytes}
        by_rows = partly | large | (base.in_progress.keys() & unclear)
        # Of a file that is only in receipts, the last rows may be those of a commit before `base`.
        last_rows = self.table.last_rows_after(-1 if partly else base.sequence) if by_rows else {}
        contents = {path: FileVersion(path, changed[path].etag) for path in by_rows}
        return counted | {path: last_rows.get(content, -1) + 1 for path, content in contents.items()}


def repair(base: Checkpoint, version: int, files: FilesRead, folder_of: FolderOf, log: Log) -> Checkpoint:
    """Brings an older checkpoint up to date: the ledger has the files of later commits, and tells how far those were
    read that are larger than a batch."""
    from_sequence = base.sequence if base.sequence >= 0 else None
    source_id = source_names.source_id(base.pipeline, base.source)
    count, changed = files.changed_since(base, version)
    log(
        "repair_began",
        source=source_id,
        from_sequence=from_sequence,
        to_sequence=version,
        files=sum(entry.is_from_table for entry in changed.values()),
    )
    in_progress = files.in_progress(base, changed)
    kept = {path: read for path, read in base.files.items() if path not in changed or read == FINISHED}
    current = replace(base, files=MappingProxyType(kept | in_progress))
    progress = SourceProgress.from_checkpoint(current, folder_of)
    progress.forget_settled_files()
    log(
        "state_repaired",
        source=source_id,
        from_sequence=from_sequence,
        to_sequence=version,
        files_added=count,
    )
    # Another job's commits may have named newer bases since, so these may be deleted at any time.
    return replace(progress.to_checkpoint(base, active=True), sequence=version, bases=())
