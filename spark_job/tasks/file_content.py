"""One object as a format reads it: decompressed, and counted by stored bytes."""

import errno
import io
import tempfile
from collections.abc import Collection
from contextlib import ExitStack, suppress
from itertools import chain
from typing import BinaryIO, cast

from blizzard.errors import BlizzardError, StorageBroken
from blizzard.state.dead_letters import Stage
from spark_job.formats.decompress import decompressed
from spark_job.formats.marks import FIRST_BYTES, likeness
from spark_job.formats.protocol import FileFault, Limits, Readable
from spark_job.formats.reading import read_up_to

CHUNK_BYTES = 4 << 20
SLICE_CHUNK_BYTES = 1 << 20
IN_MEMORY_BYTES = 16 << 20
"""A file for random access up to this size stays in memory; a larger one goes to a temporary file."""


class FileContent:
    """The `Content` of one object, or of one member of a zip. `size`: of the object, in bytes. `slice_bytes`: how much
    of it this batch takes, None for all of it.

    What it opens is closed with `stack`.
    """

    def __init__(
        self,
        path: str,
        raw: Readable,
        *,
        size: int,
        compression: str,
        limits: Limits,
        slice_bytes: int | None,
        stack: ExitStack,
    ) -> None:
        self.path = path
        self.chunk_bytes = CHUNK_BYTES if slice_bytes is None else SLICE_CHUNK_BYTES
        self._size = size if slice_bytes is None else None
        self._raw = CountedReader(raw)
        self._content = self._raw
        self._stored: CountedReader | CountedFile = self._raw
        self._compression = compression
        self._limits = limits
        self._stack = stack

    @property
    def bytes_read(self) -> int:
        """How many bytes the format has read so far: stored bytes of a stream, but decompressed bytes of a file for
        random access, which is a decompressed copy."""
        return self._stored.bytes_read

    def stream(self) -> Readable:
        if self._compression != "none":
            self._content = CountedReader(decompressed(self._raw, self._compression, size=self._size))
        return self._content

    def likeness(self, stage: Stage, formats: Collection[str]) -> str | None:
        """What the file begins like, if it cannot be read as one of these formats at this stage."""
        if stage is Stage.DECOMPRESS:
            return likeness(self._raw.beginning(), formats, self._compression)
        return likeness(self._content.beginning(), formats, "none")

    def random_access(self) -> BinaryIO:
        """Also raises StorageBroken if the temporary file cannot be written."""
        stream = self.stream()
        first = stream.read(CHUNK_BYTES)
        self._limits.check_file_bytes(len(first))
        second = stream.read(CHUNK_BYTES) if first else b""
        file = self._copy(first, second, stream) if second else io.BytesIO(first)
        counted = self._stored = CountedFile(file)
        return cast("BinaryIO", counted)

    def _copy(self, first: bytes, second: bytes, rest: Readable) -> BinaryIO:
        spooled = self._stack.enter_context(tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES))  # noqa: SIM115
        total = 0
        for chunk in chain((first, second), iter(lambda: rest.read(CHUNK_BYTES), b"")):
            total += len(chunk)
            self._limits.check_file_bytes(total)
            try:
                spooled.write(chunk)
            except OSError as error:
                raise _no_room(self.path, error) from error
        spooled.seek(0)
        return cast("BinaryIO", spooled)


class CountedReader:
    """Counts the bytes that were read of an object, and knows the first ones."""

    def __init__(self, reader: Readable) -> None:
        self._reader = reader
        self._first = b""
        self.bytes_read = 0

    def beginning(self) -> bytes:
        """At least what was read at first. Nothing can be read afterwards."""
        if 0 < self.bytes_read == len(self._first) < FIRST_BYTES:
            with suppress(FileFault, BlizzardError):
                self._first += read_up_to(self._reader, FIRST_BYTES - len(self._first))
        return self._first

    def read(self, size: int = -1, /) -> bytes:
        data = self._reader.read(size)
        if not self.bytes_read:
            self._first = data[:FIRST_BYTES]
        self.bytes_read += len(data)
        return data


class CountedFile(io.RawIOBase):
    """Counts the bytes that were read of a seekable file."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.bytes_read = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.bytes_read += len(data)
        return data

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _no_room(path: str, error: OSError) -> StorageBroken:
    missing = "is full" if error.errno == errno.ENOSPC else f"failed: {error}"
    return StorageBroken(
        f"{path}: its format needs random access, so it is copied to a temporary file first, and the disk of "
        f"{tempfile.gettempdir()} {missing}. Free space there, or set TMPDIR to a larger disk."
    )
