"""Decompression of one object, within bounded memory."""

import gzip
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from isal import igzip, isal_zlib

from blizzard.state.dead_letters import Stage
from spark_job.formats.members import bzip2, deflate, xz
from spark_job.formats.protocol import FileFault, Readable
from spark_job.formats.reading import read_all, read_up_to

SMALL_BYTES = 256 << 10
"""An object up to this size is decompressed in one call."""
_SMALL_CONTENT_BYTES = 4 << 20
"""Decompressed size of such an object; one with more content is read as a stream."""
_GZIP_MEMBER = 31
"""zlib's window bits for a gzip header and checksum."""


def decompressed(raw: Readable, compression: str, *, size: int | None = None) -> Readable:
    """The decompressed bytes; reading raises FileFault for what is not valid.

    `size`: of the object, in bytes; None if it must not be held as a whole.
    """
    if compression == "none":
        return raw
    if compression == "gzip" and size is not None and size <= SMALL_BYTES:
        body = read_up_to(raw, size + 1)  # one byte more shows that the object is larger
        content = _single_member(body) if len(body) == size else None
        if content is not None:
            return io.BytesIO(content)
        raw = _Chained(io.BytesIO(body), raw)
    return _OPEN[compression](raw)


@dataclass(frozen=True, slots=True)
class _Decompressed:
    """Translates the errors of the codec's library."""

    stream: Readable
    compression: str

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:  # pyarrow's streams cannot
            return read_all(self)
        try:
            return self.stream.read(size)
        except EOFError as error:
            reason = f"truncated {self.compression}: it ends before its end mark, or other bytes follow it"
            raise FileFault(Stage.DECOMPRESS, reason) from error
        except (gzip.BadGzipFile, isal_zlib.error, OverflowError) as error:  # type: ignore[misc]
            # OverflowError: a header that does not end; igzip holds at most half a MiB of it.
            raise FileFault(Stage.DECOMPRESS, f"not valid {self.compression}: {error}") from error
        except OSError as error:  # pyarrow raises it for whatever is wrong with a stream
            if type(error) is not OSError:
                raise
            raise FileFault(Stage.DECOMPRESS, f"not valid {self.compression}, or truncated: {error}") from error


@dataclass(frozen=True, slots=True)
class _Chained:
    """The bytes that were read already, then the rest."""

    begin: io.BytesIO
    rest: Readable

    def read(self, size: int = -1, /) -> bytes:
        return self.begin.read(size) + self.rest.read() if size < 0 else self.begin.read(size) or self.rest.read(size)


def _single_member(body: bytes) -> bytes | None:
    """The content of one valid gzip member that is not large; None for anything else. For a file of some hundred bytes
    a stream takes several times as long."""
    member = isal_zlib.decompressobj(_GZIP_MEMBER)
    try:
        content = member.decompress(body, _SMALL_CONTENT_BYTES)
    except isal_zlib.error:  # type: ignore[misc]
        return None
    return content if member.eof and not member.unused_data else None


def _gzip(raw: Readable) -> Readable:
    file = cast("Readable", igzip.IGzipFile(fileobj=_File(raw), mode="rb"))  # type: ignore[no-untyped-call]
    return _Decompressed(file, "gzip")


def _by_arrow(name: str, raw: Readable) -> Readable:
    import pyarrow as pa

    file = cast("Readable", pa.CompressedInputStream(pa.PythonFile(_File(raw), mode="r"), name))
    return _Decompressed(file, name)


def _snappy(raw: Readable) -> Readable:
    from spark_job.formats.snappy import Snappy

    return Snappy(raw)


_OPEN: Mapping[str, Callable[[Readable], Readable]] = {
    "gzip": _gzip,
    "zstd": partial(_by_arrow, "zstd"),
    "lz4": partial(_by_arrow, "lz4"),
    "bzip2": bzip2,
    "xz": xz,
    "deflate": deflate,
    "snappy": _snappy,
}


class _File:
    """An object's reader as the file that gzip and pyarrow expect."""

    closed = False

    def __init__(self, raw: Readable) -> None:
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        return self._raw.read(size)

    def readinto(self, buffer: memoryview) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        pass
