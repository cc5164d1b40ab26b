"""A local directory as an object store.

Symbolic links are no objects, whatever they point at: one that leads outside would escape the root, one that leads
inside would give a file a second key and its rows a second time.
"""

import errno
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from blizzard.errors import (
    AccessDenied,
    AlreadyExists,
    BlizzardError,
    BucketMissing,
    NotFound,
    StorageBroken,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from blizzard.log import Log, silent
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectWriter
from blizzard.storage.keys import check_key, folder_of, is_relative_path, may_hold

TEMPORARY = ".blizzard-tmp-"
"""What files begin with while they are written. A killed process leaves them; no listing shows them."""

_PASSING = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT}
_BROKEN = {errno.EIO, errno.EBADMSG, errno.ENOTCONN, getattr(errno, "EUCLEAN", errno.EIO)}
"""Of the device or the mount, whichever file was asked for. `EUCLEAN` is Linux's alone."""
_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_ABSENT = (FileNotFoundError, NotADirectoryError)


class _Scan(NamedTuple):
    prefix: str
    start_after: str


class LocalReader:
    """Reads one open file; a file that was changed in place meanwhile raises StorageError at its end."""

    def __init__(self, info: ObjectInfo, file: BinaryIO, what: str) -> None:
        self._info = info
        self._file = file
        self._what = what

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def read(self, size: int = -1, /) -> bytes:
        with _translated(self._what):
            data = self._file.read(size)
            if size < 0 or len(data) < size:
                self._check_unchanged()
        return data

    def _check_unchanged(self) -> None:
        if _etag(os.fstat(self._file.fileno())) != self._info.etag:
            raise StorageError(
                f"{self._what}: the file was changed while it was read. Move finished files in, or wait longer before "
                "they are read (settle_delay_secs)."
            )


class LocalWriter:
    """Writes one file that nobody sees yet."""

    def __init__(self, file: BinaryIO, what: str) -> None:
        self._file = file
        self._what = what

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes | bytearray | memoryview, /) -> int:
        with _translated(self._what):
            return self._file.write(data)


