"""The walk over a source's folders, and which of them a sweep leaves out because they are quiet.

A source may have a folder for each customer, of which few get files on a given day. Listing all of them in each sweep
would cost a request for each folder, and another one to look for folders below it. The ledger tells when a folder last
had a file. So an ordinary sweep leaves quiet folders out, and late sweeps take turns with them.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from zlib import crc32

from blizzard.ledger.run_index import PartitionStats
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.watermark import SourceProgress, partition_from_prefix, prefix_of, split_path
from blizzard.storage.base import ObjectStore
from blizzard.sweep.rules import SweepRules


@dataclass(slots=True)
class QuietFolders:
    """The folders of a source by their last file: a folder is quiet if neither it nor a folder below it has had one for
    `quiet_secs`. Prefixes are empty or end in `/`.

    `due_since_ts`: late sweeps visit each quiet folder once per `quiet_secs`, at a time that its name decides. Those
    whose time has come since then are visited (None: all of them; infinity: none, in ordinary sweeps).
    """

    now_ts: float
    quiet_secs: float
    due_since_ts: float | None
    newest_ts: dict[str, float] = field(default_factory=dict)
    """By prefix, the time of the newest file in the folder or below it."""
    with_files: set[str] = field(default_factory=set)
    with_folders: set[str] = field(default_factory=set)
    left_out: int = 0
    """How many folders the walk has left out."""

    def add(self, prefix: str, newest_ts: float) -> None:
        self.newest_ts[prefix] = max(newest_ts, self.newest_ts.get(prefix, newest_ts))
        while prefix:
            prefix = prefix[: prefix.rstrip("/").rfind("/") + 1]
            self.with_folders.add(prefix)
            self.newest_ts[prefix] = max(newest_ts, self.newest_ts.get(prefix, newest_ts))

    def is_quiet(self, prefix: str) -> bool:
        """False for a folder of which nothing is known: it is new."""
        newest_ts = self.newest_ts.get(prefix)
        return bool(prefix) and newest_ts is not None and newest_ts < self.now_ts - self.quiet_secs

    def leaves_out(self, prefix: str) -> bool:
        """Whether this sweep does not look at the folder, nor at those below it."""
        leaves_out = self.is_quiet(prefix) and not self._is_due(prefix)
        self.left_out += leaves_out
        return leaves_out

    def lists(self, prefix: str) -> bool:
        """Whether this sweep lists the folder's files. An ordinary one does not if it only ever had folders."""
        is_ordinary = self.due_since_ts == float("inf")
        return not is_ordinary or prefix in self.with_files or prefix not in self.with_folders

    def descends(self, prefix: str) -> bool:
        """Whether this sweep looks for folders below it. An ordinary one does not if it only ever had files."""
        is_ordinary = self.due_since_ts == float("inf")
        return not is_ordinary or prefix in self.with_folders or prefix not in self.with_files

    def _is_due(self, prefix: str) -> bool:
        if self.due_since_ts is None:
            return True
        if self.due_since_ts == float("inf"):
            return False
        phase_secs = crc32(prefix.encode("utf-8", "surrogatepass")) / 2**32 * self.quiet_secs
        return (self.now_ts - phase_secs) // self.quiet_secs > (self.due_since_ts - phase_secs) // self.quiet_secs


def quiet_folders(
    partitions: Mapping[str, PartitionStats] | None,
    unconsumed: Collection[tuple[str, str]],
    rules: SweepRules,
    *,
    now_ts: float,
    due_since_ts: float | None,
) -> QuietFolders | None:
    """`partitions`: what the ledger knows of them (None: do without). `unconsumed`: entries (path and etag) that are
    not ingested yet. Dated partitions are never quiet, since they are closed some day."""
    if partitions is None:
        return None
    folders = QuietFolders(now_ts, rules.quiet_secs, due_since_ts)
    for partition, stats in partitions.items():
        prefix = prefix_of(partition)
        folders.with_files.add(prefix)
        folders.add(prefix, stats.newest_ms / 1000 if rules.folder_of(partition) is None else now_ts)
    for partition in {split_path(path)[0] for path, _ in unconsumed}:
        folders.add(prefix_of(partition), now_ts)
    return folders


def without_quiet_partitions(
    checkpoint: Checkpoint,
    partitions: Mapping[str, PartitionStats],
    active: Collection[str],
    rules: SweepRules,
    now_ts: float,
) -> Checkpoint:
    """The checkpoint without the watermarks of partitions that have had no new file for `quiet_secs`: sweeps leave them
    out, or list them whole. `partitions`: what the ledger knows of them; `active`: those that the next commit has files
    of. A state from before the ledger keeps all watermarks, since only they settle its first files."""
    if checkpoint.before_ledger_ts is not None or not rules.quiet_secs:
        return checkpoint
    limit_ms = (now_ts - rules.quiet_secs) * 1000
    quiet = {
        partition
        for partition, stats in partitions.items()
        if stats.newest_ms < limit_ms and partition not in active and rules.folder_of(partition) is None
    }
    kept = {p: name for p, name in checkpoint.partition_watermarks.items() if p not in quiet}
    return replace(checkpoint, partition_watermarks=MappingProxyType(kept))


def open_partitions(
    source: ObjectStore, progress: SourceProgress, start: str = "", quiet: QuietFolders | None = None
) -> Iterator[str]:
    """Every partition that is not closed, from `start` (inclusive) on, without those that `quiet` leaves out. A
    partition comes before those below it, which come in key order.

    Partitions are found by listing folders, not files. `start` comes first even if it does not exist any more.
    """
    return _walk_folders(source, progress, quiet, "", prefix_of(start))


def _walk_folders(
    source: ObjectStore, progress: SourceProgress, quiet: QuietFolders | None, prefix: str, start: str
) -> Iterator[str]:
    partition = partition_from_prefix(prefix)
    if progress.is_closed(partition):
        return
    # Whoever visits a quiet folder visits all below it. So does whoever resumes there.
    below = None if quiet is not None and quiet.is_quiet(prefix) else quiet
    after = ""
    if len(prefix) < len(start):
        after = start[: start.index("/", len(prefix)) + 1]
        yield from _walk_folders(source, progress, below, after, start)
    elif quiet is not None and quiet.leaves_out(prefix):
        return
    elif quiet is None or quiet.lists(prefix):
        yield partition
    if quiet is None or quiet.descends(prefix):
        for child in source.list_folders(prefix, start_after=after):
            yield from _walk_folders(source, progress, below, child, "")
