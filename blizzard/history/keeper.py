"""The history of a source in a running job: looks once an hour whether receipts are to be packed, and packs them while
files are read."""

from collections.abc import Callable, Iterable

from blizzard.background import Background
from blizzard.errors import BlizzardError
from blizzard.history.packer import HistorySettings, Packer
from blizzard.log import Log
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore

HOUR_SECS = 3_600.0


class HistoryKeeper:
    """Used by one thread. Packing goes on in another, and nothing counts before a commit names its result."""

    def __init__(
        self,
        store: ObjectStore,
        identity: SourceIdentity,
        commits: Callable[[], Iterable[Commit]],
        *,
        clock: Callable[[], float],
        log: Log,
        settings: HistorySettings,
    ) -> None:
        self._packer = Packer(store, identity, commits, log, settings)
        self._clock = clock
        self._log = log
        self._session: _Session | None = None

    def begin(self, checkpoint: Checkpoint) -> None:
        """Before a batch is read. Looks whether something is to be packed if this is the first batch of its hour, and
        packs it."""
        now_ts = self._clock()
        is_new_hour = now_ts // HOUR_SECS > checkpoint.last_update_ts // HOUR_SECS
        if self._session is None and is_new_hour:
            self._session = _Session(self._packer, checkpoint, now_ts, self._log)

    def ref(self, checkpoint: Checkpoint) -> str | None:
        """The index of packs that the commit after `checkpoint` names."""
        session = self._session
        if session is None or not session.ended:
            return checkpoint.history
        if session.index in (None, checkpoint.history):
            self._session = None
        return session.index or checkpoint.history

    def is_packing(self) -> bool:
        return self._session is not None and not self._session.ended

    def owes_commit(self, checkpoint: Checkpoint) -> bool:
        """Called at the end of a run. Whether there are packs that no checkpoint names yet: the next run would pack
        them again."""
        return self.ref(checkpoint) != checkpoint.history

    def forget(self) -> None:
        """The next checkpoint may be that of another job, which packs, too."""
        self._session = None


class _Session:
    """Begins at once. A process that ends meanwhile leaves nothing behind that counts."""

    def __init__(self, packer: Packer, checkpoint: Checkpoint, now_ts: float, log: Log) -> None:
        self.index: str | None = None
        self._packer = packer
        self._checkpoint = checkpoint
        self._now_ts = now_ts
        self._log = log
        self._background = Background(self._work, name="history", in_background=packer.settings.in_background)

    @property
    def ended(self) -> bool:
        return self._background.ended

    def _work(self) -> None:
        try:
            if self._packer.is_due(self._checkpoint, self._now_ts):
                self.index = self._packer.pack(self._checkpoint, self._now_ts)
        except BlizzardError as error:
            self._log("history_not_packed", source=self._packer.identity.source_id, error=str(error))
