"""What the pending manifest announces, and whether it is whole."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from blizzard.audit.source import AuditedSource
from blizzard.errors import BucketMissing, UnreadableState
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Position, Sweep
from blizzard.state.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class AnnouncedFile:
    """One entry, and its place in the manifest."""

    path: str
    etag: str
    segment: int
    entry: int
    chain: str
    found_by: str
    size: int


@dataclass(slots=True)
class Announced:
    """`sweeps`: of the segments whose marks are valid. `wiped`: the manifest does not continue from the checkpoint.
    `breaks`: numbers of segments that do not follow the one before. `unreadable`: what is wrong with each one that
    cannot be read."""

    files: list[AnnouncedFile] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    wiped: bool = False
    breaks: list[int] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def after(self, position: Position) -> Iterator[AnnouncedFile]:
        """Those that are not consumed at this position, which may be later than that of the reading."""
        for file in self.files:
            if file.chain != position.chain or (file.segment, file.entry) >= (position.segment, position.entry):
                yield file


def read_announced(source: AuditedSource, checkpoint: Checkpoint) -> Announced:
    """The entries from the checkpoint's position on."""
    manifest = Manifest(source.state, source.identity.state_prefix, source.identity.source_id, prefetch=4)
    found, unreadable = Announced(), list[UnreadableState]()
    position = checkpoint.position
    chain_id, first = position.chain, True
    with suppress(BucketMissing):  # before the table's first write
        for item in manifest.unconsumed(position, unreadable):
            if item.chain != chain_id and chain_id is not None:
                found.wiped = found.wiped or first
                found.breaks += [] if first else [item.segment.number]
            chain_id, first = item.chain, False
            for number in range(item.first_entry, len(item.segment.entries)):
                entry = item.segment.entries[number]
                place = item.segment.number, number, item.chain
                found.files.append(AnnouncedFile(entry.path, entry.etag, *place, str(entry.found_by), entry.size))
            if item.segment.sweep is not None and item.marks_are_valid:
                found.sweeps.append(item.segment.sweep)
        if first and position.chain is not None and not unreadable:
            found.wiped = not _is_there(manifest, position)
    found.unreadable = [str(error) for error in unreadable]
    return found


def _is_there(manifest: Manifest, position: Position) -> bool:
    """Whether the segment last touched is: the newest one is never deleted."""
    refs = manifest.refs(max(0, position.last_touched), at_most=1)
    return any((ref.number, ref.etag) == (position.last_touched, position.etag) for ref in refs)
