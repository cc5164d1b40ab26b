"""Errors of the operating system, translated to Blizzard's."""

import errno
from types import TracebackType

from blizzard.errors import AccessDenied, BlizzardError, StorageBroken, StorageError, StorageFull, StorageUnavailable

ABSENT = (FileNotFoundError, NotADirectoryError)
"""What the operating system raises for a path that does not exist."""
_TRANSIENT = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT}
_BROKEN = {errno.EIO, errno.EBADMSG, errno.ENOTCONN, getattr(errno, "EUCLEAN", errno.EIO)}
"""Failures of the device or its mount, not of a single file. Only Linux has `EUCLEAN`."""
_FULL = {errno.ENOSPC, errno.EDQUOT}


class translate_os_errors:  # noqa: N801 - used as a function; a generator would take four times as long, for each file
    """Context manager: raises Blizzard's errors instead of OSError. `operation` begins their text."""

    __slots__ = ("_operation",)

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise translated(error, self._operation) from error


def translated(error: OSError, operation: str) -> BlizzardError:
    if isinstance(error, PermissionError):
        action = "read" if operation.startswith(("get", "head", "list", "read", "use")) else "write"
        return AccessDenied(
            f"{operation}: {error.strerror}. Expected permission to {action} it; grant that to the user that runs this "
            "process, or run it as another user."
        )
    if error.errno in _TRANSIENT:
        return StorageUnavailable(f"{operation}: {error.strerror}. Try again later.")
    if error.errno in _BROKEN:
        return StorageBroken(
            f"{operation}: {error.strerror}. The disk or its mount fails: repair it, or remove "
            "the files that it cannot read."
        )
    if error.errno in _FULL:
        return StorageFull(f"{operation}: {error.strerror}. Make room there (or raise the quota) and start again.")
    if error.errno == errno.EROFS:
        return AccessDenied(
            f"{operation}: {error.strerror}. Expected a writable file system; mount it for writing, or use another "
            "folder."
        )
    return StorageError(
        f"{operation}: {error.strerror or error}. Expected a regular file or folder at this path; correct what is "
        "there, or the URI."
    )
