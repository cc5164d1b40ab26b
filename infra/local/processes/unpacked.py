"""A cache of unpacked code archives by content, so that later runs reuse Python's compiled files."""

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path

from infra.local.processes.checkout import CHECKOUT

FOLDER = CHECKOUT / "build" / "local" / "unpacked"
UNUSED_SECS = 3600.0
"""A folder is deleted after this time without use."""


def unpacked(content: bytes, folder: Path = FOLDER) -> Path:
    """The folder with the files of a zip or a gzipped tar. Shared: do not change it."""
    place = folder / hashlib.sha256(content).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        os.utime(place)
        return place
    _delete_unused(folder)
    partial = Path(tempfile.mkdtemp(dir=folder, prefix="partial-"))
    _unpack(content, partial)
    os.utime(partial)
    try:
        partial.rename(place)
    except OSError:  # another process was faster
        shutil.rmtree(partial)
    return place


def _unpack(content: bytes, folder: Path) -> None:
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as bundle:
            bundle.extractall(folder)
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


def _delete_unused(folder: Path) -> None:
    for old in folder.iterdir():
        with suppress(FileNotFoundError):  # another process deleted or renamed it
            if time.time() - old.stat().st_mtime > UNUSED_SECS:
                shutil.rmtree(old, ignore_errors=True)
