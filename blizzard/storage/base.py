"""The interface of object storage. Three implementations: S3, local directory, memory."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as storage describes it.

    `key` is relative to the root of the store. `modified_ts` is Unix seconds; for a multipart upload to S3 it is the
    *start* of the upload. `etag` has no quotes and changes whenever the content does.
    """

    key: str
    size: int
    etag: str
    modified_ts: float
    version_id: str | None = None


class ObjectReader(Protocol):
    """An open object. `info` describes the version that is read."""

    @property
    def info(self) -> ObjectInfo: ...

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, all remaining ones if negative, b"" at the end."""
        ...


class ObjectWriter(Protocol):
    """An object that is being written. Works as a file for `pyarrow.PythonFile(writer, mode="w")`."""

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes | bytearray | memoryview, /) -> int:
        """Writes all of `data` (anything with the buffer protocol), which may be reused afterwards. Returns the
        size."""
        ...


class ObjectStore(Protocol):
    """Objects below one root URI. Keys are relative to it, with `/` between their parts, in UTF-8 binary order.

    Every call may raise StorageUnavailable (after all retries), AccessDenied, BucketMissing or StorageError.
    """

    @property
    def uri(self) -> str:
        """Root of the store, ending in `/`."""
        ...

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        """Objects whose key begins with `prefix` and is greater than `start_after`, in key order, lazily.

        Not recursive: only keys without a further `/` after the prefix. Folder markers (keys that end in `/`) are never
        listed.
        """
        ...

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        """The folders one level below `prefix`, each ending in `/`, in order, without listing their content. Objects
        directly below `prefix` are left out, although S3 has to list them too.

        Only folders greater than `start_after` (`"a/"` starts after folder `a/`). A folder may be empty: an empty
        directory, or a folder marker.
        """
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """None if there is no such object."""
        ...

    def get(self, key: str) -> bytes:
        """The whole object. Raises NotFound."""
        ...

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """`size` bytes from byte `start` on, fewer at the end of the object. Raises NotFound, or NoSuchBytes if the
        object has no byte `start`."""
        ...

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        """For reading in pieces, with bounded memory. Raises NotFound when the block is entered."""
        ...

    def create(self, key: str, data: bytes) -> ObjectInfo:
        """Put if absent: exactly one of all concurrent callers succeeds, the others get AlreadyExists.

        An existing object with exactly `data` counts as written by this call, whose first response was lost. Callers
        therefore put a unique id into the data.
        """
        ...

    def put(self, key: str, data: bytes) -> ObjectInfo:
        """Write or overwrite, atomically: no reader sees a part of it."""
        ...

    def writer(self, key: str) -> AbstractContextManager[ObjectWriter]:
        """Write or overwrite in pieces, with bounded memory. The complete object appears when the block ends. If the
        block raises, the existing object stays and nothing is left behind. The block may end on another thread."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects. A key without an object is not an error."""
        ...
