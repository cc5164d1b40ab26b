"""Batch planning: which entries of the manifest go into the next Delta commit. No I/O, no clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from blizzard.manifest.segments import Entry, FoundBy, Position, UnconsumedSegment
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.watermark import FolderOf, SourceProgress, split_path


class EntryClass(StrEnum):
    """How planning treats an entry."""

    DUPLICATE = "duplicate"
    """Already in this batch, or in progress."""
    SETTLED = "settled"
    """Settled by a state from before the ledger, which may not have the file."""
    SUSPECT = "suspect"
    """Only the ledger knows whether the file is settled."""


class OnOverwrite(StrEnum):
    """What to do with a file whose content changed after it was ingested."""

    IGNORE = "ignore"
    DEAD_LETTER = "dead_letter"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The settings of a source that batch planning needs."""

    folder_of: FolderOf
    interval_files: int = 1000
    interval_bytes: int = 1 << 30
    late_overlap_secs: float = 86_400.0
    on_overwrite: OnOverwrite = OnOverwrite.IGNORE


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to read. `slice_bytes`: how many of its stored bytes this batch may read (None: the whole file).
    `event_ts` is that of its entry. The entry of a later slice is consumed already; its `event_ts` is the time of the
    commit before."""

    path: str
    size: int
    event_ts: float
    found_by: FoundBy
    skip_records: int = 0
    slice_bytes: int | None = None
    expected_etag: str | None = None
    """Of a file in progress: the etag of the committed part. Another etag means that the file was overwritten since.
    Also of files that an operator has read once more."""
    records: tuple[int, ...] | None = None
    """The numbers of those that are read, ascending; None: all. The others are not refused: they are not looked at."""
    given: tuple[tuple[int, str], ...] = ()
    """Records that an operator gives in place of those with these numbers, as JSON texts. The file is not opened."""
    modified_ts: float = 0.0
    """Of the file, if records are given."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The content of one commit. Suspects move to `files` only after they are resolved (`add_late_files`): at first
    only a file in progress is there."""

    base: Checkpoint
    files: tuple[PlannedFile, ...]
    suspects: tuple[Entry, ...]
    position: Position
    progress: SourceProgress
    full: bool
    duplicates: int = 0
    settled: int = 0
    segments: int = 0
    """How many segments the plan consumes completely."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read. The position may have moved all the same."""
        return not self.files and not self.suspects

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files) + sum(entry.size for entry in self.suspects)


def classify(entry: Entry, progress: SourceProgress, rules: BatchRules, *, in_batch: bool) -> EntryClass:
    """Classify an entry with the source's state alone. `in_batch`: whether the batch has the file already."""
    if in_batch:
        return EntryClass.DUPLICATE
    read = progress.files.get(entry.path)
    if read is not None and read != FINISHED:
        return EntryClass.DUPLICATE
    if progress.before_ledger_ts is not None and entry.event_ts < progress.before_ledger_ts - rules.late_overlap_secs:
        partition, name = split_path(entry.path)
        if read == FINISHED or name <= progress.watermarks.get(partition, ""):
            return EntryClass.SETTLED
    return EntryClass.SUSPECT


