"""Which listed files are settled, by the ledger, so that a late sweep does not append them."""

from collections.abc import Mapping, Sequence

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.ledger import PARALLEL_READS, Ledger, RunUnreadable, open_ledger
from blizzard.log import Log
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectInfo, ObjectStore


class SettledFiles:
    """The ledger as of a checkpoint, opened when it is first needed. A part of it that cannot be read settles nothing:
    the job looks the files up again, and repairs the ledger."""

    def __init__(
        self,
        store: ObjectStore,
        identity: SourceIdentity,
        checkpoint: Checkpoint,
        log: Log,
        *,
        parallel: int = PARALLEL_READS,
    ) -> None:
        self._store = store
        self._identity = identity
        self._checkpoint = checkpoint
        self._log = log
        self._parallel = parallel
        self._ledger: Ledger | None = None

    def remove_from(self, listed: Sequence[ObjectInfo]) -> Sequence[ObjectInfo]:
        """The listed files whose content is not settled."""
        if self._checkpoint.sequence < 0:
            return listed
        if self._ledger is None:
            self._ledger = open_ledger(
                self._store, self._identity, self._checkpoint, with_filters=False, parallel=self._parallel
            )
        settled = self._find(self._ledger, [info.key for info in listed])
        return [info for info in listed if not _is_settled(info, settled.get(info.key))]

    def _find(self, ledger: Ledger, paths: Sequence[str]) -> Mapping[str, LedgerEntry]:
        while True:
            try:
                return ledger.find(paths)
            except RunUnreadable as error:
                source = self._identity.source_id
                self._log("ledger_run_unreadable", source=source, run=error.ref.name, error=str(error))
                self._ledger = ledger = ledger.without(error.ref)


def _is_settled(info: ObjectInfo, found: LedgerEntry | None) -> bool:
    if found is None or found.etag != info.etag:
        return False
    copied_onto_itself = info.modified_ts * 1000 >= found.time_ms + 1
    return not (found.state is FileState.FAILED and copied_onto_itself)
