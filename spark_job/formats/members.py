"""Compressed streams that follow each other in one object, decompressed one after the other within bounded memory."""

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Protocol

from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import FileFault, Readable
from spark_job.formats.reading import CHUNK_BYTES, read_all

XZ_MEMORY_BYTES = 128 << 20
"""xz's strongest preset takes 65 MiB; a header may ask for 4 GiB."""
_ERRORS = (OSError, lzma.LZMAError, zlib.error)


class Decompressor(Protocol):
    """As those of `bz2` and `lzma`."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Members:
    """`begin` makes a decompressor for the next stream. `padded`: zeros after a stream are ignored. Reading raises
    FileFault for what is not valid."""

    def __init__(self, raw: Readable, codec: str, begin: Callable[[], Decompressor], *, padded: bool = False) -> None:
        self._raw = raw
        self._codec = codec
        self._begin = begin
        self._padded = padded
        self._stored = b""
        """Read, and not given to a decompressor yet."""
        self._stream: Decompressor | None = None
        self._ended = 0

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return read_all(self)
        while self._stream is not None or self._next_stream():
            if content := self._decompress(size):
                return content
        return b""

    def _next_stream(self) -> bool:
        """Whether there is another one."""
        while True:
            if self._ended and self._padded:
                self._stored = self._stored.lstrip(b"\0")
            if self._stored:
                break
            self._stored = self._raw.read(CHUNK_BYTES)
            if not self._stored:
                return False
        self._stream = self._begin()
        return True

    def _decompress(self, size: int) -> bytes:
        assert self._stream is not None
        stored = b""
        if self._stream.needs_input:
            stored = self._stored or self._raw.read(CHUNK_BYTES)
            self._stored = b""
            if not stored:
                raise FileFault(Stage.DECOMPRESS, f"truncated {self._codec}: it ends before its end mark")
        try:
            content = self._stream.decompress(stored, size)
        except _ERRORS as error:
            after = f" after the {self._ended:,} before" if self._ended else ""
            reason = f"not valid {self._codec}, in its stream number {self._ended + 1}{after}: {error}"
            raise FileFault(Stage.DECOMPRESS, reason) from error
        if self._stream.eof:
            self._stored, self._stream = self._stream.unused_data, None
            self._ended += 1
        return content


def bzip2(raw: Readable) -> Readable:
    return Members(raw, "bzip2", bz2.BZ2Decompressor)


def xz(raw: Readable) -> Readable:
    def begin() -> Decompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)

    return Members(raw, "xz", begin, padded=True)


def deflate(raw: Readable) -> Readable:
    """With zlib's header and checksum, as Hadoop writes `.deflate`."""
    return Members(raw, "deflate", _Deflate)


class _Deflate:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()
        self._may_have_more = False
        """Of the input that it has: more output than was asked for."""

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        return not self._may_have_more

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        content = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self._may_have_more = bool(self._stream.unconsumed_tail) or len(content) == max_length
        return content
