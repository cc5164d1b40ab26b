"""Puts missing files into the manifest, as a sweep does. The job looks each of them up, so none is ingested twice."""

from collections.abc import Sequence
from typing import Any

from blizzard.audit.letters import LOST
from blizzard.audit.source import AuditedSource
from blizzard.audit.tally import Tally
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import FoundBy
from blizzard.state.checkpoint import Checkpoint
from blizzard.storage.base import ObjectInfo
from blizzard.storage.heads import heads
from blizzard.sweep.found import entry_of
from blizzard.sweep.sweeper import SEGMENT_ENTRIES

PARALLEL_HEADS = 32


def refused_without_letter(source: AuditedSource, tally: Tally, now_ts: float) -> list[Sequence[Any]]:
    """The files that were refused as a whole, whose letter is lost, and which the source still has with this content.
    Announced as of now, they are read again, as if somebody had copied them onto themselves."""
    lost = [(path, etag) for path, etag, _, _, size in tally.found.get(LOST, ()) if size is not None]
    now = heads(source.files, [path for path, _ in lost], at_once=PARALLEL_HEADS)
    there = ((path, info) for path, etag in lost if (info := now[path]) is not None and info.etag == etag)
    return [(path, info.size, info.etag, now_ts) for path, info in there]


def announce(
    source: AuditedSource, checkpoint: Checkpoint, missing: Sequence[Sequence[Any]], *, writer_id: str, now_ts: float
) -> int:
    """`missing`: path, size, etag and time of each file. Returns how many were appended."""
    manifest = Manifest(source.state, source.identity.state_prefix, source.identity.source_id)
    entries = [entry_of(ObjectInfo(*each), FoundBy.LATE) for each in missing]
    for start in range(0, len(entries), SEGMENT_ENTRIES):
        manifest.append(
            entries[start : start + SEGMENT_ENTRIES],
            writer_id=writer_id,
            now_ts=now_ts,
            floor=checkpoint.position.segment,
        )
    return len(entries)
