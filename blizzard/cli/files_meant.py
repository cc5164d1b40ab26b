"""Paths that `blizzard files` is given and no source can have, or has: which ones are meant."""

from collections.abc import Iterator, Sequence

from blizzard.cli.files_named import is_plain
from blizzard.config.model import Pipeline, Source
from blizzard.errors import ConfigError, StorageError
from blizzard.storage.base import ObjectStore
from blizzard.storage.keys import is_relative_path
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

EXPECTED = "expected a path below the source's `uri`, such as date=2026-11-21/0001.ndjson.gz"

Chosen = Sequence[tuple[Pipeline, Source]]


def refuse_other_paths(globs: Sequence[str], chosen: Chosen, settings: S3Settings) -> None:
    """Raises ConfigError for paths that no file of a source can have, such as those of this machine."""
    uris = [source.uri for _, source in chosen if source.kafka is None]
    others = [glob for glob in globs if uris and "://" not in glob and not any(may_have(uri, glob) for uri in uris)]
    if others:
        raise ConfigError([f"PATTERN {glob}: {EXPECTED}{hint(glob, chosen, settings)}" for glob in others])


def hint(path: str, chosen: Chosen, settings: S3Settings) -> str:
    """Which path of a source, or folder, is meant by one that is nowhere; empty if nobody knows."""
    for _, source in chosen if is_plain(path) and "://" not in path else ():
        if source.kafka is None:
            store = open_store(source.uri, settings)
            for each in _candidates(path, source.uri):
                if each != path and _is_there(store, each):
                    return f". Do you mean {each}?"
    return ""


def _candidates(path: str, uri: str) -> Iterator[str]:
    """Files and folders (with / at the end): with and without folders in front that lead to the source."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    place, is_folder = f"/{uri.rstrip('/')}/", path.endswith("/")
    for count in range(len(parts)):
        in_front = "/".join(part for part in parts[:count] if part != "..")
        below = "/".join(parts[count:])
        if place.endswith(f"/{in_front}/" if in_front else "/") and is_relative_path(below):
            if not is_folder:
                yield below
            yield f"{below}/"


def _is_there(store: ObjectStore, path: str) -> bool:
    """What storage cannot hold, or does not show, is nothing to name."""
    try:
        return (next(iter(store.list(path)), None) if path.endswith("/") else store.head(path)) is not None
    except StorageError:
        return False


def may_have(uri: str, path: str) -> bool:
    """Whether a file or folder of the source may be named so. Patterns may. Keys of buckets may be `/a` or `a//b`."""
    return not is_plain(path) or not uri.startswith("file://") or is_relative_path(path.removesuffix("/"))
