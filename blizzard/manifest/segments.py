"""What a segment of the pending manifest holds, and the position up to which segments are consumed."""

from dataclasses import dataclass
from enum import StrEnum


class FoundBy(StrEnum):
    """What added an entry to the manifest: the collector, a watermark sweep, or a late sweep.

    `audit --repair` adds LATE ones, too: programs of earlier versions cannot read segments with any other.
    """

    EVENT = "event"
    SWEEP = "sweep"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file to ingest. `event_ts` (Unix seconds) is the time of the event, or of the last modification if a sweep
    found the file."""

    path: str
    size: int
    etag: str
    event_ts: float
    found_by: FoundBy = FoundBy.EVENT
    version_id: str | None = None
    sequencer: str | None = None


@dataclass(frozen=True, slots=True)
class SettleMark:
    """A sweep listed `partition` completely from `after` (exclusive; None: from its start) through `through`.

    Both are file names. Every listed file is in the manifest before the mark, or was in the state already.
    """

    partition: str
    after: str | None
    through: str


@dataclass(frozen=True, slots=True)
class Closing:
    """Every partition up to and including folder `through` is completely listed, and no new files arrive there.

    `after` is the `closed_through` that the sweep started from. `cold`: the source's first sweep closes everything
    before the lookback window.
    """

    after: str | None
    through: str
    cold: bool = False


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep stores in a segment in addition to entries."""

    marks: tuple[SettleMark, ...] = ()
    closing: Closing | None = None
    late_swept_ts: float | None = None
    relies_on: int = 0
    """Lowest number of the segments whose entries the sweep counted as known. If one of these segments was lost before
    it was consumed, the marks are invalid."""
    chain: str | None = None
    """The chain of those segments (see Position), since a deleted manifest restarts at 0; None if there were none."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One numbered object of the manifest."""

    number: int
    entries: tuple[Entry, ...]
    sweep: Sweep | None
    previous: str | None
    """Etag of the previous segment as the writer saw it; None if there was none."""
    writer_id: str
    written_ts: float
    etag: str = ""


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A segment as a listing describes it."""

    number: int
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class Position:
    """The next entry to consume: index `entry` of segment `segment`.

    `etag` belongs to the segment last touched: `segment` itself if `entry` > 0, else the one before it. All segments
    from `unbroken_since` up to here were consumed without a gap. `chain` identifies this run of segments by the etags
    of the segment before it and of its first segment: after a manifest is deleted, numbers repeat but etags do not.
    """

    segment: int = 0
    entry: int = 0
    etag: str | None = None
    unbroken_since: int = 0
    chain: str | None = None

    @property
    def last_touched(self) -> int:
        return self.segment if self.entry else self.segment - 1


@dataclass(frozen=True, slots=True)
class UnconsumedSegment:
    """A segment that is not completely consumed: its entries from index `first_entry` on."""

    segment: Segment
    first_entry: int
    unbroken_since: int
    chain: str

    @property
    def marks_are_valid(self) -> bool:
        """Whether all segments that the sweep relies on were consumed."""
        sweep = self.segment.sweep
        return sweep is not None and sweep.relies_on >= self.unbroken_since and sweep.chain in (None, self.chain)

    def position_at(self, entry: int) -> Position:
        """The position after the first `entry` entries of the segment. After all of them it is the next segment."""
        number, total = self.segment.number, len(self.segment.entries)
        if entry < total:
            etag = self.segment.etag if entry else self.segment.previous
            return Position(number, entry, etag, self.unbroken_since, self.chain)
        return Position(number + 1, 0, self.segment.etag, self.unbroken_since, self.chain)
