"""What a sweep did."""

from dataclasses import dataclass
from enum import StrEnum

from blizzard.sweep.late_cursor import LateCursor
from blizzard.sweep.unordered import UnorderedReport


class SweepKind(StrEnum):
    WATERMARK = "watermark"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did. `missed`: how many entries it appended, since no event had announced the files yet. `listed`:
    how many objects it saw."""

    kind: SweepKind
    started_ts: float
    listed: int
    missed: int
    missed_bytes: int
    partitions: int
    segments: tuple[int, ...]
    complete: bool
    """False if time ran out. The next watermark sweep continues from this one's marks, a late sweep from `cursor`."""
    unannounced: int = 0
    """How many of `missed` have an overdue event: found by a watermark sweep, older than the settle delay plus
    EVENT_GRACE_SECS, and modified after events were first expected."""
    cursor: LateCursor | None = None
    """Where an incomplete late sweep stopped."""
    unordered: UnorderedReport | None = None
    """Of a watermark sweep, and of active partitions; None if it did not look for unordered ones, or did not get that
    far."""
    quiet: int = 0
    """How many of `partitions` it left out because they are quiet."""
    inventory: str | None = None
    """The folder of the S3 Inventory report that a late sweep read. None: it listed the source."""
    counts_as_late: bool = False
    """Of a watermark sweep: it listed the whole source, so a late sweep would find the same files."""
    unordered_idle: UnorderedReport | None = None
    """As `unordered`, of the idle partitions that were left in this round; of none between two rounds."""
