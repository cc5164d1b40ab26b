"""Takes over a table of the first Blizzard: continues from its state, or refuses a state that is not sufficient.

Penguin is the committer of the first Blizzard, see docs/how-it-works.md.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from blizzard.errors import RecoveryError
from blizzard.log import Log
from blizzard.state.checkpoint import Checkpoint, decode_app_id
from blizzard.state.identity import APP_ID_PREFIX, SourceIdentity
from spark_job.ports.table import FileTable, Txn

_LEGACY_PARQUET = re.compile(r"(^|/)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.parquet$")
"""How the first Blizzard named the table's files. Ours and Spark's begin with `part-`."""


@dataclass(frozen=True, slots=True)
class Legacy:
    """The state in a Txn of the first Blizzard, the Txn's version, and when it was committed (None: unknown)."""

    state: Checkpoint
    txn_version: int
    committed_ts: float | None

    @property
    def names_table_version(self) -> bool:
        """Whether the state names the version of the table that it was committed on."""
        return self.state.delta_version >= 0

    @property
    def latest_ts(self) -> float:
        """The latest time at which it can have been committed; infinity if that is unknown."""
        return math.inf if self.committed_ts is None else self.committed_ts


def newest_legacy(txns: Iterable[Txn], identity: SourceIdentity) -> Legacy | None:
    """The newest state of the first Blizzard or of Penguin. Raises UnreadableState.

    Each state has its own app id, which names the version of the table before its commit. The newest state is the one
    with the highest table version. Times do not decide, since two commits may have the same time, nor do Txn versions,
    which started over if the first Blizzard lost its state. Only states without a table version, as in the app ids that
    Penguin's documentation describes, are ordered by time.
    """
    found = [legacy for txn in txns if (legacy := _legacy(txn, identity)) is not None]
    ordered = max(
        (legacy for legacy in found if legacy.names_table_version),
        key=lambda legacy: (legacy.state.delta_version, legacy.committed_ts or 0.0, legacy.txn_version),
        default=None,
    )
    timed = max(
        (legacy for legacy in found if not legacy.names_table_version),
        key=lambda legacy: (legacy.latest_ts, legacy.txn_version),
        default=None,
    )
    if ordered is None or timed is None:
        return ordered or timed
    # If the order is unknown, `timed` is safe: it names no files, so `take_over` requires a state file that does.
    return ordered if (ordered.committed_ts or 0.0) > timed.latest_ts else timed


def _legacy(txn: Txn, identity: SourceIdentity) -> Legacy | None:
    state = decode_app_id(txn.app_id, pipeline=identity.pipeline, source=identity.source)
    return None if state is None else Legacy(state, txn.version, txn.updated_ts)


def is_of_other_source(app_id: str, identity: SourceIdentity) -> bool:
    """Whether the Txn belongs to another source that this program ingests. App ids of the first Blizzard have only one
    colon, since the rest is base64."""
    return app_id.startswith(APP_ID_PREFIX) and app_id.count(":") > 1 and app_id != identity.app_id


def take_over(
    table: FileTable[Any],
    legacy: Legacy | None,
    copy: Checkpoint | None,
    identity: SourceIdentity,
    *,
    other_sources: bool,
    late_overlap_secs: float,
    log: Log,
) -> Checkpoint | None:
    """The state to continue from; None if the table has nothing of this source. `other_sources`: whether other sources
    have committed to the table. Raises RecoveryError if no state says which files are in the table.

    The state in the log is used if it names files, otherwise the state file that the first Blizzard kept next to the
    table. The old rows do not name their files, so no query can tell which files below the watermarks are ingested.
    Therefore every file that is not newer than the state counts as ingested.
    """
    own_file = copy if copy is not None and copy.sequence < 0 else None
    if legacy is not None and legacy.state.has_files:
        # The first Blizzard had one source. If another source of this table has taken it over, this one is new.
        return None if other_sources else _dated(legacy.state, legacy.committed_ts, identity, late_overlap_secs, log)
    if own_file is not None and own_file.watermark is None and not own_file.has_files:
        return None
    if legacy is None:
        if own_file is not None:
            raise _without_txn(identity)
        return None
    if own_file is None or not own_file.has_files:
        raise _unknown(own_file, identity)
    orphans = [name for name in table.orphan_files() if _LEGACY_PARQUET.search(name)]
    if orphans:
        raise RecoveryError(
            f"{len(orphans)} Parquet files in the table's folder are in no commit, the first is {orphans[0]!r:.300}. "
            "Expected none: the first Blizzard wrote them, and its state counts their rows as ingested. Run Penguin "
            "until it has committed them. If their rows are not needed, move the files out of the folder instead."
        )
    return _dated(own_file, None, identity, late_overlap_secs, log)


def _dated(
    state: Checkpoint, committed_ts: float | None, identity: SourceIdentity, late_overlap_secs: float, log: Log
) -> Checkpoint:
    as_of_ts = state.last_update_ts or committed_ts
    if not as_of_ts:
        raise RecoveryError(
            f"the first Blizzard's state of source {identity.source_id} has no time, and the log has none for its "
            "commit. Expected a time, since only files newer than the state are ingested. Ingest into a new table."
        )
    log("state_taken_over", source=identity.source_id, watermark=state.watermark, tracked_files=len(state.files))
    # Its clock counted whole seconds.
    late_swept_ts = math.floor(as_of_ts) + 1 + late_overlap_secs
    return replace(state, late_swept_ts=late_swept_ts, before_ledger_ts=late_swept_ts)


def _without_txn(identity: SourceIdentity) -> RecoveryError:
    return RecoveryError(
        f"{identity.copy_key} is a state file of the first Blizzard, but the table has no Txn of the first Blizzard or "
        "of Penguin. Expected both or neither. The likely cause is that the table was dropped, or that Penguin has not "
        "committed to it yet. Run Penguin until it has committed all files. To start over with an empty table, remove "
        "that file instead."
    )


def _unknown(own_file: Checkpoint | None, identity: SourceIdentity) -> RecoveryError:
    found = "none that can be read" if own_file is None else f"one for all, {own_file.watermark!r:.200}"
    return RecoveryError(
        "the first Blizzard wrote this table, and its newest Txn does not say which files of source "
        f"{identity.source_id} are ingested. Expected a watermark for each partition in {identity.copy_key}, found "
        f"{found}. Starting without them would double its rows. Give the pipeline and the source the names that they "
        "had in the first Blizzard. If it has ingested nothing of this source, "
        'put {"watermark": null} into that file.'
    )
