"""Archives of code, unpacked once for each content, so that what Python compiles of it serves the next run too."""

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
KEPT_SECS = 3600.0
"""After so long without use a folder goes."""


def unpacked(content: bytes, folder: Path = FOLDER) -> Path:
    """The files of a zip or a gzipped tar. To be read only: others read them too."""
    place = folder / hashlib.sha256(content).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        os.utime(place)
        return place
    _forget_old(folder)
    partial = Path(tempfile.mkdtemp(dir=folder, prefix="partial-"))
    _unpack(content, partial)
    os.utime(partial)
    try:
        partial.rename(place)
    except OSError:  # somebody was faster
        shutil.rmtree(partial)
    return place


def _unpack(content: bytes, folder: Path) -> None:
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as bundle:
            bundle.extractall(folder)
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


def _forget_old(folder: Path) -> None:
    for old in folder.iterdir():
        with suppress(FileNotFoundError):  # somebody else was faster, or has given it its name
            if time.time() - old.stat().st_mtime > KEPT_SECS:
                shutil.rmtree(old, ignore_errors=True)
