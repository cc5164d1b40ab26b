"""The size of a backlog: one way of counting it, for the dispatcher and for `blizzard status`."""

from dataclasses import dataclass, field

from blizzard.manifest.segments import UnconsumedSegment
from blizzard.state.batch import BatchRules, EntryClass, classify
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.watermark import SourceProgress


@dataclass(slots=True)
class BacklogCounter:
    """Counts a source's pending files: those in progress, and those of its unconsumed segments that its state does not
    know to be settled. Segments have to be added in order, since their marks apply as they do in the job."""

    checkpoint: Checkpoint
    rules: BatchRules
    sizes: dict[str, int] = field(init=False)
    """Bytes of each pending file, by path, as its last entry says. 0 for a file in progress: the state has no size."""
    _progress: SourceProgress = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = dict.fromkeys(self.checkpoint.in_progress, 0)
        self._progress = SourceProgress.from_checkpoint(self.checkpoint, self.rules.folder_of)

    def add_segment(self, item: UnconsumedSegment, *, suspects: bool = True) -> bool:
        """Whether the segment has pending files. `suspects`: whether suspects count as pending."""
        pending = False
        for entry in item.segment.entries[item.first_entry :]:
            entry_class = classify(entry, self._progress, self.rules, in_batch=False)
            if entry_class is EntryClass.INGEST or (suspects and entry_class is EntryClass.SUSPECT):
                self.sizes[entry.path] = entry.size
                pending = True
        if item.segment.sweep is not None and item.marks_are_valid:
            self._progress.apply_sweep(item.segment.sweep)
        return pending
