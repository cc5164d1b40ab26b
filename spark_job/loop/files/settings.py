"""How a source of files is ingested."""

from dataclasses import dataclass

from blizzard.state.batch import BatchRules
from blizzard.sweep.sweeper import SweepRules
from spark_job.loop.ingest import LoopSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings(LoopSettings):
    """The settings of the loop, and what is special to files."""

    rules: BatchRules
    sweep_rules: SweepRules
    max_tracked_files: int = 1000
    """Files that the checkpoint may name one by one before the job lists their partitions to settle them."""
    min_denied_files: int = 1
    """Files that must be denied before that can be a systemic failure. 2 where a single file may well have an owner of
    its own, as on a local disk."""
    segments_ahead: int = 0
    """Segments of the manifest that are fetched ahead when a batch takes many."""
