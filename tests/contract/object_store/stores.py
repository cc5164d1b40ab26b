"""What tests of the object store contract share."""

from collections.abc import Callable
from typing import Any

from blizzard.storage.base import ObjectStore

NewStore = Callable[[], ObjectStore]


def keys_of(store: ObjectStore, **arguments: Any) -> list[str]:
    return [info.key for info in store.list(**arguments)]


def fill(store: ObjectStore, *keys: str) -> ObjectStore:
    for key in keys:
        store.put(key, key.encode())
    return store
