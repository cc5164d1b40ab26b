"""Which files are settled, by the ledger as of a checkpoint: for sweeps, the dispatcher and the status."""

from collections.abc import Callable, Mapping, Sequence

from blizzard.errors import BucketMissing
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.ledger import PARALLEL_READS, Ledger, LedgerCache, RunUnreadable, open_ledger
from blizzard.ledger.run_index import PartitionStats
from blizzard.ledger.verdict import Verdict, judge
from blizzard.log import Log
from blizzard.manifest.segments import Entry
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectInfo, ObjectStore


class SettledFiles:
    """The ledger is opened when it is first needed. A part of it that cannot be read settles nothing: the job looks the
    files up again, and repairs the ledger.

    `newest`: reads the checkpoint's copy again. It is asked about listed files that were not settled before, since the
    job may have committed them, and removed their entries, while this sweep began. `cache` as in `open_ledger`.
    """

    def __init__(
        self,
        store: ObjectStore,
        identity: SourceIdentity,
        checkpoint: Checkpoint,
        log: Log,
        *,
        newest: Callable[[], Checkpoint] | None = None,
        cache: LedgerCache | None = None,
        parallel: int = PARALLEL_READS,
    ) -> None:
        self._store = store
        self._identity = identity
        self._checkpoint = checkpoint
        self._log = log
        self._newest = newest
        self._cache = cache
        self._parallel = parallel
        self._ledger: Ledger | None = None

    def partitions(self) -> Mapping[str, PartitionStats]:
        """What the settled files of each partition look like."""
        return {} if self._checkpoint.sequence < 0 else self._opened().partitions()

    def unsettled(self, listed: Sequence[ObjectInfo]) -> Sequence[ObjectInfo]:
        """The listed files whose content is not settled."""
        return self._without(listed, _is_settled)

    def unsettled_paths(self, listed: Sequence[ObjectInfo]) -> Sequence[ObjectInfo]:
        """The listed files of which no content is settled."""
        return self._without(listed, lambda info, found: found is not None)

    def _without(
        self, listed: Sequence[ObjectInfo], is_settled: Callable[[ObjectInfo, LedgerEntry | None], bool]
    ) -> Sequence[ObjectInfo]:
        settled = self.find([info.key for info in listed])
        unsettled = [info for info in listed if not is_settled(info, settled.get(info.key))]
        if unsettled and self._newest is not None:
            newest = self._newest()
            if newest.sequence > self._checkpoint.sequence:
                self._checkpoint, self._ledger = newest, None
                return self._without(unsettled, is_settled)
        return unsettled

    def judge(self, suspects: Sequence[Entry]) -> Verdict:
        """What the ledger says about entries of the manifest."""
        return judge(suspects, self.find([entry.path for entry in suspects]))

    def find(self, paths: Sequence[str]) -> Mapping[str, LedgerEntry]:
        """The entries of those of these files that are settled, as far as the ledger can be read."""
        if self._checkpoint.sequence < 0 or not paths:
            return {}
        try:
            return self._find(self._opened(), paths)
        except BucketMissing:  # before the table's first write
            return {}

    def _opened(self) -> Ledger:
        if self._ledger is None:
            self._ledger = open_ledger(
                self._store,
                self._identity,
                self._checkpoint,
                with_filters=False,
                cache=self._cache,
                parallel=self._parallel,
            )
        return self._ledger

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
