"""A local table's log, written to the disk."""

import os
from pathlib import Path

from blizzard.state.delta_log import LOG_FOLDER
from blizzard.storage.base import ObjectStore
from blizzard.storage.local_files import sync_folder

LOCAL = "file://"


def sync_log(table: ObjectStore, versions: range) -> None:
    """After this a loss of power takes no commit or checkpoint of these versions away. deltalake does not sync what it
    writes; S3 keeps what it has accepted. What is not there any more is left out."""
    if not table.uri.startswith(LOCAL):
        return
    log = Path(table.uri.removeprefix(LOCAL)) / LOG_FOLDER
    for version in versions:
        for file in log.glob(f"{version:020d}.*"):
            _sync(file)
    _sync(log / "_last_checkpoint")
    sync_folder(log)


def _sync(file: Path) -> None:
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
