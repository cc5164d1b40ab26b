"""Puts missing files into the manifest, as a sweep does. The job looks each of them up, so none is ingested twice."""

from collections.abc import Sequence
from typing import Any

from blizzard.audit.source import AuditedSource
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import FoundBy
from blizzard.state.checkpoint import Checkpoint
from blizzard.storage.base import ObjectInfo
from blizzard.sweep.found import entry_of
from blizzard.sweep.sweeper import SEGMENT_ENTRIES


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
