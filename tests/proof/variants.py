"""What is broken on purpose, so that a campaign can show that it would find it. Each breaks what is around the product,
never the product itself."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from blizzard.delta_log import Commit
from blizzard.errors import CommitOutcomeUnknown
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from tests.proof.small_worlds import SmallWorld
from tests.unit.fakes import MemoryDelta, Row


class _Around:
    """A store that does one thing otherwise."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Overwriting(_Around):
    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self._store.put(key, data)


class _MarksAlone(_Around):
    """Of a sweep's segment only the marks arrive."""

    def create(self, key: str, data: bytes) -> ObjectInfo:
        document = json.loads(data) if "/pending/" in key else {}
        if document.get("sweep"):
            data = json.dumps({**document, "entries": []}).encode()
        return self._store.create(key, data)


class _Uncompared(MemoryDelta):
    """Takes every commit, whatever its Txn."""

    def _has_txn(self, app_id: str, sequence: int) -> bool:
        return False


class RetryingDelta(MemoryDelta):
    """Tries a commit without an answer again under the next number, without a look at what became of the first."""

    def commit(
        self,
        added: Iterable[Row],
        app_id: str,
        sequence: int,
        user_metadata: str | None,
        *,
        without: Iterable[str] = (),
    ) -> None:
        rows = [*added]
        try:
            super().commit(rows, app_id, sequence, user_metadata, without=without)
        except CommitOutcomeUnknown:
            self.faults.clear()
            super().commit(rows, app_id, sequence + 1, user_metadata, without=without)


class _Outdated(list[Commit]):
    """The log as it was one commit ago, for whoever reads it backwards."""

    def __reversed__(self) -> Iterator[Commit]:  # type: ignore[override]
        return iter([*super().__reversed__()][1 if len(self) > 1 else 0 :])


def unconditional_put(world: SmallWorld) -> None:
    world.state = _Overwriting(world.world.state)


def marks_without_entries(world: SmallWorld) -> None:
    world.state = _MarksAlone(world.world.state)


def txn_not_compared(world: SmallWorld) -> None:
    _replace(world, _Uncompared())


def retry_without_a_look(world: SmallWorld) -> None:
    _replace(world, RetryingDelta(faults=["answer lost"]))


def older_state_as_current(world: SmallWorld) -> None:
    world.delta.commits = _Outdated(world.delta.commits)


def _replace(world: SmallWorld, delta: MemoryDelta) -> None:
    delta.commits, delta.rows, delta.ever_committed = (
        world.delta.commits,
        world.delta.rows,
        world.delta.ever_committed,
    )
    world.delta = world.world.delta = delta


VARIANTS: Mapping[str, Callable[[SmallWorld], None]] = {
    "a segment is written by an unconditional PUT": unconditional_put,
    "the Txn's version is not compared": txn_not_compared,
    "an older state is taken for the current one": older_state_as_current,
    "a watermark passes a file that is in no segment": marks_without_entries,
    "a commit is tried again without a look at what became of it": retry_without_a_look,
}
