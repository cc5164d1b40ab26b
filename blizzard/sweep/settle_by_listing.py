"""How the job itself settles, where sweeps are late: by listing the partitions whose files it tracks."""

from dataclasses import dataclass
from itertools import chain

from blizzard.manifest.segments import Entry, FoundBy, SettleMark
from blizzard.state.checkpoint import FINISHED
from blizzard.state.watermark import SourceProgress, join_path, prefix_of, split_path
from blizzard.storage.base import ObjectStore
from blizzard.sweep.sweeper import SweepRules, entry_of


@dataclass(slots=True)
class Room:
    """How many files and bytes a batch can still take. A file larger than that is taken alone, to be read in slices."""

    files: int = 0
    bytes: int = 0
    untouched: bool = True

    def take(self, size: int) -> bool:
        if self.files < 1 or size > self.bytes:
            return False
        self.files, self.bytes, self.untouched = self.files - 1, self.bytes - size, False
        return True

    def take_alone(self) -> bool:
        alone = self.untouched and self.files > 0
        if alone:
            self.files, self.untouched = 0, False
        return alone


def settle_by_listing(
    progress: SourceProgress,
    source: ObjectStore,
    rules: SweepRules,
    limit: int,
    *,
    arriving: frozenset[str] = frozenset(),
    room: Room | None = None,
) -> list[Entry]:
    """Let the job itself settle, the fullest partition first, until at most `limit` files are tracked.

    A watermark goes forward over files that are committed, over `arriving` that will be by the commit in hand, and, as
    far as there is room, over the files that are returned: they have to be in the same commit. It stops before any
    other. There is no settle delay: what turns up below it later is a suspect.
    """
    by_partition: dict[str, set[str]] = {}
    for path in chain(arriving, (path for path, read in progress.files.items() if read == FINISHED)):
        partition, name = split_path(path)
        by_partition.setdefault(partition, set()).add(name)
    left = ((partition, set(progress.unsettled_names(partition, names))) for partition, names in by_partition.items())
    tracked = {partition: names for partition, names in left if names}
    remaining = sum(map(len, tracked.values()))
    room = room or Room()
    found: list[Entry] = []
    for partition, names in sorted(tracked.items(), key=lambda item: (-len(item[1]), item[0])):
        if remaining <= limit:
            break
        found += _settle_partition(progress, partition, names, source, rules, room)
        remaining -= len(names) - len(progress.unsettled_names(partition, names))
    return found


def _settle_partition(
    progress: SourceProgress, partition: str, known: set[str], source: ObjectStore, rules: SweepRules, room: Room
) -> list[Entry]:
    """`known`: names of files in the partition."""
    base = through = progress.watermarks.get(partition)
    prefix = prefix_of(partition)
    found: list[Entry] = []
    for info in source.list(prefix, start_after=join_path(partition, base or ""), recursive=False):
        name = info.key[len(prefix) :]
        if name not in known and rules.matches(info.key):
            if not room.take(info.size):
                found += [entry_of(info, FoundBy.SWEEP)] if room.take_alone() else []
                break
            found.append(entry_of(info, FoundBy.SWEEP))
        through = name
    else:
        # All of it was listed, so nothing is left of what is tracked behind its last file: it was deleted since.
        through = max(through or "", *known)
    if through is not None and through != base:
        progress.advance_watermark(SettleMark(partition, base, through))
    return found
