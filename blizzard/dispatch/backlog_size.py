"""What waits to be ingested: the one reckoning of a backlog, for the dispatcher and for people."""

from dataclasses import dataclass, field

from blizzard.manifest.segments import UnconsumedSegment
from blizzard.state.batch import BatchRules, EntryClass, classify
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.watermark import SourceProgress


@dataclass(slots=True)
class Waiting:
    """A source's files in progress, and those of its unconsumed segments that its state does not know to be done, by
    path. The segments are taken in order; their marks count as they do for the job."""

    checkpoint: Checkpoint
    rules: BatchRules
    sizes: dict[str, int] = field(init=False)
    """Bytes of each, as its last entry says; 0 of a file in progress, since the state does not say."""
    _progress: SourceProgress = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = dict.fromkeys(self.checkpoint.in_progress, 0)
        self._progress = SourceProgress.from_checkpoint(self.checkpoint, self.rules.folder_of)

    def take(self, item: UnconsumedSegment, *, suspects: bool = True) -> bool:
        """Whether some of the segment waits. Without `suspects`, what only the table knows does not count."""
        some = False
        for entry in item.segment.entries[item.first_entry :]:
            fate = classify(entry, self._progress, self.rules, in_batch=False)
            if fate is EntryClass.INGEST or (suspects and fate is EntryClass.SUSPECT):
                self.sizes[entry.path] = entry.size
                some = True
        if item.segment.sweep is not None and item.marks_are_valid:
            self._progress.apply_sweep(item.segment.sweep)
        return some
