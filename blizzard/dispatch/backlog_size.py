"""The size of a backlog, counted the same way for the dispatcher and `blizzard status`."""

from dataclasses import dataclass, field

from blizzard.ledger.settled_files import SettledFiles
from blizzard.manifest.segments import UnconsumedSegment
from blizzard.paths.partition import TimeTemplate
from blizzard.state.batch import BatchRules, EntryClass, OnOverwrite, classify
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.watermark import SourceProgress, no_folder


def backlog_rules(*, prefix_template: str | None, late_overlap_secs: float, on_overwrite: str) -> BatchRules:
    """From a source's settings. `prefix_template` None: no partition is ever closed."""
    return BatchRules(
        folder_of=no_folder if prefix_template is None else TimeTemplate(prefix_template).folder_of,
        late_overlap_secs=late_overlap_secs,
        on_overwrite=OnOverwrite(on_overwrite),
    )


@dataclass(slots=True)
class BacklogCounter:
    """Counts a source's pending files: those in progress, and those in unconsumed segments that are not known to be
    settled. Segments have to be added in order, since their marks apply as they do in the job."""

    checkpoint: Checkpoint
    rules: BatchRules
    settled: SettledFiles
    sizes: dict[str, int] = field(init=False)
    """Size in bytes of each pending file, by path, from its last entry. 0 for a file in progress, whose size is not in
    the checkpoint."""
    _progress: SourceProgress = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = dict.fromkeys(self.checkpoint.in_progress, 0)
        self._progress = SourceProgress.from_checkpoint(self.checkpoint, self.rules.folder_of)

    def add_segment(self, item: UnconsumedSegment, *, suspects: bool = True) -> bool:
        """Returns whether the segment has pending files. `suspects`: whether files with other content than the settled
        one count; not if a run has looked at them. With `ignore` they never do."""
        verdict = self.settled.judge(
            [
                entry
                for entry in item.segment.entries[item.first_entry :]
                if classify(entry, self._progress, self.rules, in_batch=False) is EntryClass.SUSPECT
            ]
        )
        counts_overwritten = suspects and self.rules.on_overwrite is not OnOverwrite.IGNORE
        pending = [*verdict.late, *(verdict.other if counts_overwritten else ())]
        self.sizes.update((entry.path, entry.size) for entry in pending)
        if item.segment.sweep is not None and item.marks_are_valid:
            self._progress.apply_sweep(item.segment.sweep)
        return bool(pending)
