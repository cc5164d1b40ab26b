"""Reading and writing one local file."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from blizzard.errors import NotFound, StorageError
from blizzard.storage.base import ObjectInfo
from blizzard.storage.local_errors import ABSENT, translate_os_errors

TEMPORARY = ".blizzard-tmp-"
"""Prefix of the names of unfinished files. A killed process leaves them behind; no listing shows them."""


class LocalReader:
    """Reads an open file. Raises StorageError at the end if the file was changed in place meanwhile."""

    def __init__(self, key: str, file: BinaryIO, operation: str) -> None:
        self._status = os.fstat(file.fileno())
        self._info = describe(key, self._status)
        self._file = file
        self._operation = operation

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def read(self, size: int = -1, /) -> bytes:
        with translate_os_errors(self._operation):
            data = self._file.read(size)
            if size < 0 or len(data) < size:
                self._check_unchanged()
        return data

    def _check_unchanged(self) -> None:
        if _version(os.fstat(self._file.fileno())) != _version(self._status):
            raise StorageError(
                f"{self._operation}: the file was changed while it was read. Move finished files into the folder, or "
                "let the reader wait longer (settle_delay_secs)."
            )


class LocalWriter:
    """Writes a file that has no visible name yet."""

    def __init__(self, file: BinaryIO, operation: str) -> None:
        self._file = file
        self._operation = operation

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes | bytearray | memoryview, /) -> int:
        with translate_os_errors(self._operation):
            return self._file.write(data)


def read_file(path: Path) -> bytes:
    """A file outside of any store. Links are followed. Raises NotFound."""
    operation = f"read {path}"
    with translate_os_errors(operation):
        try:
            return path.read_bytes()
        except ABSENT as error:
            raise NotFound(f"{operation}: there is no such file") from error


def describe(key: str, status: os.stat_result) -> ObjectInfo:
    """`modified_ts` is the later of the file's modification and its status change, since moving a file into the folder
    or `cp -p` keeps an old modification time."""
    return ObjectInfo(key, status.st_size, _etag(status), max(status.st_mtime, status.st_ctime))


def _etag(status: os.stat_result) -> str:
    return "{:x}-{:x}-{:x}".format(*_version(status))


def _version(status: os.stat_result) -> tuple[int, int, int]:
    """Changes with the content without reading it. The inode distinguishes replacements within one clock tick."""
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def unfinished_file(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A temporary file in the folder of `target`, deleted afterwards unless it was renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    file = temporary.open("xb")
    try:
        yield temporary, file
    finally:
        # Content that was not synced is not needed. On a full disk, closing fails like writing.
        with suppress(OSError):
            file.close()
        temporary.unlink(missing_ok=True)


@contextmanager
def complete_file(target: Path, data: bytes) -> Iterator[tuple[Path, os.stat_result]]:
    """A temporary file with `data`, synced, in the folder of `target`; deleted afterwards unless it was renamed."""
    with unfinished_file(target) as (temporary, file):
        file.write(data)
        sync_file(file)
        yield temporary, os.fstat(file.fileno())


def sync_file(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes a rename or a new link in the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
