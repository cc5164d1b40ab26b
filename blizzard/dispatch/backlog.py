"""A pipeline's backlog, read as far as necessary to decide whether it needs a run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from blizzard.config.published import PublishedPipeline, PublishedSource
from blizzard.dispatch.backlog_size import BacklogCounter
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
"""So many unconsumed segments need a run even if they have no file to ingest, only marks and duplicates."""
COUNTED_SEGMENTS = 16
COUNTED_FILES = 10_000
"""Once a file is pending, at most so many segments and files are counted."""
LISTED_SEGMENTS = 1000


@dataclass(frozen=True, slots=True)
class SourceBacklog:
    """One source. `files` is a lower bound if `more`. `oldest_ts`: when the oldest pending entry was appended."""

    mark: SourceMark
    files: int = 0
    more: bool = False
    oldest_ts: float | None = None
    stuck: bool = False
    """Whether the examined run should have consumed some of this, but has not moved the source's position."""

    @property
    def needs_run(self) -> bool:
        return self.mark.has_backlog


@dataclass(frozen=True, slots=True)
class Backlog:
    """A pipeline's sources by name."""

    sources: Mapping[str, SourceBacklog]

    @property
    def needs_run(self) -> bool:
        return any(source.needs_run for source in self.sources.values())

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
    def stuck(self) -> tuple[str, ...]:
        """Names of the sources that are stuck."""
        return tuple(name for name, source in self.sources.items() if source.stuck)

    def oldest_secs(self, now_ts: float) -> float:
        """Age of the oldest pending entry; 0 if there is none."""
        oldest = [source.oldest_ts for source in self.sources.values() if source.oldest_ts is not None]
        return max(0.0, now_ts - min(oldest)) if oldest else 0.0

    def advanced_since(self, marks: Mapping[str, SourceMark]) -> bool:
        """Whether the position of each source that had a backlog at `marks` has moved since; False if none had one."""
        compared = [
            (mark, self.sources[name].mark) for name, mark in marks.items() if mark.has_backlog and name in self.sources
        ]
        return bool(compared) and not any(before.same_position(now) for before, now in compared)


def read_backlog(store: ObjectStore, pipeline: PublishedPipeline, examined: Mapping[str, SourceMark]) -> Backlog:
    """`store` is the table's. `examined`: the marks of a run that succeeded. Suspects that it examined do not count."""
    return Backlog(
        {source.name: _source_backlog(store, source, examined.get(source.name)) for source in pipeline.sources}
    )


def _source_backlog(store: ObjectStore, source: PublishedSource, examined: SourceMark | None) -> SourceBacklog:
    checkpoint = _checkpoint(store, source)
    manifest = Manifest(store, source.state_prefix, source.id)
    scan = _BacklogScan(BacklogCounter(checkpoint, _rules(source)), _ExaminedSegments(manifest, examined))
    try:
        for item in manifest.unconsumed(checkpoint.position, [], at_most=LISTED_SEGMENTS):
            if not scan.add_segment(item):
                break
    except BucketMissing:
        pass  # before the table's first write
    return scan.result()


def _checkpoint(store: ObjectStore, source: PublishedSource) -> Checkpoint:
    """The checkpoint's copy. Without a readable copy every entry of the manifest counts as pending."""
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
class _ExaminedSegments:
    """The segments that a successful run has examined: those up to the head of its mark."""

    manifest: Manifest
    mark: SourceMark | None
    _valid: bool | None = None

    def contain(self, segment: Segment) -> bool:
        head = self.mark.head if self.mark else None
        if head is None or segment.number > head[0]:
            return False
        if self._valid is None:  # after a manifest is deleted, numbers repeat but etags do not
            self._valid = [(ref.number, ref.etag) for ref in self.manifest.refs(head[0], at_most=1)] == [head]
        return self._valid


@dataclass(slots=True)
class _BacklogScan:
    """Reads a source's unconsumed segments in order until enough is known."""

    counter: BacklogCounter
    examined: _ExaminedSegments
    segments: int = 0
    segments_examined: int = 0
    counted: int = 0
    more: bool = False
    overlooked: bool = False
    """Whether something is pending that a working run would have consumed."""
    oldest_ts: float | None = None
    head: tuple[int, str] | None = None

    def __post_init__(self) -> None:
        if self.paths:
            self.oldest_ts = self.counter.checkpoint.last_update_ts
            self.overlooked = self.examined.mark is not None

    @property
    def paths(self) -> Collection[str]:
        return self.counter.sizes.keys()

    def add_segment(self, item: UnconsumedSegment) -> bool:
        """Whether to continue with the next segment."""
        if self._knows_enough():
            self.more = True
            return False
        segment, examined = item.segment, self.examined.contain(item.segment)
        self.segments += 1
        self.segments_examined += examined
        self.head = (segment.number, segment.etag)
        if self.counter.add_segment(item, suspects=not examined):
            self.overlooked = self.overlooked or examined
            self.oldest_ts = segment.written_ts if self.oldest_ts is None else self.oldest_ts
        return True

    def _knows_enough(self) -> bool:
        if not self.paths:
            return self.segments >= MAX_UNCONSUMED
        self.counted += 1
        return self.counted > COUNTED_SEGMENTS or len(self.paths) >= COUNTED_FILES

    def result(self) -> SourceBacklog:
        checkpoint, position = self.counter.checkpoint, self.counter.checkpoint.position
        has_backlog = bool(self.paths) or self.segments >= MAX_UNCONSUMED
        mark = SourceMark(checkpoint.sequence, position.segment, position.entry, self.head, has_backlog)
        before = self.examined.mark
        unchanged = before is not None and before.same_position(mark)
        overlooked = self.overlooked or self.segments_examined >= MAX_UNCONSUMED
        return SourceBacklog(mark, len(self.paths), self.more, self.oldest_ts, stuck=unchanged and overlooked)
