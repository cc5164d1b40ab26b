"""Batch planning: which entries of the manifest the next Delta commit takes. No I/O, no clock."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from blizzard.manifest.segments import Entry, FoundBy, Position, UnconsumedSegment
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.watermark import FolderOf, Settling, split


class Fate(StrEnum):
    """What becomes of an entry."""

    INGEST = "ingest"
    DUPLICATE = "duplicate"
    """In this batch already, committed above its watermark, or in progress."""
    SETTLED = "settled"
    """Below the watermark and so old that a late sweep has seen it."""
    SUSPECT = "suspect"
    """Below the watermark or in a closed partition: only the table knows."""


class OnOverwrite(StrEnum):
    """What to do with a file whose content changed after it was ingested."""

    IGNORE = "ignore"
    DEAD_LETTER = "dead_letter"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Rules:
    """A source's settings as far as planning needs them."""

    folder_of: FolderOf
    interval_files: int = 1000
    interval_bytes: int = 1 << 30
    late_overlap_secs: float = 86_400.0
    on_overwrite: OnOverwrite = OnOverwrite.IGNORE


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to read. `slice_bytes` (None: read it whole) is how much of its stored bytes this batch may read.
    `event_ts`: of its entry; of a further slice, whose entry is consumed, when the one before it was committed."""

    path: str
    size: int
    event_ts: float
    found_by: FoundBy
    skip_records: int = 0
    slice_bytes: int | None = None
    expected_etag: str | None = None
    """For a file in progress: the etag of what was committed of it; another one means it changed in between."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one commit takes. Suspects are in `files` only once `admit` has put them there."""

    base: Checkpoint
    files: tuple[PlannedFile, ...]
    suspects: tuple[Entry, ...]
    position: Position
    settling: Settling
    full: bool
    duplicates: int = 0
    settled: int = 0
    segments: int = 0
    """How many segments it consumes to their end."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read (a position may still have moved)."""
        return not self.files and not self.suspects

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def classify(entry: Entry, settling: Settling, rules: Rules, *, in_batch: bool) -> Fate:
    """Decide by state alone: first what it says of this very file, then what the watermark of its partition does."""
    if in_batch:
        return Fate.DUPLICATE
    read = settling.files.get(entry.path)
    if read is not None and read != FINISHED:
        return Fate.DUPLICATE
    if read is not None and not settling.covers(entry.path):
        # What a late sweep appends has an etag that no receipt knows.
        asks = rules.on_overwrite is not OnOverwrite.IGNORE or entry.found_by is FoundBy.LATE
        return Fate.SUSPECT if asks else Fate.DUPLICATE
    partition, name = split(entry.path)
    if settling.closed(partition):
        return Fate.SUSPECT
    watermark = settling.watermarks.get(partition)
    if watermark is None:
        return Fate.SUSPECT if settling.may_be_forgotten(partition) else Fate.INGEST
    if name > watermark:
        return Fate.INGEST
    return Fate.SETTLED if entry.event_ts < seen_before_ts(settling, rules) else Fate.SUSPECT


def seen_before_ts(settling: Settling, rules: Rules) -> float:
    """Of what came before this time, a late sweep has seen all that lies at or below a watermark."""
    late = settling.late_swept_ts
    return -math.inf if late is None else late - rules.late_overlap_secs


