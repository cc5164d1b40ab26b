"""Taking over a table of the first Blizzard: what its state says, and when that is not enough."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from blizzard.errors import RecoveryError
from blizzard.log import Log
from blizzard.state.checkpoint import LEGACY_APP_ID_PREFIX, Checkpoint, decode_app_id
from blizzard.state.identity import SourceIdentity
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
        """Whether it names the version of the table that it was committed on."""
        return self.state.delta_version >= 0

    @property
    def latest_ts(self) -> float:
        """The latest time at which it can have been committed; infinity if that is unknown."""
        return math.inf if self.committed_ts is None else self.committed_ts


def newest_legacy(txns: Iterable[Txn], identity: SourceIdentity) -> Legacy | None:
    """The newest state of the first Blizzard or of Penguin. Raises UnreadableState.

    Each state has its own app id. It names the version of the table before its commit, and that version gives the
    order. Times come from clocks, and two commits may have the same one; the Txn's version started over if the first
    Blizzard lost its state. Penguin's app ids as documented name no version, so only times order those.
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
    # If the order is unknown, the one without files: take_over() then requires a state file that names them.
    return ordered if (ordered.committed_ts or 0.0) > timed.latest_ts else timed


def _legacy(txn: Txn, identity: SourceIdentity) -> Legacy | None:
    state = decode_app_id(txn.app_id, pipeline=identity.pipeline, source=identity.source)
    return None if state is None else Legacy(state, txn.version, txn.updated_ts)


def is_of_other_source(app_id: str, identity: SourceIdentity) -> bool:
    """Whether the Txn is of another source that this program ingests. (The first Blizzard's is base64, which has no
    colon.)"""
    return app_id.startswith(LEGACY_APP_ID_PREFIX) and app_id.count(":") > 1 and app_id != identity.app_id


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
    """The state to continue from; None when the table has nothing of this source. `other_sources`: whether others have
    committed. Raises RecoveryError when nothing says which files are in the table.

    The state is that of the log if it names files, else the one in the file that the first Blizzard kept next to the
    table. The old rows do not name their files, so no query can tell which files below the watermarks are ingested:
    every file that is not newer than the state counts as ingested.
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
            "Expected none: the first Blizzard wrote them and counts what is in them as ingested. Let Penguin commit "
            "them; or move them out of the folder if their rows are not needed."
        )
    return _dated(own_file, None, identity, late_overlap_secs, log)


def _dated(
    state: Checkpoint, committed_ts: float | None, identity: SourceIdentity, late_overlap_secs: float, log: Log
) -> Checkpoint:
    as_of_ts = state.last_update_ts or committed_ts
    if not as_of_ts:
        raise RecoveryError(
            f"the first Blizzard's state of source {identity.source_id} has no time, and the log has none for its "
            "commit. Expected one, to tell files that came later from those it had seen. Ingest into a new table."
        )
    log("state_taken_over", source=identity.source_id, watermark=state.watermark, tracked_files=len(state.files))
    # Its clock counted whole seconds.
    return replace(state, late_swept_ts=math.floor(as_of_ts) + 1 + late_overlap_secs)


def _without_txn(identity: SourceIdentity) -> RecoveryError:
    return RecoveryError(
        f"{identity.copy_key} is a state of the first Blizzard, but the table has no Txn of it or of Penguin. Expected "
        "both or neither. The likely cause is a table that was dropped, or to which Penguin has not yet committed. Let "
        "Penguin commit what is there; or, to start over with an empty table, remove that file."
    )


def _unknown(own_file: Checkpoint | None, identity: SourceIdentity) -> RecoveryError:
    found = "none that can be read" if own_file is None else f"one for all, {own_file.watermark!r:.200}"
    return RecoveryError(
        f"the table was written by the first Blizzard, and nothing says which files of source {identity.source_id} it "
        "has ingested: its newest Txn in the log does not. Expected a watermark for each partition in "
        f"{identity.copy_key}, found {found}. Starting without one would double its rows. Give pipeline and source the "
        'names that they had; or, if it has ingested nothing of this source, put {"watermark": null} into that file.'
    )
