"""A manifest to play with: a segment for each word, an entry for each letter."""

from collections.abc import Sequence

from blizzard.manifest.segments import Entry, Manifest, Position, Sweep, Unconsumed
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import PENDING, manifest_on, memory_store


def entry(path: str) -> Entry:
    return Entry(path, 10, f"etag-of-{path}", 1_706_450_400.0)


def append(manifest: Manifest, *paths: str, sweep: Sweep | None = None, floor: int = 0, writer: str = "w") -> int:
    return manifest.append([entry(path) for path in paths], writer_id=writer, now_ts=1.0, sweep=sweep, floor=floor)


def filled(*segments: str) -> tuple[MemoryStore, Manifest]:
    """A manifest with a segment for each word, and in it an entry for each letter."""
    store = memory_store()
    manifest = manifest_on(store)
    for word in segments:
        append(manifest, *word)
    return store, manifest


def walk(manifest: Manifest, position: Position | None = None) -> list[Unconsumed]:
    return list(manifest.unconsumed(position or Position()))


def left(item: Unconsumed) -> str:
    return "".join(e.path for e in item.segment.entries[item.first_entry :])


def paths(items: Sequence[Unconsumed]) -> str:
    return "".join(map(left, items))


def consumed(manifest: Manifest, count: int) -> Position:
    """The position of somebody who consumed `count` entries from the start."""
    position = Position()
    for item in manifest.unconsumed(position):
        taken = min(count, len(item.segment.entries))
        position, count = item.position_at(taken), count - taken
        if not count:
            break
    return position


def key(number: int) -> str:
    return f"{PENDING}{number:020d}.json"


def wipe(store: MemoryStore, *numbers: int) -> None:
    store.delete([key(n) for n in numbers] or [info.key for info in store.list(PENDING)])
