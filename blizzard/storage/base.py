"""What Blizzard needs of object storage: one interface, three implementations (S3, local directory, memory)."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as storage describes it.

    `key` is relative to the root of the store; `modified_ts` is Unix seconds, and for a multipart upload on S3 the
    moment the upload *began*. `etag` has no quotes and changes whenever the content does.
    """

    key: str
    size: int
    etag: str
    modified_ts: float
    version_id: str | None = None


class ObjectReader(Protocol):
    """An open object. `info` describes the very version that is being read."""

    @property
    def info(self) -> ObjectInfo: ...

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, all that is left when negative, b"" at the end."""
        ...


class ObjectWriter(Protocol):
    """An object that is being written; `pyarrow.PythonFile(writer, mode="w")` takes it for a file."""

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes | bytearray | memoryview, /) -> int:
        """Takes all of `data` (whatever has the buffer protocol), which may be reused afterwards; its size in bytes."""
        ...


class ObjectStore(Protocol):
    """Objects below one root URI. Keys are relative to it, with `/` between their parts, in UTF-8 binary order.

    Every call may raise StorageUnavailable (retries used up), AccessDenied, BucketMissing or StorageError.
    """

    @property
    def uri(self) -> str:
        """Root of the store, ending in `/`."""
        ...

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        """Objects whose key begins with `prefix` and is greater than `start_after`, in key order, lazily.

        Not recursive: only those without a further `/` behind the prefix. Folder markers (a key that ends in `/`)
        are never listed.
        """
        ...

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        """The common prefixes one level below `prefix`, each ending in `/`, in order, without listing what they hold.
        What lies directly below `prefix` is passed over; on S3 it is listed all the same.

        Only those greater than `start_after` (pass `"a/"` to begin behind folder `a/`). One that holds no object may be
        among them: an empty directory, or a folder marker.
        """
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """None when there is no such object."""
        ...

    def get(self, key: str) -> bytes:
        """The whole object. Raises NotFound."""
        ...

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        """Read in pieces, with bounded memory. Raises NotFound on entry."""
        ...

    def create(self, key: str, data: bytes) -> ObjectInfo:
        """Put if absent: exactly one of all concurrent callers succeeds. Raises AlreadyExists.

        An object that holds exactly `data` counts as this call's own, whose first answer was lost: writers put an id
        of their own into the data.
        """
        ...

    def put(self, key: str, data: bytes) -> ObjectInfo:
        """Write or overwrite, atomically: no reader sees half of it."""
        ...

    def writer(self, key: str) -> AbstractContextManager[ObjectWriter]:
        """Write or overwrite in pieces, with bounded memory. The object appears, complete, when the block ends well;
        when it raises, whatever was there stays and nothing is left behind. The end may come on another thread."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete what is there of `keys`; what is not there is no error."""
        ...
