"""What the packs say of files: for questions, so that they need not read receipts one by one."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from blizzard.errors import AccessDenied, BucketMissing, NotFound, StorageError, UnreadableState
from blizzard.history.packs import PackRef, get_packs, history_folder
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls

if TYPE_CHECKING:
    from blizzard.history.pack_file import PackedLine

PARALLEL_READS = 8
"""Each holds up to some megabytes."""


@dataclass(frozen=True, slots=True)
class History:
    """Only reads. What cannot be read counts as not packed: receipts say the same. `packs`: ascending. `unreadable`:
    what is wrong with the index and packs that were read."""

    store: ObjectStore
    identity: SourceIdentity
    packs: Sequence[PackRef]
    unreadable: list[str] = field(default_factory=list)

    def find(self, wanted: Iterable[tuple[str, int]]) -> "dict[tuple[str, int], PackedLine]":
        """What commits say of files, by path and sequence, as far as packs have it."""
        by_pack: dict[PackRef, list[tuple[str, int]]] = {}
        for path, sequence in wanted:
            at = bisect_right(self.packs, sequence, key=attrgetter("first")) - 1
            if at >= 0 and sequence <= self.packs[at].last:
                by_pack.setdefault(self.packs[at], []).append((path, sequence))
        found: dict[tuple[str, int], PackedLine] = {}
        with ParallelCalls(PARALLEL_READS, name="history") as calls:
            for pack, pairs in by_pack.items():
                calls.submit(partial(self._find, pack, pairs, found))
        return found

    def _find(
        self, ref: PackRef, wanted: Sequence[tuple[str, int]], found: "dict[tuple[str, int], PackedLine]"
    ) -> None:
        from blizzard.history.pack_file import Pack

        try:
            for row in Pack(self.store, history_folder(self.identity), ref).find(wanted):
                found.setdefault((row.line.path, row.sequence), row)
        except (AccessDenied, BucketMissing):
            raise
        except (UnreadableState, NotFound, StorageError) as error:
            self.unreadable.append(str(error))


def history_of(store: ObjectStore, identity: SourceIdentity, checkpoint: Checkpoint) -> History:
    """As of a checkpoint."""
    if checkpoint.history is None:
        return History(store, identity, ())
    try:
        return History(store, identity, get_packs(store, identity, checkpoint.history))
    except (NotFound, UnreadableState) as error:
        return History(store, identity, (), [str(error)])
