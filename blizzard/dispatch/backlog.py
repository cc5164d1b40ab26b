"""A pipeline's backlog, read as far as necessary to decide whether it needs a run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from blizzard.config.published import PublishedPipeline, PublishedSource
from blizzard.dispatch.backlog_size import BacklogCounter, backlog_rules
from blizzard.dispatch.run_records import SourcePosition
from blizzard.dispatch.topic_backlog import RunTimes, TopicBacklog, topic_backlog
from blizzard.errors import BucketMissing
from blizzard.ledger.settled_files import SettledFiles
from blizzard.log import silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Segment, UnconsumedSegment
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore

MAX_UNCONSUMED = 60
"""This many unconsumed segments need a run even if they hold no file to ingest, only marks and duplicates."""
PARALLEL_READS = 8
"""Of the ledger, which is read if a segment has files that may be new."""
COUNTED_SEGMENTS = 16
COUNTED_FILES = 10_000
"""Once a file is pending, no more than this many segments and files are counted."""
LISTED_SEGMENTS = 1000


@dataclass(frozen=True, slots=True)
class SourceBacklog:
    """One source. `files` is a lower bound if `truncated`. `oldest_ts`: when the oldest pending entry was appended."""

    position: SourcePosition
    files: int = 0
    truncated: bool = False
    """Whether counting stopped before the end of the manifest."""
    oldest_ts: float | None = None
    stuck: bool = False
    """Whether the last run should have consumed some of this backlog but did not move the source's position."""

    @property
    def needs_run(self) -> bool:
        return self.position.has_backlog


@dataclass(frozen=True, slots=True)
class Backlog:
    """A pipeline's sources by name: those of files, and those of topics."""

    sources: Mapping[str, SourceBacklog]
    topics: Mapping[str, TopicBacklog] = field(default_factory=dict)

    @property
    def needs_run(self) -> bool:
        return any(source.needs_run for source in self._all.values())

    @property
    def _all(self) -> Mapping[str, SourceBacklog | TopicBacklog]:
        return {**self.sources, **self.topics}

    @property
    def messages(self) -> int:
        """As of TopicBacklog."""
        return sum(source.messages for source in self.topics.values())

    @property
    def files(self) -> int:
        return sum(source.files for source in self.sources.values())

    @property
    def truncated(self) -> bool:
        return any(source.truncated for source in self.sources.values())

    @property
    def positions(self) -> dict[str, SourcePosition]:
        return {name: source.position for name, source in self._all.items()}

    @property
    def stuck(self) -> tuple[str, ...]:
        """Names of the sources that are stuck."""
        return tuple(name for name, source in self.sources.items() if source.stuck)

    def oldest_secs(self, now_ts: float) -> float:
        """Age of the oldest pending entry, or of what topics have waited for; 0 if there is none."""
        oldest = [source.oldest_ts for source in self._all.values() if source.oldest_ts is not None]
        return max(0.0, now_ts - min(oldest)) if oldest else 0.0

    def advanced_since(self, positions: Mapping[str, SourcePosition]) -> bool:
        """Whether every source with a backlog at `positions` has consumed something since. False if none had one."""
        now = self.positions
        compared = [(before, now[name]) for name, before in positions.items() if before.has_backlog and name in now]
        return bool(compared) and not any(before.same_position(after) for before, after in compared)


def read_backlog(
    store: ObjectStore, pipeline: PublishedPipeline, examined: Mapping[str, SourcePosition], times: RunTimes
) -> Backlog:
    """`store`: the table's. `examined`: the positions at the start of a run that succeeded. Suspects that the run has
    examined do not count. `times`: of the last run, for topics."""
    return Backlog(
        {source.name: _source_backlog(store, source, examined.get(source.name)) for source in pipeline.sources},
        {source.name: topic_backlog(store, source, examined.get(source.name), times) for source in pipeline.topics},
    )


def _source_backlog(store: ObjectStore, source: PublishedSource, examined: SourcePosition | None) -> SourceBacklog:
    checkpoint = _checkpoint(store, source)
    manifest = Manifest(store, source.state_prefix, source.id)
    rules = backlog_rules(
        prefix_template=source.prefix_template,
        late_overlap_secs=source.late_overlap_secs,
        on_overwrite=source.on_overwrite,
    )
    settled = SettledFiles(store, _identity(source), checkpoint, silent, parallel=PARALLEL_READS)
    scan = _BacklogScan(BacklogCounter(checkpoint, rules, settled), _ExaminedSegments(manifest, examined))
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
        copy = read_copy(store, _identity(source))
    except BucketMissing:
        copy = None  # before the table's first write
    return copy or Checkpoint(pipeline=source.pipeline, source=source.name)


def _identity(source: PublishedSource) -> SourceIdentity:
    return SourceIdentity(source.pipeline, source.name, source.state_prefix)


@dataclass(slots=True)
class _ExaminedSegments:
    """The segments that a successful run has examined: those up to the head of the manifest at its start."""

    manifest: Manifest
    at_start: SourcePosition | None
    """The position at the start of the run; None: there was no successful run."""
    _valid: bool | None = None

    def contain(self, segment: Segment) -> bool:
        head = self.at_start.head if self.at_start else None
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
    truncated: bool = False
    not_consumed_by_run: bool = False
    """Whether something is pending that the last run should have consumed."""
    oldest_ts: float | None = None
    head: tuple[int, str] | None = None

    def __post_init__(self) -> None:
        if self.paths:
            self.oldest_ts = self.counter.checkpoint.last_update_ts
            self.not_consumed_by_run = self.examined.at_start is not None

    @property
    def paths(self) -> Collection[str]:
        return self.counter.sizes.keys()

    def add_segment(self, item: UnconsumedSegment) -> bool:
        """Whether to continue with the next segment."""
        if self._knows_enough():
            self.truncated = True
            return False
        segment, examined = item.segment, self.examined.contain(item.segment)
        self.segments += 1
        self.segments_examined += examined
        self.head = (segment.number, segment.etag)
        if self.counter.add_segment(item, suspects=not examined):
            self.not_consumed_by_run = self.not_consumed_by_run or examined
            self.oldest_ts = segment.written_ts if self.oldest_ts is None else self.oldest_ts
        return True

    def _knows_enough(self) -> bool:
        if not self.paths:
            return self.segments >= MAX_UNCONSUMED
        self.counted += 1
        return self.counted > COUNTED_SEGMENTS or len(self.paths) >= COUNTED_FILES

    def result(self) -> SourceBacklog:
        checkpoint, before = self.counter.checkpoint, self.examined.at_start
        has_backlog = bool(self.paths) or self.segments >= MAX_UNCONSUMED
        segment, entry = checkpoint.position.segment, checkpoint.position.entry
        position = SourcePosition(checkpoint.sequence, segment, entry, self.head, has_backlog)
        unchanged = before is not None and before.same_position(position)
        not_consumed = self.not_consumed_by_run or self.segments_examined >= MAX_UNCONSUMED
        return SourceBacklog(
            position, len(self.paths), self.truncated, self.oldest_ts, stuck=unchanged and not_consumed
        )
