"""What storage says of many objects now, by requests in parallel."""

from collections.abc import Iterable, Mapping
from functools import partial

from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls


def heads(store: ObjectStore, keys: Iterable[str], *, at_once: int) -> Mapping[str, ObjectInfo | None]:
    """By key; None: there is no such object."""
    found: dict[str, ObjectInfo | None] = {}

    def look(key: str) -> None:
        found[key] = store.head(key)

    with ParallelCalls(at_once, name="heads") as calls:
        for key in keys:
            calls.submit(partial(look, key))
    return found
