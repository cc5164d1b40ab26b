"""How large a commit's checkpoint is, and what its bases cost, for a source with many folders.

    .venv/bin/python -m benchmarks.ledger.checkpoint_size --folders 100000 --active 1000 --commits 1000

Each commit has a file for each active folder. Every few commits a sweep settles them: their watermarks move. The active
folders change slowly. Storage is memory, and times are those of the processor alone.
"""

import argparse
import json
import time
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from statistics import median
from types import MappingProxyType

from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.identity import SourceIdentity
from blizzard.state.watermark import join_path
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore

IDENTITY = SourceIdentity("events", "landing", "_blizzard/events_landing")
SWEPT_EVERY = 3
"""Commits from one sweep to the next."""
DRIFT = 5
"""Folders that become active, as others become quiet, with each commit."""
CLEANED_EVERY = 10


class CountingStore(MemoryStore):
    """Counts the bytes that are put."""

    put_bytes = 0

    def put(self, key: str, data: bytes) -> ObjectInfo:
        self.put_bytes += len(data)
        return super().put(key, data)


@dataclass(slots=True)
class Figures:
    """Of each commit: the size of its text, the bytes of the bases written for it, and how long both took."""

    text_bytes: list[int] = field(default_factory=list)
    base_bytes: list[int] = field(default_factory=list)
    encode_ms: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        without = [ms for ms, size in zip(self.encode_ms, self.base_bytes, strict=True) if not size]
        return {
            "user_metadata_max_bytes": max(self.text_bytes),
            "user_metadata_median_bytes": median(self.text_bytes),
            "base_bytes_per_commit": round(sum(self.base_bytes) / len(self.base_bytes)),
            "bases_per_commit": round(sum(size > 0 for size in self.base_bytes) / len(self.base_bytes), 3),
            "encode_median_ms": round(median(self.encode_ms), 2),
            "encode_max_ms": round(max(self.encode_ms), 2),
            "encode_without_base_median_ms": round(median(without or [0.0]), 2),
        }


class Source:
    """The state of a source with many folders, commit by commit."""

    def __init__(self, folders: int, active: int) -> None:
        self._folders = [f"customer={n:06d}/date=2026-11-25" for n in range(folders)]
        self._active = active
        self._watermarks = {folder: self._name(0, n) for n, folder in enumerate(self._folders)}
        self._files: dict[str, int] = {}

    def after(self, before: Checkpoint, commit: int) -> Checkpoint:
        first = commit * DRIFT
        for n in range(first, first + self._active):
            folder = self._folders[n % len(self._folders)]
            self._files[join_path(folder, self._name(commit, n))] = FINISHED
        if commit % SWEPT_EVERY == 0:
            for path in self._files:
                folder, _, name = path.rpartition("/")
                self._watermarks[folder] = max(self._watermarks[folder], name)
            self._files.clear()
        return replace(
            before,
            partition_watermarks=MappingProxyType(dict(self._watermarks)),
            files=MappingProxyType(dict(self._files)),
        )

    @staticmethod
    def _name(commit: int, n: int) -> str:
        return f"{1_764_000_000 + 60 * commit}-{blake2b(b'%d %d' % (commit, n), digest_size=8).hexdigest()}.json.gz"


def measure(folders: int, active: int, commits: int) -> dict[str, float]:
    now_ts, figures = 0.0, Figures()
    store = CountingStore(lambda: now_ts)
    codec, source = CheckpointCodec(store, IDENTITY), Source(folders, active)
    checkpoint = Checkpoint(IDENTITY.pipeline, IDENTITY.source)
    for commit in range(commits):
        now_ts, before_bytes = 60.0 * commit, store.put_bytes
        settled = source.after(checkpoint, commit)
        began = time.process_time()
        based = codec.with_base(settled, sequence=commit, new_id=lambda commit=commit: f"{commit:016x}")  # type: ignore[misc]
        checkpoint = replace(based, sequence=commit)
        text = codec.encode(checkpoint)
        figures.encode_ms.append(1000 * (time.process_time() - began))
        figures.text_bytes.append(len(text))
        figures.base_bytes.append(store.put_bytes - before_bytes)
        if commit % CLEANED_EVERY == 0:
            codec.clean(checkpoint.bases, now_ts)
    began = time.process_time()
    if CheckpointCodec(store, IDENTITY).decode(text) != checkpoint:
        raise SystemExit("the checkpoint that was read is not the one that was written")
    decode_ms = round(1000 * (time.process_time() - began), 1)
    sizes = [info.size for info in store.list(IDENTITY.bases_folder)]
    return {**figures.summary(), "decode_ms": decode_ms, "stored_bases": len(sizes), "stored_bytes": sum(sizes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=int, default=100_000)
    parser.add_argument("--active", type=int, default=1_000)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    given = parser.parse_args()
    found = measure(given.folders, given.active, given.commits)
    if given.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:32} {value:>14,}")


if __name__ == "__main__":
    main()
