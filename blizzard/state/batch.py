"""Batch planning: which entries of the manifest go into the next Delta commit. No I/O, no clock."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from blizzard.manifest.segments import Entry, FoundBy, Position, UnconsumedSegment
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.watermark import FolderOf, SourceProgress, split_path


class EntryClass(StrEnum):
    """How planning treats an entry."""

    INGEST = "ingest"
    DUPLICATE = "duplicate"
    """Already in this batch, committed above its watermark, or in progress."""
    SETTLED = "settled"
    """At or below the watermark, and old enough that a late sweep has seen the file."""
    SUSPECT = "suspect"
    """At or below the watermark, or in a closed partition: only the table knows whether the file is ingested."""


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
    """Of a file in progress: the etag of the committed part. Another etag means that the file was overwritten since."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The content of one commit. Suspects move to `files` only after they are resolved (`add_late_files`)."""

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
        return sum(file.size for file in self.files)


def classify(entry: Entry, progress: SourceProgress, rules: BatchRules, *, in_batch: bool) -> EntryClass:
    """Classify an entry with the source's state alone: first with what is known about this file, then with the
    watermark of its partition. `in_batch`: whether the batch has the file already."""
    if in_batch:
        return EntryClass.DUPLICATE
    read = progress.files.get(entry.path)
    if read is not None and read != FINISHED:
        return EntryClass.DUPLICATE
    if read is not None and not progress.is_settled(entry.path):
        # A late sweep appends a tracked file only if its etag is in no receipt: it may have been overwritten.
        may_be_overwritten = rules.on_overwrite is not OnOverwrite.IGNORE or entry.found_by is FoundBy.LATE
        return EntryClass.SUSPECT if may_be_overwritten else EntryClass.DUPLICATE
    partition, name = split_path(entry.path)
    if progress.is_closed(partition):
        return EntryClass.SUSPECT
    watermark = progress.watermarks.get(partition)
    if watermark is None:
        return EntryClass.SUSPECT if progress.may_have_been_closed(partition) else EntryClass.INGEST
    if name > watermark:
        return EntryClass.INGEST
    return EntryClass.SETTLED if entry.event_ts < late_swept_before_ts(progress, rules) else EntryClass.SUSPECT


def late_swept_before_ts(progress: SourceProgress, rules: BatchRules) -> float:
    """A late sweep has seen every file at or below a watermark that arrived before this time (exclusive)."""
    late_ts = progress.late_swept_ts
    return -math.inf if late_ts is None else late_ts - rules.late_overlap_secs


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
        entries, late_swept_ts = item.segment.entries, late_swept_before_ts(self.progress, self.rules)
        watermarks: dict[str, str | None] = {}
        for index in range(item.first_entry, len(entries)):
            entry = entries[index]
            if entry.event_ts < late_swept_ts and self._is_settled(entry, watermarks):
                self.settled += 1
            elif not self._consume_entry(entry):
                if index > item.first_entry:  # else the position stays after the previous segment
                    self.position = item.position_at(index)
                return
        self.position = item.position_at(len(entries))
        self.segments += 1
        if item.segment.sweep is not None and item.marks_are_valid:
            self.progress.apply_sweep(item.segment.sweep)

    def _is_settled(self, entry: Entry, watermarks: dict[str, str | None]) -> bool:
        """A faster `classify` for the common case SETTLED; False means that `classify` decides. `watermarks` caches the
        watermarks of open partitions, which do not change within a segment."""
        path = entry.path
        if path in self.files or (self.suspects and (path, entry.etag) in self.suspects):
            return False
        partition, name = split_path(path)
        if partition not in watermarks:
            closed = self.progress.is_closed(partition)
            watermarks[partition] = None if closed else self.progress.watermarks.get(partition)
        watermark = watermarks[partition]
        return watermark is not None and name <= watermark

    def _consume_entry(self, entry: Entry) -> bool:
        """False if the batch has no room for it."""
        in_batch = entry.path in self.files or (entry.path, entry.etag) in self.suspects
        entry_class = classify(entry, self.progress, self.rules, in_batch=in_batch)
        if entry_class is EntryClass.DUPLICATE:
            self.duplicates += 1
        elif entry_class is EntryClass.SETTLED:
            self.settled += 1
        elif self._has_room(entry):
            self._add(entry, entry_class)
        else:
            self.full = True
            return False
        return True

    def _has_room(self, entry: Entry) -> bool:
        if not self.files and not self.suspects:
            return True
        return not self.full and self.bytes + entry.size <= self.rules.interval_bytes

    def _add(self, entry: Entry, entry_class: EntryClass) -> None:
        self.bytes += entry.size
        if entry_class is EntryClass.SUSPECT:
            self.suspects[entry.path, entry.etag] = entry
        else:
            self.files[entry.path] = file = planned_file(entry, self.rules)
            if file.slice_bytes is not None:
                self.progress.files[entry.path] = 0  # in progress: no mark of this segment may pass it
                self.full = True
        if len(self.files) + len(self.suspects) >= self.rules.interval_files:
            self.full = True

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


def plan_listed_files(
    checkpoint: Checkpoint, listed: Iterable[Entry], progress: SourceProgress, rules: BatchRules
) -> BatchPlan:
    """A batch of files that the job listed itself. `progress` is that of `checkpoint`, advanced over `listed`."""
    before = SourceProgress.from_checkpoint(checkpoint, rules.folder_of)
    classified = [(entry, classify(entry, before, rules, in_batch=False)) for entry in listed]
    return BatchPlan(
        base=checkpoint,
        files=tuple(planned_file(entry, rules) for entry, kind in classified if kind is EntryClass.INGEST),
        suspects=tuple(entry for entry, kind in classified if kind is EntryClass.SUSPECT),
        position=checkpoint.position,
        progress=progress,
        full=True,
    )


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
    progress.files.update({file.path: records_read.get(file.path, FINISHED) for file in plan.files})
    progress.forget_settled_files()
    return replace(progress.to_checkpoint(plan.base, active=bool(plan.files)), position=plan.position)