class LocalStore:
    """The files below `root`. A root that does not exist raises BucketMissing on listing, unless it `may_be_missing`:
    then it is as empty as a bucket without such keys. Writing makes it."""

    def __init__(self, root: str | Path, *, may_be_missing: bool = False, log: Log = silent) -> None:
        self._root = Path(root).absolute()
        self._real_root = self._root.resolve()
        self._uri = f"file://{self._root.as_posix().rstrip('/')}/"
        self._may_be_missing = may_be_missing
        self._log = log
        self._skipped: set[str] = set()

    @property
    def uri(self) -> str:
        return self._uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        scan = _Scan(prefix, start_after)
        pending = [self._children(self._start(prefix), scan)]
        while pending:
            found = next(pending[-1], None)
            if found is None:
                pending.pop()
                continue
            key, entry = found
            if key.endswith("/"):
                if recursive:
                    pending.append(self._children(key, scan))
            elif (info := self._listed(key, entry)) is not None:
                yield info

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        for key, _ in self._children(self._start(prefix), _Scan(prefix, "")):
            if key.endswith("/") and key > start_after:
                yield key

    def head(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with _translated(self._what("head", key)), suppress(*_ABSENT):
            found = path.lstat()
            return _info(key, found) if stat.S_ISREG(found.st_mode) else None
        return None

    def get(self, key: str) -> bytes:
        with self.open(key) as reader:
            return reader.read()

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        what = self._what("get", key)
        with self._opened(key, what) as file:
            yield LocalReader(_info(key, os.fstat(file.fileno())), file, what)

    def create(self, key: str, data: bytes) -> ObjectInfo:
        target = self._writable(key)
        with _translated(self._what("create", key)), self._temporary(target, data) as (temporary, written):
            try:
                os.link(temporary, target)
            except FileExistsError:
                return self._own(key, data)
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise self._no_links(key) from error
                raise
            _sync_folder(target.parent)
            return _info(key, written)

    def put(self, key: str, data: bytes) -> ObjectInfo:
        target = self._writable(key)
        with _translated(self._what("put", key)), self._temporary(target, data) as (temporary, written):
            temporary.replace(target)
            _sync_folder(target.parent)
            return _info(key, written)

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        target, what = self._writable(key), self._what("put", key)
        with ExitStack() as stack:
            with _translated(what):
                temporary, file = stack.enter_context(_unfinished(target))
            yield LocalWriter(file, what)
            with _translated(what):
                _sync(file)
                temporary.replace(target)
                _sync_folder(target.parent)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            path = self._path(key)
            with _translated(self._what("delete", key)), suppress(*_ABSENT, IsADirectoryError):
                path.unlink()

    def remove_folder(self, folder: str) -> None:
        """If it is empty, for buckets know no empty folders. Only for one in which nobody writes any more: a writer
        makes the folder first, and then its file."""
        path = self._path(folder.removesuffix("/"))
        with _translated(self._what("remove", folder)), suppress(*_ABSENT):
            try:
                path.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    def _start(self, prefix: str) -> str:
        folder = folder_of(prefix)
        if folder:
            self._path(folder[:-1])
        return folder

    def _children(self, folder: str, scan: _Scan) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Files, and folders with a `/` behind them, that the scan may want, in key order; nothing is stat-ed.

        The `/` has to be there when names are sorted: `a-b` comes before `a/c`, though folder `a` sorts before it.
        """
        with _translated(self._what("list", folder)):
            try:
                with os.scandir(self._root / folder) as entries:
                    found = [(key, entry) for entry in entries if (key := self._wanted(folder, entry, scan))]
            except _ABSENT:
                self._check_root()
                return
        found.sort(key=lambda pair: pair[0])
        yield from found

    def _wanted(self, folder: str, entry: os.DirEntry[str], scan: _Scan) -> str | None:
        key = folder + entry.name
        if entry.name.startswith(TEMPORARY):
            return None
        if entry.is_dir(follow_symlinks=False):
            key += "/"
            wanted = may_hold(key, scan.prefix, scan.start_after)
        else:
            wanted = key > scan.start_after and key.startswith(scan.prefix)
        return key if wanted and not self._unnameable(key) else None

    def _unnameable(self, key: str) -> bool:
        if key.isascii():
            return False
        try:
            key.encode()
        except UnicodeEncodeError:
            self._skip(key, "the name is not valid UTF-8")
            return True
        return False

    def _listed(self, key: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
        try:
            found = entry.stat(follow_symlinks=False)
        except _ABSENT:
            return None
        except OSError as error:
            raise _translation(error, self._what("list", key)) from error
        if stat.S_ISREG(found.st_mode):
            return _info(key, found)
        self._skip(
            key, "symbolic links are not followed" if stat.S_ISLNK(found.st_mode) else "it is not a regular file"
        )
        return None

    def _skip(self, key: str, reason: str) -> None:
        """Says so once for each key: a source is listed again and again."""
        if key not in self._skipped:
            self._skipped.add(key)
            self._log(
                "object_skipped", uri=self._uri, key=key.encode(errors="backslashreplace").decode(), reason=reason
            )

    def _check_root(self) -> None:
        if self._root.exists():
            if self._root.is_dir():  # perhaps only since a moment ago
                return
            raise StorageError(f"list {self._uri}: expected a folder, found a file. Correct the URI.")
        if not self._may_be_missing:
            raise BucketMissing(f"list {self._uri}: there is no such folder. Create it, or correct the URI.")

    def _path(self, key: str) -> Path:
        """The file of `key`, which is certain to be below the root."""
        self._check_key(key)
        path = self._root / key
        with _translated(self._what("use", key)):
            real = os.path.realpath(path)
        if real != str(self._real_root / key):
            raise StorageError(
                f"{self._what('use', key)}: leads over a symbolic link to {real}. Links below the root are not "
                "followed; point the URI at the folder itself."
            )
        return path

    def _check_key(self, key: str) -> None:
        check_key(key, self._uri)
        if not is_relative_path(key.removesuffix("/")):
            raise StorageError(
                f"{self._what('use', key)!a}: expected a relative path without empty, `.` or `..` parts; "
                "a local directory cannot hold this key"
            )

    def _path_to_open(self, key: str) -> str:
        """As `_path` has it, but for the last part of it, which may be a link, and in a fifth of the time: neither the
        root nor a folder below it is a link, so none leads away."""
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

    def _writable(self, key: str) -> Path:
        path = self._path(key)
        if key.endswith("/") or path.name.startswith(TEMPORARY):
            raise StorageError(
                f"{self._what('put', key)}: no listing would show it, since a key that ends in `/` is a folder and "
                f"{TEMPORARY} begins the name of an unfinished file. Choose another name."
            )
        return path

    def _opened(self, key: str, what: str) -> BinaryIO:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
        path = self._path_to_open(key)
        with _translated(what):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except _ABSENT as error:
                self._check_root()
                raise NotFound(f"{what}: there is no such file") from error
            except OSError as error:
                if error.errno == errno.ELOOP:
                    self._path(key)  # says that it is a link
                raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotFound(f"{what}: it is not a regular file")
        return os.fdopen(descriptor, "rb")

    @contextmanager
    def _temporary(self, target: Path, data: bytes) -> Iterator[tuple[Path, os.stat_result]]:
        """A complete, synced file beside the target, gone afterwards."""
        with _unfinished(target) as (temporary, file):
            file.write(data)
            _sync(file)
            yield temporary, os.fstat(file.fileno())

    def _own(self, key: str, data: bytes) -> ObjectInfo:
        """What is there, if it is what this call wanted to write."""
        with suppress(NotFound), self.open(key) as reader:
            if reader.info.size == len(data) and reader.read() == data:
                return reader.info
        raise AlreadyExists(f"{self._what('create', key)}: somebody else wrote this file first")

    def _no_links(self, key: str) -> StorageError:
        return StorageError(
            f"{self._what('create', key)}: this file system has no hard links, so a file cannot be created exclusively "
            "and complete at once. Put the table on one that has them (ext4, xfs, btrfs, APFS)."
        )

    def _what(self, operation: str, key: str) -> str:
        return f"{operation} {self._uri}{key}"


def read_file(path: Path) -> bytes:
    """A file that somebody named, in no store; links are followed. Raises NotFound."""
    what = f"read {path}"
    with _translated(what):
        try:
            return path.read_bytes()
        except _ABSENT as error:
            raise NotFound(f"{what}: there is no such file") from error


def _info(key: str, found: os.stat_result) -> ObjectInfo:
    """Modified when it came to be here as it is: moving a file in, or `cp -p`, keeps an old modification time."""
    return ObjectInfo(key, found.st_size, _etag(found), max(found.st_mtime, found.st_ctime))


def _etag(found: os.stat_result) -> str:
    """Changes with the content without reading it: the inode tells replacements within one tick of the clock."""
    return f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}"


@contextmanager
def _unfinished(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A file beside the target, gone afterwards unless it was moved."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    file = temporary.open("xb")
    try:
        yield temporary, file
    finally:
        # What was not synced is not wanted; on a full disk closing fails like writing.
        with suppress(OSError):
            file.close()
        temporary.unlink(missing_ok=True)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Turns the operating system's errors into Blizzard's."""
    try:
        yield
    except OSError as error:
        raise _translation(error, what) from error


def _translation(error: OSError, what: str) -> BlizzardError:
    if isinstance(error, PermissionError):
        return AccessDenied(f"{what}: {error.strerror}. Give this user the right to it.")
    if error.errno in _PASSING:
        return StorageUnavailable(f"{what}: {error.strerror}. Try again later.")
    if error.errno in _BROKEN:
        return StorageBroken(
            f"{what}: {error.strerror}. The disk or its mount fails: mend it, or take away what it cannot read."
        )
    if error.errno in _FULL:
        return StorageFull(f"{what}: {error.strerror}. Make room there (or raise the quota) and start again.")
    if error.errno == errno.EROFS:
        return AccessDenied(f"{what}: {error.strerror}. Mount it for writing, or use another place.")
    return StorageError(f"{what}: {error.strerror or error}. Look at what is at this place.")
