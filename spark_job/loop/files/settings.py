"""How a source of files is ingested."""

from dataclasses import dataclass, field

from blizzard.history.packer import HistorySettings
from blizzard.ledger.merge import LedgerSettings
from blizzard.state.batch import BatchRules
from blizzard.state.checkpoint_codec import BaseSettings
from blizzard.sweep.rules import SweepRules
from spark_job.loop.ingest import LoopSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings(LoopSettings):
    """The settings of the loop, and those specific to files."""

    rules: BatchRules
    sweep_rules: SweepRules
    min_denied_files: int = 1
    """Fewer denied files are not a systemic failure. 2 on a local disk, where one file may belong to another user."""
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    bases: BaseSettings = field(default_factory=BaseSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    segments_ahead: int = 0
    """Segments of the manifest that are prefetched when a batch takes many."""
