"""A local table's log, written to the disk."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from blizzard.state.delta_log import LOG_FOLDER
from blizzard.storage.base import ObjectStore
from blizzard.storage.local_files import sync_file, sync_folder

LOCAL = "file://"


def sync_files(table: ObjectStore, keys: Iterable[str]) -> None:
    """After this a loss of power takes none of these files of the log away. deltalake does not sync what it writes; S3
    keeps what it has accepted. What is not there any more is left out."""
    if not table.uri.startswith(LOCAL):
        return
    root = Path(table.uri.removeprefix(LOCAL))
    for key in keys:
        with suppress(FileNotFoundError), (root / key).open("rb") as file:
            sync_file(file)
    sync_folder(root / LOG_FOLDER)
