"""Which files are settled, by the ledger as of a checkpoint: for sweeps, the dispatcher and the status."""

from collections.abc import Mapping, Sequence

from blizzard.errors import BucketMissing
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.ledger import PARALLEL_READS, Ledger, RunUnreadable, open_ledger
from blizzard.ledger.verdict import Verdict, judge
from blizzard.log import Log
from blizzard.manifest.segments import Entry
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectInfo, ObjectStore


class SettledFiles:
    """The ledger is opened when it is first needed. A part of it that cannot be read settles nothing: the job looks the
    files up again, and repairs the ledger."""

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

    def unsettled(self, listed: Sequence[ObjectInfo]) -> Sequence[ObjectInfo]:
        """The listed files whose content is not settled."""
        settled = self.find([info.key for info in listed])
        return [info for info in listed if not _is_settled(info, settled.get(info.key))]

    def unsettled_paths(self, listed: Sequence[ObjectInfo]) -> Sequence[ObjectInfo]:
        """The listed files of which no content is settled."""
        settled = self.find([info.key for info in listed])
        return [info for info in listed if info.key not in settled]

    def judge(self, suspects: Sequence[Entry]) -> Verdict:
        """What the ledger says about entries of the manifest."""
        return judge(suspects, self.find([entry.path for entry in suspects]))

    def find(self, paths: Sequence[str]) -> Mapping[str, LedgerEntry]:
        """The entries of those of these files that are settled, as far as the ledger can be read."""
        if self._checkpoint.sequence < 0 or not paths:
            return {}
        if self._ledger is None:
            try:
                self._ledger = open_ledger(
                    self._store, self._identity, self._checkpoint, with_filters=False, parallel=self._parallel
                )
            except BucketMissing:
                return {}
        return self._find(self._ledger, paths)

    def _find(self, ledger: Ledger, paths: Sequence[str]) -> Mapping[str, LedgerEntry]:
        while True:
            try:
                return ledger.find(paths)
            except RunUnreadable as error:
                source = self._identity.source_id
                self._log("ledger_run_unreadable", source=source, run=error.ref.name, error=str(error))
                self._ledger = ledger = ledger.without(error.ref)


def _is_settled(info: ObjectInfo, found: LedgerEntry | None) -> bool:
    """A file that could not be read is not settled once it was copied onto itself."""
    if found is None or found.etag != info.etag:
        return False
    return found.state is not FileState.FAILED or info.modified_ts * 1000 < found.time_ms + 1
