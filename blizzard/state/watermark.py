"""Settling: how far each partition is known to be complete, and what a sweep's marks do to that."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

from blizzard.manifest.segments import Closing, SettleMark, Sweep
from blizzard.state.checkpoint import FINISHED, Checkpoint, WatermarkState

FolderOf = Callable[[str], str | None]


def no_folder(partition: str) -> str | None:
    """For a source without a partition filter: nothing is dated, so nothing ever closes."""
    return None


def split(path: str) -> tuple[str, str]:
    """A path's partition (empty at the root) and file name.

    A key may begin with `/`: such a partition keeps one more `/` in front, or `/name` and `name` would share the root.
    """
    folder, slash, name = path.rpartition("/")
    if folder and folder[0] != "/":
        return folder, name
    return partition_of(folder + slash), name


def join(partition: str, name: str) -> str:
    return prefix_of(partition) + name


def partition_of(prefix: str) -> str:
    """The partition whose files have this prefix, which is empty or ends in `/`."""
    return ("/" if prefix.startswith("/") else "") + prefix.removesuffix("/")


def prefix_of(partition: str) -> str:
    """What the keys of the partition's files begin with: the inverse of `partition_of`."""
    return f"{partition.removeprefix('/')}/" if partition else ""


@dataclass(slots=True)
class Settling:
    """A state that marks are being applied to; made from a checkpoint and turned into the next one.

    `folder_of` maps a partition to the dated folder it lies in (None: undated, it never closes).
    """

    watermarks: dict[str, str]
    files: dict[str, int]
    closed_through: str | None
    late_swept_ts: float | None
    folder_of: FolderOf
    moved: bool = False
    """Whether a mark has changed anything."""

    @classmethod
    def of(cls, checkpoint: Checkpoint, folder_of: FolderOf) -> "Settling":
        return cls(
            dict(checkpoint.partition_watermarks),
            dict(checkpoint.files),
            checkpoint.closed_through,
            checkpoint.late_swept_ts,
            folder_of,
        )

    def closed(self, partition: str) -> bool:
        """Whether the partition is closed: no sweep lists it any more, only the table knows its files."""
        if self.closed_through is None:
            return False
        return self._through(partition, self.closed_through)

    def may_be_forgotten(self, partition: str) -> bool:
        """Whether it may have had a watermark that a closing dropped, though today's template does not call it closed:
        the source's template was changed or taken away since."""
        return self.closed_through is not None and self.folder_of(partition) is None

    def covers(self, path: str) -> bool:
        """Whether the path lies at or below its partition's watermark, or in a closed partition."""
        partition, name = split(path)
        watermark = self.watermarks.get(partition)
        return (watermark is not None and name <= watermark) or self.closed(partition)

    def not_covered(self, partition: str, names: Iterable[str]) -> list[str]:
        """Those names of one partition that `covers` does not hold for."""
        if self.closed(partition):
            return []
        watermark = self.watermarks.get(partition)
        return [*names] if watermark is None else [name for name in names if name > watermark]

    def apply(self, sweep: Sweep) -> None:
        """Take over what a sweep settled. Marks that start above our watermark prove nothing to us and are left out."""
        for mark in sweep.marks:
            self.settle(mark)
        closed = sweep.closing is None or self.close(sweep.closing)
        left_out = sweep.closing is not None and sweep.closing.cold and not closed
        if sweep.late_swept_ts is not None and sweep.late_swept_ts > (self.late_swept_ts or 0.0) and not left_out:
            self.late_swept_ts = sweep.late_swept_ts
            self.moved = True

    def settle(self, mark: SettleMark) -> None:
        current = self.watermarks.get(mark.partition)
        joins = mark.after is None or (current is not None and current >= mark.after)
        if not joins or self.closed(mark.partition) or (current is not None and mark.through <= current):
            return
        if not any(self._blocks(path, mark, current) for path in self._in_progress()):
            self.watermarks[mark.partition] = mark.through
            self.moved = True

    def _blocks(self, path: str, mark: SettleMark, current: str | None) -> bool:
        partition, name = split(path)
        return partition == mark.partition and name <= mark.through and (current is None or name > current)

    def _in_progress(self) -> Iterable[str]:
        return (path for path, read in self.files.items() if read != FINISHED)

    def close(self, closing: Closing) -> bool:
        """Whether everything up to the closing is closed now."""
        if self.closed_through is not None and closing.through <= self.closed_through:
            return True
        if not self.joins(closing) or any(self._within(split(path)[0], closing) for path in self._in_progress()):
            return False
        self.watermarks = {p: name for p, name in self.watermarks.items() if not self._within(p, closing)}
        self.closed_through = closing.through
        self.moved = True
        return True

    def joins(self, closing: Closing) -> bool:
        """Whether the closing begins where this state ends. A cold one does where nothing of it was ever settled."""
        if closing.cold:
            return self.closed_through is None and not any(self._within(p, closing) for p in self.watermarks)
        return closing.after is None or (self.closed_through is not None and self.closed_through >= closing.after)

    def _within(self, partition: str, closing: Closing) -> bool:
        return self._through(partition, closing.through)

    def _through(self, partition: str, limit: str) -> bool:
        """Whether the partition's folder is at or before `limit`, or below it after the template became finer."""
        folder = self.folder_of(partition)
        return folder is not None and (folder <= limit or folder.startswith(f"{limit}/"))

    def prune(self) -> None:
        """Forget the finished files that a watermark has passed."""
        self.files = {p: read for p, read in self.files.items() if read != FINISHED or not self.covers(p)}

    def onto(self, checkpoint: Checkpoint, *, active: bool) -> Checkpoint:
        """The checkpoint with this state in it; `active` when the batch brought files."""
        highest = max((join(p, name) for p, name in self.watermarks.items()), default=None)
        watermark = max(filter(None, (highest, checkpoint.watermark)), default=None)
        return replace(
            checkpoint,
            state=_activity(watermark, active=active),
            watermark=watermark,
            partition_watermarks=MappingProxyType(dict(self.watermarks)),
            closed_through=self.closed_through,
            late_swept_ts=self.late_swept_ts,
            files=MappingProxyType(dict(self.files)),
        )


def _activity(watermark: str | None, *, active: bool) -> WatermarkState:
    if watermark is None:
        return WatermarkState.INITIAL
    return WatermarkState.ACTIVE if active else WatermarkState.IDLE
