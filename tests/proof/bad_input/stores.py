"""Checks of a local store with hostile keys: nothing outside its root is read, written or removed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from blizzard.errors import StorageError
from blizzard.storage.base import ObjectStore
from tests.proof.bad_input.decoders import bounded
from tests.proof.campaign import Failed

CANARY = b'{"id": "canary", "n": 1, "kind": "x"}\n'
"""Content of files outside the root."""


def check_store(store: ObjectStore, key: str) -> None:
    """Raises Failed if a read returns content from outside the root. The caller compares the tree to detect writes."""

    def write() -> None:
        with store.writer(key) as writer:
            writer.write(b"x")

    def read() -> bytes:
        with store.open(key) as reader:
            return reader.read()

    calls: Mapping[str, Callable[[], Any]] = {
        "get": lambda: store.get(key),
        "open": read,
        "head": lambda: store.head(key),
        "list": lambda: [*store.list(key)],
        "list_folders": lambda: [*store.list_folders(key)],
        "create": lambda: store.create(key, b"x"),
        "put": lambda: store.put(key, b"x"),
        "writer": write,
        "delete": lambda: store.delete([key]),
    }
    for name, call in calls.items():
        with bounded(f"{name} of {key!a:.100}"), suppress(StorageError):
            answer = call()
            if answer == CANARY or (name in ("head", "list") and answer and "canary" in str(answer) and ".." in key):
                raise Failed(f"{name} of {key!a:.100} reads what lies outside of the root")


def linked(folder: Path) -> None:
    """Keys that lead out of a root, which the store must refuse."""
    for name, target in {"link": "../outside", "link.ndjson": "../outside/canary.ndjson", "self": "."}.items():
        (folder / name).symlink_to(target)
