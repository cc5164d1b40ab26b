"""Test manifests: one segment for each word, one entry for each letter."""

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry, Position, Sweep, UnconsumedSegment
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import PENDING, manifest_on, memory_store


def entry(path: str) -> Entry:
    return Entry(path, 10, f"etag-of-{path}", 1_706_450_400.0)


def append(manifest: Manifest, *paths: str, sweep: Sweep | None = None, floor: int = 0, writer: str = "w") -> int:
    return manifest.append([entry(path) for path in paths], writer_id=writer, now_ts=1.0, sweep=sweep, floor=floor)


def filled(*segments: str) -> tuple[MemoryStore, Manifest]:
    """A manifest with one segment for each word and one entry for each letter."""
    store = memory_store()
    manifest = manifest_on(store)
    for word in segments:
        append(manifest, *word)
    return store, manifest


def walk(manifest: Manifest, position: Position | None = None) -> list[UnconsumedSegment]:
    return list(manifest.unconsumed(position or Position()))


def remaining(item: UnconsumedSegment) -> str:
    return "".join(e.path for e in item.segment.entries[item.first_entry :])


def paths(items: Sequence[UnconsumedSegment]) -> str:
    return "".join(map(remaining, items))


def consumed(manifest: Manifest, count: int) -> Position:
    """The position after the first `count` entries."""
    position = Position()
    for item in manifest.unconsumed(position):
        taken = min(count, len(item.segment.entries))
        position, count = item.position_at(taken), count - taken
        if not count:
            break
    return position


sizes_of_segments = st.lists(st.integers(0, 4), max_size=6)


def lettered(sizes: Sequence[int]) -> Iterator[str]:
    """A word of each of these sizes; all letters differ."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    return ("".join(next(letters) for _ in range(size)) for size in sizes)


def key(number: int) -> str:
    return f"{PENDING}{number:020d}.json"


def wipe(store: MemoryStore, *numbers: int) -> None:
    store.delete([key(n) for n in numbers] or [info.key for info in store.list(PENDING)])
