"""Where the sweeps of a source start, and how their marks move that.

A watermark is the name of the last file of a partition up to which sweeps have listed all files, and the job has
settled them. A closed partition is no longer listed. Which single files are settled is in the ledger.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType

from blizzard.manifest.segments import Closing, SettleMark, Sweep
from blizzard.state.checkpoint import FINISHED, Checkpoint, WatermarkState

FolderOf = Callable[[str], str | None]
"""Maps a partition to its dated folder; None if it has no date. Only dated partitions are ever closed."""


def no_folder(partition: str) -> str | None:
    """The FolderOf of a source without a partition filter: no partition has a date."""
    return None


def split_path(path: str) -> tuple[str, str]:
    """A path's partition (empty at the root) and file name.

    A key may begin with `/`. Its partition then keeps an additional `/` in front, since otherwise `/name` and `name`
    would both be in the root partition.
    """
    folder, slash, name = path.rpartition("/")
    if folder and folder[0] != "/":
        return folder, name
    return partition_from_prefix(folder + slash), name


def join_path(partition: str, name: str) -> str:
    """The inverse of `split_path`."""
    return prefix_of(partition) + name


def partition_from_prefix(prefix: str) -> str:
    """The partition whose keys begin with `prefix`, which is empty or ends in `/`."""
    return ("/" if prefix.startswith("/") else "") + prefix.removesuffix("/")


def prefix_of(partition: str) -> str:
    """The key prefix of the partition's files. The inverse of `partition_from_prefix`."""
    return f"{partition.removeprefix('/')}/" if partition else ""


@dataclass(slots=True)
class SourceProgress:
    """How far a source is swept. Made from a checkpoint, advanced by the marks of sweeps, and written to the next
    checkpoint.

    `watermarks` and `files` are as in Checkpoint: file names by partition, and the tracked files.
    """

    watermarks: dict[str, str]
    files: dict[str, int]
    closed_through: str | None
    late_swept_ts: float | None
    folder_of: FolderOf
    before_ledger_ts: float | None = None
    changed: bool = False
    """Whether a mark, a closing or a late sweep changed anything."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, folder_of: FolderOf) -> "SourceProgress":
        return cls(
            dict(checkpoint.partition_watermarks),
            dict(checkpoint.files),
            checkpoint.closed_through,
            checkpoint.late_swept_ts,
            folder_of,
            checkpoint.before_ledger_ts,
        )

    def is_closed(self, partition: str) -> bool:
        """Whether no sweep lists the partition any more."""
        if self.closed_through is None:
            return False
        return self._is_at_or_before(partition, self.closed_through)

    def is_settled(self, path: str) -> bool:
        """Whether the path is at or below its partition's watermark, or in a closed partition."""
        partition, name = split_path(path)
        watermark = self.watermarks.get(partition)
        return (watermark is not None and name <= watermark) or self.is_closed(partition)

    def apply_sweep(self, sweep: Sweep) -> None:
        """Apply the marks and the closing of a sweep, and record the time of a late sweep.

        Marks and closings that do not connect to the current state prove nothing and are ignored. If a cold closing is
        ignored, so is the late sweep's time: that sweep did not list what the closing would have excluded.
        """
        for mark in sweep.marks:
            self.advance_watermark(mark)
        closed = sweep.closing is None or self.close_partitions(sweep.closing)
        cold_closing_ignored = sweep.closing is not None and sweep.closing.cold and not closed
        if sweep.late_swept_ts is None or cold_closing_ignored:
            return
        if sweep.late_swept_ts > (self.late_swept_ts or 0.0):
            self.late_swept_ts = sweep.late_swept_ts
            self.changed = True

    def advance_watermark(self, mark: SettleMark) -> None:
        """Move the partition's watermark to the end of the mark.

        The watermark stays if the mark starts above it (files in between are unknown), ends at or below it, or belongs
        to a closed partition.
        """
        current = self.watermarks.get(mark.partition)
        connects = mark.after is None or (current is not None and current >= mark.after)
        if connects and not self.is_closed(mark.partition) and (current is None or mark.through > current):
            self.watermarks[mark.partition] = mark.through
            self.changed = True

    def close_partitions(self, closing: Closing) -> bool:
        """Close all partitions up to the closing and drop their watermarks. False if nothing was closed, because the
        closing does not connect to the current state."""
        if self.closed_through is not None and closing.through <= self.closed_through:
            return True
        if not self.connects(closing):
            return False
        self.watermarks = {p: name for p, name in self.watermarks.items() if not self._is_within(p, closing)}
        self.closed_through = closing.through
        self.changed = True
        return True

    def connects(self, closing: Closing) -> bool:
        """Whether the closing starts at or before the end of what is closed already. A cold closing connects only if
        nothing is closed and no partition within it has a watermark."""
        if closing.cold:
            return self.closed_through is None and not any(self._is_within(p, closing) for p in self.watermarks)
        return closing.after is None or (self.closed_through is not None and self.closed_through >= closing.after)

    def _is_within(self, partition: str, closing: Closing) -> bool:
        return self._is_at_or_before(partition, closing.through)

    def _is_at_or_before(self, partition: str, limit: str) -> bool:
        """Whether the partition's dated folder is at or before `limit`, or below it, which happens after the template
        was changed to finer folders."""
        folder = self.folder_of(partition)
        return folder is not None and (folder <= limit or folder.startswith(f"{limit}/"))

    def forget_settled_files(self) -> None:
        """Stop tracking finished files that are settled."""
        self.files = {p: read for p, read in self.files.items() if read != FINISHED or not self.is_settled(p)}

    def to_checkpoint(self, base: Checkpoint, *, active: bool) -> Checkpoint:
        """`base` with this progress in it. `active`: whether the batch had files."""
        highest = max((join_path(p, name) for p, name in self.watermarks.items()), default=None)
        watermark = max(filter(None, (highest, base.watermark)), default=None)
        return replace(
            base,
            state=_watermark_state(watermark, active=active),
            watermark=watermark,
            partition_watermarks=MappingProxyType(dict(self.watermarks)),
            closed_through=self.closed_through,
            late_swept_ts=self.late_swept_ts,
            files=MappingProxyType(dict(self.files)),
        )


def _watermark_state(watermark: str | None, *, active: bool) -> WatermarkState:
    if watermark is None:
        return WatermarkState.INITIAL
    return WatermarkState.ACTIVE if active else WatermarkState.IDLE