@dataclass(slots=True)
class _Draft:
    """A batch that is being filled."""

    base: Checkpoint
    rules: Rules
    settling: Settling
    position: Position
    files: dict[str, PlannedFile] = field(default_factory=dict)
    suspects: dict[tuple[str, str], Entry] = field(default_factory=dict)
    """By path and etag: what is known of one content says nothing of another."""
    bytes: int = 0
    full: bool = False
    duplicates: int = 0
    settled: int = 0
    segments: int = 0

    def resume(self, path: str, skip_records: int) -> None:
        """A file in progress comes first, and alone."""
        budget = self.rules.interval_bytes
        self.files[path] = PlannedFile(path, budget, self.base.last_update_ts, FoundBy.EVENT, skip_records, budget)
        self.full = True

    def take(self, item: UnconsumedSegment) -> None:
        """Consume the segment, or as much of it as the batch has room for."""
        entries, seen_ts = item.segment.entries, seen_before_ts(self.settling, self.rules)
        marks: dict[str, str | None] = {}
        for index in range(item.first_entry, len(entries)):
            entry = entries[index]
            if entry.event_ts < seen_ts and self._is_settled(entry, marks):
                self.settled += 1
            elif not self._take_entry(entry):
                if index > item.first_entry:  # else the position stays behind the segment before
                    self.position = item.position_at(index)
                return
        self.position = item.position_at(len(entries))
        self.segments += 1
        if item.segment.sweep is not None and item.marks_are_valid:
            self.settling.apply(item.segment.sweep)

    def _is_settled(self, entry: Entry, marks: dict[str, str | None]) -> bool:
        """What `classify` says, for the many entries that a late sweep has seen; False leaves it to that. `marks` keeps
        the watermarks of open partitions: none changes within a segment."""
        path = entry.path
        if path in self.files or (self.suspects and (path, entry.etag) in self.suspects):
            return False
        partition, name = split(path)
        if partition not in marks:
            closed = self.settling.closed(partition)
            marks[partition] = None if closed else self.settling.watermarks.get(partition)
        watermark = marks[partition]
        return watermark is not None and name <= watermark

    def _take_entry(self, entry: Entry) -> bool:
        """False when the batch has no room for it."""
        in_batch = entry.path in self.files or (entry.path, entry.etag) in self.suspects
        fate = classify(entry, self.settling, self.rules, in_batch=in_batch)
        if fate is Fate.DUPLICATE:
            self.duplicates += 1
        elif fate is Fate.SETTLED:
            self.settled += 1
        elif self._has_room(entry):
            self._add(entry, fate)
        else:
            self.full = True
            return False
        return True

    def _has_room(self, entry: Entry) -> bool:
        if not self.files and not self.suspects:
            return True
        return not self.full and self.bytes + entry.size <= self.rules.interval_bytes

    def _add(self, entry: Entry, fate: Fate) -> None:
        self.bytes += entry.size
        if fate is Fate.SUSPECT:
            self.suspects[entry.path, entry.etag] = entry
        else:
            self.files[entry.path] = file = planned(entry, self.rules)
            if file.slice_bytes is not None:
                self.settling.files[entry.path] = 0  # in progress: no mark of this segment may pass it
                self.full = True
        if len(self.files) + len(self.suspects) >= self.rules.interval_files:
            self.full = True

    def plan(self) -> BatchPlan:
        return BatchPlan(
            base=self.base,
            files=tuple(self.files.values()),
            suspects=tuple(self.suspects.values()),
            position=self.position,
            settling=self.settling,
            full=self.full,
            duplicates=self.duplicates,
            settled=self.settled,
            segments=self.segments,
        )


def planned(entry: Entry, rules: Rules) -> PlannedFile:
    """The file to read for an entry; one larger than a batch is read in slices."""
    budget = rules.interval_bytes if entry.size > rules.interval_bytes else None
    return PlannedFile(entry.path, entry.size, entry.event_ts, entry.found_by, slice_bytes=budget)


def plan_batch(checkpoint: Checkpoint, unconsumed: Iterable[UnconsumedSegment], rules: Rules) -> BatchPlan:
    """Fill one batch from the manifest, files in progress first."""
    draft = _Draft(checkpoint, rules, Settling.of(checkpoint, rules.folder_of), checkpoint.position)
    for path, read in sorted(checkpoint.in_progress.items())[:1]:
        draft.resume(path, read)
    if not draft.full:
        for item in unconsumed:
            draft.take(item)
            if draft.full:
                break
    return draft.plan()


def plan_listed(checkpoint: Checkpoint, listed: Iterable[Entry], settling: Settling, rules: Rules) -> BatchPlan:
    """A batch of what the job listed itself, to settle over it: `settling` is `checkpoint`'s, moved over `listed`."""
    before = Settling.of(checkpoint, rules.folder_of)
    fates = [(entry, classify(entry, before, rules, in_batch=False)) for entry in listed]
    return BatchPlan(
        base=checkpoint,
        files=tuple(planned(entry, rules) for entry, fate in fates if fate is Fate.INGEST),
        suspects=tuple(entry for entry, fate in fates if fate is Fate.SUSPECT),
        position=checkpoint.position,
        settling=settling,
        full=True,
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the table's answer makes of the suspects."""

    late: tuple[Entry, ...]
    """Not in the table: to be ingested."""
    known: int
    overwritten: tuple[Entry, ...]
    """In the table with another etag."""


def judge(suspects: Iterable[Entry], etags: Mapping[str, frozenset[str]]) -> Verdict:
    """Compare suspects with the etags under which the table holds each path (a path that is not there: not in it)."""
    late, overwritten, known = [], [], 0
    for entry in suspects:
        held = etags.get(entry.path)
        if not held:
            late.append(entry)
        elif entry.etag in held:
            known += 1
        else:
            overwritten.append(entry)
    return Verdict(tuple(late), known, tuple(overwritten))


def admit(plan: BatchPlan, late: Iterable[Entry], rules: Rules) -> BatchPlan:
    """The plan with the suspects decided: `late` are read, the others are dropped.

    A late file that must be read in slices is alone in its batch: it fills it, and only an empty batch takes it. One
    that was announced with several etags is read once.
    """
    by_path = {entry.path: planned(entry, rules) for entry in late}
    return replace(plan, files=(*plan.files, *by_path.values()), suspects=())


def conclude(plan: BatchPlan, records_read: Mapping[str, int]) -> Checkpoint:
    """The state once the batch is committed. `records_read`: FINISHED, or for a slice the records read so far."""
    settling = plan.settling
    settling.files.update({file.path: records_read.get(file.path, FINISHED) for file in plan.files})
    settling.prune()
    brought = bool(plan.files)
    return replace(settling.onto(plan.base, active=brought), position=plan.position)
