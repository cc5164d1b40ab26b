"""Reads and writes the checkpoints of a source, with their bases on storage."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from blizzard.errors import NotFound, UnreadableState
from blizzard.state import checkpoint as checkpoints
from blizzard.state.base import (
    BaseRef,
    Difference,
    Settled,
    decode_base,
    difference,
    digest,
    encode_base,
    is_whole,
    name_of,
)
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectInfo, ObjectStore

KEPT_SECS = 3_600.0
"""A base is deleted so long after another one took its place: a reader may still have the checkpoint before."""
CLEANED_EVERY_SECS = 600.0
_MIN_ENTRY_BYTES = 6
"""Of a partition in JSON, with its watermark."""


@dataclass(frozen=True, slots=True)
class BaseSettings:
    """`max_commit_bytes`: how many bytes of watermarks a commit may have, as JSON; with bases, of watermarks and
    tracked files that differ from them. `fraction`: the base of everything is written anew once more than one of so
    many of its entries have changed; until then, the changes are a base of their own."""

    max_commit_bytes: int = 8_192
    fraction: int = 16


class CheckpointCodec:
    """Encodes and decodes the checkpoints of one source. Keeps the newest bases in memory.

    Used by one thread. `store` holds the source's state.
    """

    def __init__(self, store: ObjectStore, identity: SourceIdentity, settings: BaseSettings | None = None) -> None:
        self._store = store
        self._identity = identity
        self._folder = identity.bases_folder
        self._settings = settings or BaseSettings()
        self._loaded: dict[tuple[BaseRef, ...], Settled] = {}
        self._lost: dict[BaseRef, UnreadableState] = {}
        self._changes: tuple[Checkpoint, Difference] | None = None
        self._cleaned_ts = -math.inf
        self._base_is_lost = False
        """Whether a base that is in memory was not on storage any more."""

    # -- reading

    def decode(self, text: str | bytes) -> Checkpoint:
        """Raises UnreadableState, also if a base is lost."""
        identity = self._identity
        return checkpoints.decode(text, pipeline=identity.pipeline, source=identity.source, base_of=self._base)

    def read_copy(self) -> Checkpoint:
        """The checkpoint's copy. Raises NotFound or UnreadableState."""
        self.forget()
        return self.decode(self._store.get(self._identity.copy_key))

    def forget(self) -> None:
        """Look again for bases that were not there."""
        self._lost.clear()

    def _base(self, refs: Sequence[BaseRef]) -> Settled:
        refs = tuple(refs)
        if not refs:
            return Settled()
        settled = self._loaded.get(refs)
        if settled is None:
            below = self._base(refs[:-1])
            settled = self._keep(refs, self._get(refs[-1]).apply_to(below))
        return settled

    def _keep(self, refs: tuple[BaseRef, ...], settled: Settled) -> Settled:
        """In memory, with the layer below. Other bases are forgotten."""
        below = refs[:-1]
        self._loaded = {known: value for known, value in self._loaded.items() if known == below} | {refs: settled}
        return settled

    def _get(self, ref: BaseRef) -> Difference:
        if ref in self._lost:  # recovery may meet it in each of a hundred commits
            raise self._lost[ref]
        try:
            return decode_base(self._store.get(self._folder + ref.name), ref, self._identity.source_id)
        except NotFound:
            error = UnreadableState(f"base {ref.name} of the checkpoint is missing")
        except UnreadableState as unreadable:
            error = unreadable
        self._lost[ref] = error
        raise error

    # -- writing

    def with_base(self, checkpoint: Checkpoint, *, sequence: int, new_id: Callable[[], str]) -> Checkpoint:
        """The checkpoint with the bases that the commit `sequence` is to name. A base that it lacks is written."""
        settled, limit = checkpoint.settled, self._settings.max_commit_bytes
        if self._is_small(settled.watermarks):
            return replace(checkpoint, bases=())
        if checkpoint.bases and not self._base_is_lost and self._difference(checkpoint).json_bytes <= limit:
            return checkpoint
        below = () if self._base_is_lost else checkpoint.bases[:1]
        before = self._base(below)
        change = difference(before, settled)
        if len(change) * self._settings.fraction > len(before):
            below, change = (), difference(Settled(), settled)
        data = encode_base(change, self._identity.source_id)
        ref = BaseRef(name_of(sequence, new_id(), whole=not below), digest(data))
        self._store.put(self._folder + ref.name, data)
        self._keep((*below, ref), settled)
        self._base_is_lost = False
        return replace(checkpoint, bases=(*below, ref))

    def encode(self, checkpoint: Checkpoint) -> str:
        """The JSON for the commit's `userMetadata` and for the copy. Makes no request for a checkpoint that this codec
        has decoded, or given its bases."""
        return checkpoints.encode(checkpoint, self._difference(checkpoint))

    def _difference(self, checkpoint: Checkpoint) -> Difference:
        """From the bases. A commit asks for it several times."""
        if self._changes is None or not _same(self._changes[0], checkpoint):
            self._changes = (checkpoint, difference(self._base(checkpoint.bases), checkpoint.settled))
        return self._changes[1]

    def _is_small(self, watermarks: Mapping[str, str]) -> bool:
        """Whether a commit can have all of them. Tracked files have a limit of their own, so they do not count."""
        limit = self._settings.max_commit_bytes
        if len(watermarks) * _MIN_ENTRY_BYTES > limit:
            return False
        return Difference(Settled(watermarks)).json_bytes <= limit

    # -- cleaning

    def clean(self, named: Sequence[BaseRef], now_ts: float) -> None:
        """After a commit that names these bases: delete others, an hour after another one took their place. Also notes
        whether one of these is gone, so that the next commit replaces it before anybody has to read it."""
        if now_ts < self._cleaned_ts + CLEANED_EVERY_SECS:
            return
        self._cleaned_ts = now_ts
        infos = [*self._store.list(self._folder, recursive=False)]
        names = {self._folder + ref.name for ref in named}
        self._base_is_lost = not names <= {info.key for info in infos}
        self._store.delete(key for key in superseded(infos, now_ts - KEPT_SECS) if key not in names)


def _same(one: Checkpoint, other: Checkpoint) -> bool:
    same_maps = one.partition_watermarks is other.partition_watermarks and one.files is other.files
    return same_maps and one.bases == other.bases


def superseded(infos: Sequence[ObjectInfo], before_ts: float) -> Sequence[str]:
    """The keys of bases that no commit names since `before_ts`, unless the newest one does. A base of changes gives way
    to any base that is written later, a whole one only to a whole one."""
    newest_ts = _newest_ts(infos, before_ts)
    newest_whole_ts = _newest_ts([info for info in infos if is_whole(info.key)], before_ts)
    return [info.key for info in infos if info.modified_ts < (newest_whole_ts if is_whole(info.key) else newest_ts)]


def _newest_ts(infos: Sequence[ObjectInfo], before_ts: float) -> float:
    """When the newest of those that are older than `before_ts` was written."""
    return max((info.modified_ts for info in infos if info.modified_ts < before_ts), default=-math.inf)


def read_copy(store: ObjectStore, identity: SourceIdentity) -> Checkpoint | None:
    """The checkpoint's copy. None if it is missing or unreadable: the table has the checkpoint too."""
    try:
        return CheckpointCodec(store, identity).read_copy()
    except (NotFound, UnreadableState):
        return None
