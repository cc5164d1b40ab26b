"""Entries, states and manifests for tests of batch planning."""

from collections.abc import Sequence
from types import MappingProxyType

from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry, SettleMark, Sweep
from blizzard.state.batch import (
    BatchPlan,
    BatchRules,
    OnOverwrite,
    add_late_files,
    plan_batch,
)
from blizzard.state.checkpoint import Checkpoint
from tests.unit.strategies import dated_folder, manifest_on, memory_store

NOW = 1_000_000.0
OVERLAP = 100.0


def rules(files: int = 100, size: int = 1000, on_overwrite: OnOverwrite = OnOverwrite.IGNORE) -> BatchRules:
    return BatchRules(dated_folder, files, size, OVERLAP, on_overwrite)


def entry(path: str, size: int = 10, etag: str = "e1", event_ts: float = NOW) -> Entry:
    return Entry(path, size, etag, event_ts)


def checkpoint(
    watermarks: dict[str, str] | None = None,
    files: dict[str, int] | None = None,
    closed_through: str | None = None,
    late_swept_ts: float | None = None,
    before_ledger_ts: float | None = None,
) -> Checkpoint:
    return Checkpoint(
        "events",
        "landing",
        partition_watermarks=MappingProxyType(watermarks or {}),
        files=MappingProxyType(files or {}),
        closed_through=closed_through,
        late_swept_ts=late_swept_ts,
        before_ledger_ts=before_ledger_ts,
        last_update_ts=NOW,
    )


Item = Entry | Sweep


def manifest_of(*segments: Sequence[Item]) -> Manifest:
    """A segment for each sequence: its entries, and the marks of the sweep in it."""
    manifest = manifest_on(memory_store())
    for number, items in enumerate(segments):
        entries = [item for item in items if isinstance(item, Entry)]
        sweep = next((item for item in items if isinstance(item, Sweep)), None)
        manifest.append(entries, writer_id=str(number), now_ts=NOW, sweep=sweep)
    return manifest


def plan(state: Checkpoint, manifest: Manifest, by: BatchRules | None = None) -> BatchPlan:
    return plan_batch(state, manifest.unconsumed(state.position), by or rules())


def taken(batch: BatchPlan) -> list[str]:
    """The paths that the batch reads, or would read if the ledger has none of them."""
    return [*(file.path for file in batch.files), *(entry.path for entry in batch.suspects)]


def resolved(batch: BatchPlan, by: BatchRules | None = None) -> BatchPlan:
    """As if the ledger had none of the files."""
    return add_late_files(batch, batch.suspects, by or rules())


def settle_mark(partition: str, through: str, relies_on: int = 0) -> Sweep:
    return Sweep((SettleMark(partition, None, through),), relies_on=relies_on)
