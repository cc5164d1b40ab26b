"""What every part of a rebuild needs of one source in one table."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from blizzard.ledger.entry import LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.log import Log
from blizzard.state.batch import BatchRules, unmoved_plan
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.delta_log import WHOLE_LOG
from blizzard.state.identity import SourceIdentity
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectStore
from spark_job.loop.files.file_sizes import FileSizes
from spark_job.loop.files.recovery import recover
from spark_job.loop.files.settings import FileSettings
from spark_job.loop.files.source import FilePlan
from spark_job.loop.ingest import Ingest
from spark_job.ports.source import Recovered
from spark_job.ports.table import FileTable
from spark_job.rebuild.staged_store import StagedStore

AskTable = Callable[[SequenceRange], Iterable[LedgerEntry]]


@dataclass(frozen=True, slots=True)
class Parts:
    """`state`: stages what is written beside the table; `ingest` commits, and uses it, too. `files`: the source's.
    `known`: the ids of all configured sources of the table. `clock` gives Unix seconds, `new_id` a short unique text.
    """

    identity: SourceIdentity
    settings: FileSettings
    table: FileTable[Any]
    state: StagedStore
    files: ObjectStore
    ingest: Ingest
    known: Collection[str]
    clock: Callable[[], float]
    new_id: Callable[[], str]
    log: Log

    @property
    def source_id(self) -> str:
        return self.identity.source_id

    def codec(self) -> CheckpointCodec:
        return CheckpointCodec(self.state, self.identity, self.settings.bases)

    def keeper(self, ask: AskTable | None = None, log: Log | None = None) -> LedgerKeeper:
        """`ask`: the table's rows, by default. It merges in the calling thread."""
        return LedgerKeeper(
            self.state,
            self.identity,
            ask_table=ask or self.table.files_of_commits,
            commits=lambda: self.table.commits(WHOLE_LOG),
            clock=self.clock,
            new_id=self.new_id,
            log=log or self.log,
            settings=replace(self.settings.ledger, in_background=False),
        )

    def recovered(self, keeper: LedgerKeeper, *, moved: bool = False, log: Log | None = None) -> Recovered[Checkpoint]:
        """As a job recovers. `moved`: whether the table may have been moved. What is written is staged."""
        return recover(
            self.table,
            self.state,
            self.identity,
            rules=self.settings.rules,
            sizes=FileSizes(self.files),
            log=log or self.log,
            codec=self.codec(),
            ledger=keeper,
            moved=moved,
        )

    def commit(self, checkpoint: Checkpoint) -> bool:
        """One without rows. False: another process committed first."""
        return self.ingest.commit_state(state_plan(checkpoint, self.settings.rules))


def state_plan(checkpoint: Checkpoint, rules: BatchRules) -> FilePlan:
    """The plan of a commit that changes nothing but what `checkpoint` says."""
    return FilePlan(unmoved_plan(checkpoint, rules), ())


def count_files(keeper: LedgerKeeper, checkpoint: Checkpoint) -> int:
    """How many files the ledger has. Reads all of it, and fills what cannot be read."""
    return keeper.since(checkpoint, -1, lambda entry: False)[0] if checkpoint.sequence >= 0 else 0
