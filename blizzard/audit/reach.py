"""What becomes of an object that is neither settled nor announced: whether the next sweeps find it by themselves."""

from dataclasses import dataclass
from enum import StrEnum

from blizzard.state.checkpoint import FINISHED
from blizzard.state.watermark import SourceProgress, split_path
from blizzard.storage.base import ObjectInfo
from blizzard.sweep.rules import SweepRules, cold_closing


class Fate(StrEnum):
    COMMITTED = "committed"
    DEAD_LETTERED = "dead_lettered"
    SKIPPED = "skipped"
    PENDING = "pending"
    MISSING = "missing"


PATTERN, PARTITION_FILTER = "pattern", "partition_filter"
"""Rules by which objects are skipped."""


@dataclass(frozen=True, slots=True)
class Reach:
    """`progress`: of the checkpoint, with the marks of unconsumed segments. `listed_ts`: when the listing began.
    `first_swept_ts`: when the source's first sweep began (None: unknown; infinity: it is still to come).
    `many_folders`: whether sweeps take turns with quiet folders."""

    progress: SourceProgress
    rules: SweepRules
    listed_ts: float
    first_swept_ts: float | None
    many_folders: bool = False

    def fate(self, info: ObjectInfo) -> tuple[Fate, str | None]:
        """With the rule, if one skips it."""
        partition, name = split_path(info.key)
        if info.modified_ts >= self.listed_ts - self.rules.settle_delay_secs:
            return Fate.PENDING, None  # it has just arrived: its event may still be on its way
        if self.progress.is_closed(partition):
            if self._was_closed_from_the_start(partition, info):
                return Fate.SKIPPED, PARTITION_FILTER
            return Fate.MISSING, None
        if name > self.progress.watermarks.get(partition, ""):
            return Fate.PENDING, None
        return (Fate.PENDING if self.late_sweep_finds(info) else Fate.MISSING), None

    def late_sweep_finds(self, info: ObjectInfo) -> bool:
        """Whether a late sweep will look at the object, or has not begun since it changed."""
        if self.progress.is_closed(split_path(info.key)[0]):
            return False
        late_ts = self.progress.late_swept_ts
        left_out_secs = self.rules.left_out_secs if self.many_folders else 0.0
        return late_ts is None or info.modified_ts >= late_ts - self.rules.late_overlap_secs - left_out_secs

    def is_settled_from_before(self, info: ObjectInfo) -> bool:
        """Settled by a state from before the ledger, which may not have the file."""
        before_ts = self.progress.before_ledger_ts
        if before_ts is None or info.modified_ts >= before_ts - self.rules.late_overlap_secs:
            return False
        partition, name = split_path(info.key)
        is_finished = self.progress.files.get(info.key) == FINISHED
        return is_finished or name <= self.progress.watermarks.get(partition, "")

    def _was_closed_from_the_start(self, partition: str, info: ObjectInfo) -> bool:
        """The first sweep lists the folders of `lookback`, and closes those before."""
        if self.first_swept_ts is None or info.modified_ts >= self.first_swept_ts:
            return False
        folder = self.rules.folder_of(partition)
        through = self.rules.before_window(min(self.first_swept_ts, self.listed_ts))
        return folder is not None and through is not None and (folder <= through or folder.startswith(f"{through}/"))


def reach_of(
    progress: SourceProgress,
    rules: SweepRules,
    *,
    listed_ts: float,
    first_swept_ts: float | None,
    many_folders: bool = False,
) -> Reach:
    """Of a source that was never swept, with the closing that its first sweep will begin with."""
    closing = cold_closing(progress, rules, listed_ts)
    if closing is not None and progress.close_partitions(closing):
        first_swept_ts = float("inf")
    return Reach(progress, rules, listed_ts, first_swept_ts, many_folders)
