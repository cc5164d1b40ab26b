"""Settling by the job itself, in case sweeps are late: it lists the partitions whose files it tracks."""

from dataclasses import dataclass
from itertools import chain

from blizzard.manifest.segments import Entry, FoundBy, SettleMark
from blizzard.state.checkpoint import FINISHED
from blizzard.state.watermark import SourceProgress, join_path, prefix_of, split_path
from blizzard.storage.base import ObjectStore
from blizzard.sweep.sweeper import SweepRules, entry_of


@dataclass(slots=True)
class BatchCapacity:
    """How many more files and bytes a batch can take. A file larger than a batch is taken alone and read in slices."""

    files: int = 0
    bytes: int = 0
    unused: bool = True

    def take(self, size: int) -> bool:
        """Use capacity for a file of this size. False if there is not enough."""
        if self.files < 1 or size > self.bytes:
            return False
        self.files, self.bytes, self.unused = self.files - 1, self.bytes - size, False
        return True

    def take_alone(self) -> bool:
        """Use all capacity for one file of any size. False if any capacity is used already."""
        alone = self.unused and self.files > 0
        if alone:
            self.files, self.unused = 0, False
        return alone


def settle_by_listing(
    progress: SourceProgress,
    source: ObjectStore,
    rules: SweepRules,
    limit: int,
    *,
    arriving: frozenset[str] = frozenset(),
    capacity: BatchCapacity | None = None,
) -> list[Entry]:
    """Advance watermarks by listing, fullest partition first, until at most `limit` files are tracked.

    A watermark advances over committed files, over `arriving` files that the current commit will have, and over the
    returned files, which have to be in that commit too: as many as `capacity` allows. It stops before any other file.
    There is no settle delay. A file that turns up below the watermark later is a suspect.
    """
    by_partition: dict[str, set[str]] = {}
    for path in chain(arriving, (path for path, read in progress.files.items() if read == FINISHED)):
        partition, name = split_path(path)
        by_partition.setdefault(partition, set()).add(name)
    unsettled = ((p, set(progress.unsettled_names(p, names))) for p, names in by_partition.items())
    tracked = {partition: names for partition, names in unsettled if names}
    remaining = sum(map(len, tracked.values()))
    capacity = capacity or BatchCapacity()
    found: list[Entry] = []
    for partition, names in sorted(tracked.items(), key=lambda item: (-len(item[1]), item[0])):
        if remaining <= limit:
            break
        found += _settle_partition(progress, partition, names, source, rules, capacity)
        remaining -= len(names) - len(progress.unsettled_names(partition, names))
    return found


def _settle_partition(
    progress: SourceProgress,
    partition: str,
    known: set[str],
    source: ObjectStore,
    rules: SweepRules,
    capacity: BatchCapacity,
) -> list[Entry]:
    """`known`: names of committed or arriving files of the partition."""
    base = through = progress.watermarks.get(partition)
    prefix = prefix_of(partition)
    found: list[Entry] = []
    for info in source.list(prefix, start_after=join_path(partition, base or ""), recursive=False):
        name = info.key[len(prefix) :]
        if name not in known and rules.matches(info.key):
            if not capacity.take(info.size):
                found += [entry_of(info, FoundBy.SWEEP)] if capacity.take_alone() else []
                break
            found.append(entry_of(info, FoundBy.SWEEP))
        through = name
    else:
        # Everything was listed: tracked files after the last listed one were deleted since.
        through = max(through or "", *known)
    if through is not None and through != base:
        progress.advance_watermark(SettleMark(partition, base, through))
    return found
