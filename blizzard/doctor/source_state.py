"""What a doctor's checks of a source's state look at, each part read once."""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property

from blizzard.config.model import Source
from blizzard.config.published import PublishedPipeline
from blizzard.dispatch.backlog import SourceBacklog, read_backlog
from blizzard.dispatch.topic_backlog import RunTimes
from blizzard.errors import BucketMissing, NotFound, UnreadableState
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.delta_log import LOG_FOLDER
from blizzard.state.identity import SourceIdentity
from blizzard.state.newest_commit import NewestCommit, newest_commit, no_checkpoint
from blizzard.state.receipts import Receipts
from blizzard.storage.base import ObjectStore
from blizzard.sweep.reports import SweepReports, read_reports


class SourceState:
    """`pipeline`: of the source alone, in its published form. `deployed`: whether a stack sweeps the source."""

    def __init__(
        self,
        source: Source,
        pipeline: PublishedPipeline,
        store: ObjectStore,
        clock: Callable[[], float],
        *,
        deployed: bool = False,
    ) -> None:
        self.source = source
        self.pipeline = pipeline
        self.store = store
        self.deployed = deployed
        self.now_ts = clock()
        self.identity = SourceIdentity(source.pipeline, source.name, source.state_prefix)
        self.receipts = Receipts(store, source.state_prefix)

    @cached_property
    def newest(self) -> NewestCommit:
        """Raises UnreadableState."""
        try:
            return newest_commit(self.store, self.identity.app_id, self._copy_sequence)
        except BucketMissing:
            return NewestCommit()

    @cached_property
    def has_log(self) -> bool:
        """Whether there is a table."""
        try:
            return next(iter(self.store.list(LOG_FOLDER)), None) is not None
        except BucketMissing:
            return False

    @cached_property
    def copy(self) -> Checkpoint | None:
        """Raises UnreadableState."""
        try:
            return CheckpointCodec(self.store, self.identity).read_copy()
        except (NotFound, BucketMissing):
            return None

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """That of the copy if the table has no Txn of the source. Raises UnreadableState."""
        sequence, commit = self.newest.sequence, self.newest.commit
        if commit is not None:
            return CheckpointCodec(self.store, self.identity).decode(commit.user_metadata or "")
        if sequence is None or self._copy_sequence() == sequence:
            return self.copy
        raise UnreadableState(no_checkpoint(sequence))

    def _copy_sequence(self) -> int | None:
        """None: there is no copy that can be read."""
        with suppress(UnreadableState):
            return None if self.copy is None else self.copy.sequence
        return None

    @property
    def committed(self) -> Checkpoint:
        """Only for checks that need `state.checkpoint`."""
        if self.checkpoint is None:
            raise ValueError(f"{self.identity.source_id} has no checkpoint")
        return self.checkpoint

    @cached_property
    def backlog(self) -> SourceBacklog:
        (found,) = read_backlog(self.store, self.pipeline, {}, RunTimes(self.now_ts)).sources.values()
        return found

    @cached_property
    def reports(self) -> SweepReports:
        try:
            return read_reports(self.store, self.identity)
        except BucketMissing:
            return SweepReports()

    @property
    def known(self) -> Checkpoint:
        """The checkpoint, or its copy if it cannot be read; else that of a source without a commit."""
        with suppress(UnreadableState):
            if self.checkpoint is not None:
                return self.checkpoint
        with suppress(UnreadableState):
            if self.copy is not None:
                return self.copy
        return Checkpoint(self.identity.pipeline, self.identity.source)

    @property
    def has_begun(self) -> bool:
        """Whether anything was announced or committed."""
        return self.newest.sequence is not None or self.known.sequence >= 0 or self.backlog.position.head is not None
