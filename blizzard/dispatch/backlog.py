"""What of a pipeline waits to be ingested, as far as one has to look to know whether a run is worth it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from blizzard.config.published import PublishedPipeline, PublishedSource
from blizzard.dispatch.backlog_size import Waiting
from blizzard.dispatch.run_records import SourceMark
from blizzard.errors import BucketMissing
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Segment, UnconsumedSegment
from blizzard.paths.partition import TimeTemplate
from blizzard.state.batch import BatchRules, OnOverwrite
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import Identity, read_copy
from blizzard.state.watermark import no_folder
from blizzard.storage.base import ObjectStore

MAX_UNCONSUMED = 60
"""Segments without a file to ingest (marks, duplicates) are worth a run when there are so many of them."""
COUNTED_SEGMENTS = 16
COUNTED_FILES = 10_000
"""Once something waits, so much is read at most to say how much it is."""
LISTED_SEGMENTS = 1000


@dataclass(frozen=True, slots=True)
class SourceBacklog:
    """One source. `files` is a lower bound if `more`; `oldest_ts` is when the first of them was appended."""

    mark: SourceMark
    files: int = 0
    more: bool = False
    oldest_ts: float | None = None
    left_behind: bool = False
    """Whether the run that `seen` speaks of ought to have consumed some of it, and the source is where it was."""

    @property
    def worth_a_run(self) -> bool:
        return self.mark.waiting


@dataclass(frozen=True, slots=True)
class Backlog:
    """A pipeline's sources by name."""

    sources: Mapping[str, SourceBacklog]

    @property
    def worth_a_run(self) -> bool:
        return any(source.worth_a_run for source in self.sources.values())

    @property
    def files(self) -> int:
        return sum(source.files for source in self.sources.values())

    @property
    def more(self) -> bool:
        return any(source.more for source in self.sources.values())

    @property
    def marks(self) -> dict[str, SourceMark]:
        return {name: source.mark for name, source in self.sources.items()}

    @property
    def left_behind(self) -> tuple[str, ...]:
        return tuple(name for name, source in self.sources.items() if source.left_behind)

    def oldest_secs(self, now_ts: float) -> float:
        """How long the oldest entry has waited; 0 when none does."""
        waiting = [source.oldest_ts for source in self.sources.values() if source.oldest_ts is not None]
        return max(0.0, now_ts - min(waiting)) if waiting else 0.0

    def advanced_since(self, marks: Mapping[str, SourceMark]) -> bool:
        """Whether each source that waited at `marks` has moved on since; False when none of them waited."""
        waited = [
            (mark, self.sources[name].mark) for name, mark in marks.items() if mark.waiting and name in self.sources
        ]
        return bool(waited) and not any(before.same_place(now) for before, now in waited)


def read_backlog(store: ObjectStore, pipeline: PublishedPipeline, seen: Mapping[str, SourceMark]) -> Backlog:
    """`store` is the table's. `seen`: the marks of a run that succeeded; what it looked at and left is settled."""
    return Backlog({source.name: _source_backlog(store, source, seen.get(source.name)) for source in pipeline.sources})


def _source_backlog(store: ObjectStore, source: PublishedSource, seen: SourceMark | None) -> SourceBacklog:
    checkpoint = _checkpoint(store, source)
    manifest = Manifest(store, source.state_prefix, source.id)
    look = _Look(Waiting(checkpoint, _rules(source)), _Seen(manifest, seen))
    try:
        for item in manifest.unconsumed(checkpoint.position, [], at_most=LISTED_SEGMENTS):
            if not look.take(item):
                break
    except BucketMissing:
        pass  # before the table's first write
    return look.found()


def _checkpoint(store: ObjectStore, source: PublishedSource) -> Checkpoint:
    """The copy; without a usable one everything in the manifest counts, and the job finds out what is known."""
    try:
        copy = read_copy(store, Identity(source.pipeline, source.name, source.state_prefix))
    except BucketMissing:
        copy = None  # before the table's first write
    return copy or Checkpoint(pipeline=source.pipeline, source=source.name)


def _rules(source: PublishedSource) -> BatchRules:
    template = source.prefix_template
    return BatchRules(
        folder_of=TimeTemplate(template).folder_of if template is not None else no_folder,
        late_overlap_secs=source.late_overlap_secs,
        on_overwrite=OnOverwrite(source.on_overwrite),
    )


@dataclass(slots=True)
class _Seen:
    """Which segments a successful run has looked at."""

    manifest: Manifest
    mark: SourceMark | None
    _valid: bool | None = None

    def holds(self, segment: Segment) -> bool:
        head = self.mark.head if self.mark else None
        if head is None or segment.number > head[0]:
            return False
        if self._valid is None:  # numbers come again after a wipe, etags do not
            self._valid = [(ref.number, ref.etag) for ref in self.manifest.refs(head[0], at_most=1)] == [head]
        return self._valid


@dataclass(slots=True)
class _Look:
    """A source's unconsumed segments, gone through until enough is known."""

    waiting: Waiting
    seen: _Seen
    segments: int = 0
    segments_seen: int = 0
    counted: int = 0
    more: bool = False
    left: bool = False
    """Something that the run which `seen` speaks of could not have left had it worked."""
    oldest_ts: float | None = None
    head: tuple[int, str] | None = None

    def __post_init__(self) -> None:
        if self.paths:
            self.oldest_ts = self.waiting.checkpoint.last_update_ts
            self.left = self.seen.mark is not None

    @property
    def paths(self) -> Collection[str]:
        return self.waiting.sizes.keys()

    def take(self, item: UnconsumedSegment) -> bool:
        """Whether to go on with the next segment."""
        if self._enough():
            self.more = True
            return False
        segment, in_seen = item.segment, self.seen.holds(item.segment)
        self.segments += 1
        self.segments_seen += in_seen
        self.head = (segment.number, segment.etag)
        if self.waiting.take(item, suspects=not in_seen):
            self.left = self.left or in_seen
            self.oldest_ts = segment.written_ts if self.oldest_ts is None else self.oldest_ts
        return True

    def _enough(self) -> bool:
        if not self.paths:
            return self.segments >= MAX_UNCONSUMED
        self.counted += 1
        return self.counted > COUNTED_SEGMENTS or len(self.paths) >= COUNTED_FILES

    def found(self) -> SourceBacklog:
        checkpoint, position = self.waiting.checkpoint, self.waiting.checkpoint.position
        waiting = bool(self.paths) or self.segments >= MAX_UNCONSUMED
        mark = SourceMark(checkpoint.sequence, position.segment, position.entry, self.head, waiting)
        before = self.seen.mark
        stays = before is not None and before.same_place(mark)
        left = self.left or self.segments_seen >= MAX_UNCONSUMED
        return SourceBacklog(mark, len(self.paths), self.more, self.oldest_ts, left_behind=stays and left)