@dataclass(slots=True)
class _BatchBuilder:
    """A batch that is being filled."""

    base: Checkpoint
    rules: BatchRules
    progress: SourceProgress
    position: Position
    files: dict[str, PlannedFile] = field(default_factory=dict)
    suspects: dict[tuple[str, str], Entry] = field(default_factory=dict)
    """By path and etag: whether one content is ingested says nothing about another."""
    bytes: int = 0
    full: bool = False
    duplicates: int = 0
    settled: int = 0
    segments: int = 0

    def add_file_in_progress(self, path: str, skip_records: int) -> None:
        """A file in progress comes first, and is the only one in its batch."""
        budget = self.rules.interval_bytes
        self.files[path] = PlannedFile(path, budget, self.base.last_update_ts, FoundBy.EVENT, skip_records, budget)
        self.full = True

    def consume(self, item: UnconsumedSegment) -> None:
        """Consume the segment, or as much of it as the batch has room for."""
        entries = item.segment.entries
        for index in range(item.first_entry, len(entries)):
            if not self._consume_entry(entries[index]):
                if index > item.first_entry:  # else the position stays after the previous segment
                    self.position = item.position_at(index)
                return
        self.position = item.position_at(len(entries))
        self.segments += 1
        if item.segment.sweep is not None and item.marks_are_valid:
            self.progress.apply_sweep(item.segment.sweep)

    def _consume_entry(self, entry: Entry) -> bool:
        """False if the batch has no room for it."""
        in_batch = entry.path in self.files or (entry.path, entry.etag) in self.suspects
        entry_class = classify(entry, self.progress, self.rules, in_batch=in_batch)
        if entry_class is EntryClass.DUPLICATE:
            self.duplicates += 1
        elif entry_class is EntryClass.SETTLED:
            self.settled += 1
        elif self._has_room(entry):
            self._add(entry)
        else:
            self.full = True
            return False
        return True

    def _has_room(self, entry: Entry) -> bool:
        """A file larger than a batch is alone in one."""
        if not self.suspects:
            return True
        return not self.full and self.bytes + entry.size <= self.rules.interval_bytes

    def _add(self, entry: Entry) -> None:
        self.suspects[entry.path, entry.etag] = entry
        self.bytes += entry.size
        self.full = len(self.suspects) >= self.rules.interval_files or self.bytes >= self.rules.interval_bytes

    def build(self) -> BatchPlan:
        return BatchPlan(
            base=self.base,
            files=tuple(self.files.values()),
            suspects=tuple(self.suspects.values()),
            position=self.position,
            progress=self.progress,
            full=self.full,
            duplicates=self.duplicates,
            settled=self.settled,
            segments=self.segments,
        )


def planned_file(entry: Entry, rules: BatchRules) -> PlannedFile:
    """The file to read for an entry. A file larger than a batch is read in slices."""
    budget = rules.interval_bytes if entry.size > rules.interval_bytes else None
    return PlannedFile(entry.path, entry.size, entry.event_ts, entry.found_by, slice_bytes=budget)


def plan_batch(checkpoint: Checkpoint, unconsumed: Iterable[UnconsumedSegment], rules: BatchRules) -> BatchPlan:
    """Fill one batch from the manifest, files in progress first."""
    progress = SourceProgress.from_checkpoint(checkpoint, rules.folder_of)
    batch = _BatchBuilder(checkpoint, rules, progress, checkpoint.position)
    for path, read in sorted(checkpoint.in_progress.items())[:1]:
        batch.add_file_in_progress(path, read)
    if not batch.full:
        for item in unconsumed:
            batch.consume(item)
            if batch.full:
                break
    return batch.build()


def unmoved_plan(checkpoint: Checkpoint, rules: BatchRules) -> BatchPlan:
    """A plan that takes nothing from the manifest, for files that are read once more."""
    progress = SourceProgress.from_checkpoint(checkpoint, rules.folder_of)
    return BatchPlan(checkpoint, (), (), checkpoint.position, progress, full=True)


def add_late_files(plan: BatchPlan, late: Iterable[Entry], rules: BatchRules) -> BatchPlan:
    """The plan with its suspects resolved: `late` files are read, the other suspects are dropped.

    A late file that has to be read in slices is alone in its batch, since it fills the batch and only an empty one
    has room for it. A file that was announced with several etags is read once.
    """
    by_path = {entry.path: planned_file(entry, rules) for entry in late}
    return replace(plan, files=(*plan.files, *by_path.values()), suspects=())


def next_checkpoint(plan: BatchPlan, records_read: Mapping[str, int]) -> Checkpoint:
    """The state after the batch is committed. `records_read`, by path: FINISHED (also if the path is missing), or the
    records of a file in slices that were read so far."""
    progress = plan.progress
    for file in plan.files:
        progress.files[file.path] = records_read.get(file.path, FINISHED)
        if progress.files[file.path] == FINISHED:
            del progress.files[file.path]
    progress.forget_settled_files()
    return replace(progress.to_checkpoint(plan.base, active=bool(plan.files)), position=plan.position)
