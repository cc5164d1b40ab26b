"""A local directory as an object store.

Symbolic links do not count as objects. A link that leads outside would escape the root. A link that leads inside would
give a file a second key, and its rows would be ingested twice.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from blizzard.errors import AlreadyExists, BucketMissing, NoSuchBytes, NotFound, StorageError
from blizzard.log import Log, silent
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectWriter
from blizzard.storage.keys import check_key, is_relative_path, parent_folder
from blizzard.storage.local_errors import ABSENT, translate_os_errors
from blizzard.storage.local_files import (
    TEMPORARY,
    LocalReader,
    LocalWriter,
    complete_file,
    describe,
    sync_file,
    sync_folder,
    unfinished_file,
)
from blizzard.storage.local_listing import LocalListing

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class LocalStore:
    """The files below `root`. Listing a root that does not exist raises BucketMissing; with `may_be_missing` the
    listing is empty, as in a bucket without such keys. Writing creates the root."""

    def __init__(self, root: str | Path, *, may_be_missing: bool = False, log: Log = silent) -> None:
        self._root = Path(root).absolute()
        self._real_root = self._root.resolve()
        self._uri = f"file://{self._root.as_posix().rstrip('/')}/"
        self._may_be_missing = may_be_missing
        self._listing = LocalListing(self._root, self._uri, self._check_root, log)

    @property
    def uri(self) -> str:
        return self._uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        yield from self._listing.files(self._parent_folder(prefix), prefix, start_after, recursive=recursive)

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        for key, _ in self._listing.children(self._parent_folder(prefix), prefix, ""):
            if key.endswith("/") and key > start_after:
                yield key

    def head(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with translate_os_errors(self._operation("head", key)), suppress(*ABSENT):
            status = path.lstat()
            return describe(key, status) if stat.S_ISREG(status.st_mode) else None
        return None

    def get(self, key: str) -> bytes:
        with self.open(key) as reader:
            return reader.read()

    def get_range(self, key: str, start: int, size: int) -> bytes:
        operation = self._operation("get", key)
        with self._open_file(key, operation) as file, translate_os_errors(operation):
            data = os.pread(file.fileno(), size, start)
            while 0 < len(data) < size and (more := os.pread(file.fileno(), size - len(data), start + len(data))):
                data += more
        if not data:
            raise NoSuchBytes(f"{operation}: expected more than {start} bytes")
        return data

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        operation = self._operation("get", key)
        with self._open_file(key, operation) as file:
            yield LocalReader(key, file, operation)

    def create(self, key: str, data: bytes) -> ObjectInfo:
        target = self._writable_path(key)
        with translate_os_errors(self._operation("create", key)), complete_file(target, data) as (temporary, status):
            try:
                os.link(temporary, target)
            except FileExistsError:
                return self._existing_if_equal(key, data)
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise self._no_links(key) from error
                raise
            sync_folder(target.parent)
            return describe(key, status)

    def put(self, key: str, data: bytes) -> ObjectInfo:
        target = self._writable_path(key)
        with translate_os_errors(self._operation("put", key)), complete_file(target, data) as (temporary, status):
            temporary.replace(target)
            sync_folder(target.parent)
            return describe(key, status)

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        target, operation = self._writable_path(key), self._operation("put", key)
        with ExitStack() as stack:
            with translate_os_errors(operation):
                temporary, file = stack.enter_context(unfinished_file(target))
            yield LocalWriter(file, operation)
            with translate_os_errors(operation):
                sync_file(file)
                temporary.replace(target)
                sync_folder(target.parent)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            path = self._path(key)
            with translate_os_errors(self._operation("delete", key)), suppress(*ABSENT, IsADirectoryError):
                path.unlink()

    def remove_folder(self, folder: str) -> None:
        """Remove the folder if it is empty, since buckets have no empty folders. Only for a folder to which no writer
        writes any more: a writer creates the folder before its file."""
        path = self._path(folder.removesuffix("/"))
        with translate_os_errors(self._operation("remove", folder)), suppress(*ABSENT):
            try:
                path.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    def _parent_folder(self, prefix: str) -> str:
        folder = parent_folder(prefix)
        if folder:
            self._path(folder[:-1])
        return folder

    def _check_root(self) -> None:
        if self._root.exists():
            if self._root.is_dir():  # it may have been created just now
                return
            raise StorageError(f"list {self._uri}: expected a folder, found a file. Correct the URI.")
        if not self._may_be_missing:
            raise BucketMissing(f"list {self._uri}: there is no such folder. Create it, or correct the URI.")

    def _path(self, key: str) -> Path:
        """The path of `key`. Raises StorageError if it is not below the root."""
        self._check_key(key)
        path = self._root / key
        with translate_os_errors(self._operation("use", key)):
            real = os.path.realpath(path)
        if real != str(self._real_root / key):
            raise StorageError(
                f"{self._operation('use', key)}: a symbolic link leads to {real}. Links below the root are not "
                "followed; use the URI of the folder itself."
            )
        return path

    def _check_key(self, key: str) -> None:
        check_key(key, self._uri)
        if not is_relative_path(key.removesuffix("/")):
            raise StorageError(
                f"{self._operation('use', key)!a}: expected a relative path without empty, `.` or `..` parts; "
                "a local directory cannot hold this key"
            )

    def _path_to_open(self, key: str) -> str:
        """As `_path`, in a fifth of the time, but the file itself may be a link. Neither the root nor a folder below it
        is one, so the path cannot lead outside."""
        self._check_key(key)
        place = str(self._real_root)
        *folders, name = key.split("/")
        try:
            linked = stat.S_ISLNK(os.lstat(place).st_mode)
            for folder in folders:
                place = f"{place}/{folder}"
                linked = linked or stat.S_ISLNK(os.lstat(place).st_mode)
        except OSError:
            linked = True
        return str(self._path(key)) if linked else f"{place}/{name}"

    def _writable_path(self, key: str) -> Path:
        path = self._path(key)
        if key.endswith("/") or path.name.startswith(TEMPORARY):
            raise StorageError(
                f"{self._operation('put', key)}: no listing would show this file, since a key that ends in `/` is a "
                f"folder and {TEMPORARY} begins the name of an unfinished file. Choose another name."
            )
        return path

    def _open_file(self, key: str, operation: str) -> BinaryIO:
        # O_NONBLOCK: opening a pipe without a writer would block forever.
        path = self._path_to_open(key)
        with translate_os_errors(operation):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except ABSENT as error:
                self._check_root()
                raise NotFound(f"{operation}: there is no such file") from error
            except OSError as error:
                if error.errno == errno.ELOOP:
                    self._path(key)  # raises: the path is a link
                raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotFound(f"{operation}: it is not a regular file")
        return os.fdopen(descriptor, "rb")

    def _existing_if_equal(self, key: str, data: bytes) -> ObjectInfo:
        """The existing file if it has exactly `data`. Raises AlreadyExists."""
        with suppress(NotFound), self.open(key) as reader:
            if reader.info.size == len(data) and reader.read() == data:
                return reader.info
        raise AlreadyExists(f"{self._operation('create', key)}: another writer created this file first")

    def _no_links(self, key: str) -> StorageError:
        return StorageError(
            f"{self._operation('create', key)}: this file system has no hard links, so a file cannot be created "
            "exclusively and complete at once. Put the table on one that has them (ext4, xfs, btrfs, APFS)."
        )

    def _operation(self, operation: str, key: str) -> str:
        """Begins the error texts."""
        return f"{operation} {self._uri}{key}"
