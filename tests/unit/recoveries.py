"""Recovery over a `World`, and a store that counts what recovery asks for."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from spark_job.loop.files.file_sizes import FileSizes
from spark_job.loop.files.recovery import recover
from spark_job.ports.source import Recovered
from tests.unit.fakes import World, settings

DAY_OVERLAP_SECS = 86_400.0


def recovered(world: World, *, scan_commits: int = 100) -> Recovered[Checkpoint]:
    return recover(
        world.table(),
        world.state,
        world.identity,
        rules=replace(world.settings.rules, late_overlap_secs=DAY_OVERLAP_SECS),
        sizes=FileSizes(world.source),
        log=lambda event, /, **fields: world.log.append((event, fields)),
        codec=CheckpointCodec(world.state, world.identity, world.settings.bases),
        ledger=world.ledger_keeper(),
        scan_commits=scan_commits,
    )


def three_commits(**more: int) -> World:
    """Sequences 0 to 2 in the versions 1 to 3, a file in each."""
    world = World(settings(**more))  # type: ignore[arg-type]
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
        world.drain()
    return world


class CountingStore(MemoryStore):
    """The objects of another store; counts how many were listed and how many got a HEAD."""

    def __init__(self, objects: MemoryStore) -> None:
        super().__init__(lambda: 0.0)
        self._objects, self._keys = objects._objects, objects._keys
        self.listed = self.heads = 0
        self.before_head: Callable[[], object] = lambda: None
        self._counting = threading.Lock()

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        inner = MemoryStore(lambda: 0.0)
        inner._objects, inner._keys = self._objects, self._keys
        for info in inner.list(prefix, start_after=start_after, recursive=recursive):
            self.listed += 1
            yield info

    def head(self, key: str) -> ObjectInfo | None:
        self.before_head()
        with self._counting:
            self.heads += 1
        return super().head(key)
