"""The container files of Avro: a header with the schema, then blocks of records (Avro 1.12, "Object Container Files").

They are read here rather than by fastavro, so that no length in a damaged file decides how much memory is taken.
"""

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from blizzard.state.dead_letters import Stage
from spark_job.formats.decompress import decompressed
from spark_job.formats.members import XZ_MEMORY_BYTES, Decompressor
from spark_job.formats.protocol import FileFault, Readable
from spark_job.formats.reading import read_up_to
from spark_job.formats.snappy import raw_snappy

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_MAX_HEADER_BYTES = 16 << 20
_MAX_ENTRIES = 10_000
_VARINT_BYTES = 10
_AHEAD_BYTES = 16 << 10
"""How much is read where a few bytes are wanted."""


@dataclass(frozen=True, slots=True)
class Header:
    schema: Any
    """As JSON values."""
    schema_text: bytes
    codec: str
    sync: bytes
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EncodedBlock:
    """The records of one block, decompressed and still encoded."""

    count: int
    data: bytes


class Container:
    """One file, forward only. `max_block_bytes`: of a block, stored and decompressed. Everything raises FileFault for
    what is not valid."""

    def __init__(self, stream: Readable, max_block_bytes: int) -> None:
        self._stream = _ReadAhead(stream)
        self._max_block_bytes = max_block_bytes
        self._header_read = 0
        self.header = self._read_header()
        if self.header.codec not in _DECOMPRESS:
            _refuse(f"its codec is {self.header.codec}; expected one of {', '.join(_DECOMPRESS)}")

    def blocks(self) -> Iterator[EncodedBlock]:
        decompress, number = _DECOMPRESS[self.header.codec], 0
        while (count := self._varint(f"the record count of block {number}", may_end=True)) is not None:
            size = self._checked_varint(f"the size of block {number}", self._max_block_bytes)
            if count < 0:
                _refuse(f"block {number} says that it has {count} records")
            stored = self._exactly(size, f"block {number}")
            if self._exactly(_SYNC_BYTES, f"the mark after block {number}") != self.header.sync:
                _refuse(f"another mark than the file's stands after block {number}")
            yield EncodedBlock(count, _within(decompress, stored, self._max_block_bytes, number))
            number += 1

    def _read_header(self) -> Header:
        magic = self._stream.read(len(MAGIC))
        if magic != MAGIC:
            _refuse(f"it begins with {magic!r}; expected {MAGIC!r}" if magic else "it is empty")
        metadata = self._metadata()
        sync = self._exactly(_SYNC_BYTES, "the header's mark")
        try:
            schema = json.loads(metadata["avro.schema"])
        except (KeyError, ValueError, RecursionError) as error:
            _refuse(f"its header has no schema that is JSON: {error}")
        texts = {key: value.decode(errors="replace") for key, value in metadata.items()}
        return Header(schema, metadata["avro.schema"], texts.get("avro.codec", "null"), sync, texts)

    def _metadata(self) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        while count := self._checked_varint("the header", _MAX_ENTRIES, least=-_MAX_ENTRIES):
            if count < 0:  # then the size of the entries follows
                self._checked_varint("the header", _MAX_HEADER_BYTES)
            for _ in range(abs(count)):
                key = self._header_bytes().decode(errors="replace")
                found[key] = self._header_bytes()
        return found

    def _header_bytes(self) -> bytes:
        size = self._checked_varint("the header", _MAX_HEADER_BYTES - self._header_read)
        self._header_read += size + 1
        return self._exactly(size, "the header")

    def _checked_varint(self, what: str, most: int, *, least: int = 0) -> int:
        found = self._varint(what)
        if found is None or not least <= found <= most:
            _refuse(f"{what}: found {found}, expected {least} to {most}")
        return found

    def _varint(self, what: str, *, may_end: bool = False) -> int | None:
        """None at the end of the file."""
        value = 0
        for at in range(_VARINT_BYTES):
            byte = self._stream.byte()
            if byte is None:
                if may_end and not at:
                    return None
                _refuse(f"truncated in {what}")
            value |= (byte & 0x7F) << 7 * at
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        return _refuse(f"{what} is no number")

    def _exactly(self, size: int, what: str) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            _refuse(f"truncated in {what}: expected {size:,} bytes, found {len(data):,}")
        return data


class _ReadAhead:
    """Reads some KiB at a time, so that numbers cost little."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._held = b""
        self._at = 0

    def byte(self) -> int | None:
        """None at the end."""
        if self._at == len(self._held):
            self._held, self._at = read_up_to(self._stream, _AHEAD_BYTES), 0
            if not self._held:
                return None
        self._at += 1
        return self._held[self._at - 1]

    def read(self, size: int) -> bytes:
        """So many bytes; fewer only at the end."""
        found = self._held[self._at : self._at + size]
        self._at += len(found)
        if len(found) == size:
            return found
        more = read_up_to(self._stream, max(size - len(found), _AHEAD_BYTES))
        self._held, self._at = more, min(size - len(found), len(more))
        return found + more[: self._at]


def _within(decompress: Callable[[bytes, int], bytes], stored: bytes, most: int, number: int) -> bytes:
    try:
        data = decompress(stored, most)
    except (zlib.error, OSError, EOFError, lzma.LZMAError) as error:
        raise FileFault(Stage.DECOMPRESS, f"not valid Avro: block {number} does not decompress: {error}") from error
    if len(data) > most:
        _refuse(f"block {number} holds more than {most:,} bytes when decompressed")
    return data


def _deflate(stored: bytes, most: int) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    data = stream.decompress(stored, most + 1)
    if not stream.eof and len(data) <= most:
        raise EOFError("it ends before its end mark")
    return data  # fastavro leaves three bytes of a checksum behind it


def _check_end(stream: Any, data: bytes, most: int) -> None:
    """What is larger than the limit is refused by its size."""
    if len(data) > most:
        return
    if not stream.eof:
        raise EOFError("it ends before its end mark")
    if stream.unused_data:
        raise OSError(f"{len(stream.unused_data):,} other bytes follow its end")


def _snappy(stored: bytes, most: int) -> bytes:
    """With the CRC-32 of the content behind it."""
    data = raw_snappy(stored[:-4], most) if stored[:-4] != b"\0" else b""
    if zlib.crc32(data) != int.from_bytes(stored[-4:], "big"):
        raise OSError("its checksum is wrong")
    return data


def _to_its_end(stream: Decompressor, stored: bytes, most: int) -> bytes:
    data = stream.decompress(stored, most + 1)
    _check_end(stream, data, most)
    return data


def _bzip2(stored: bytes, most: int) -> bytes:
    return _to_its_end(bz2.BZ2Decompressor(), stored, most)


def _xz(stored: bytes, most: int) -> bytes:
    return _to_its_end(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES), stored, most)


def _zstandard(stored: bytes, most: int) -> bytes:
    return read_up_to(decompressed(io.BytesIO(stored), "zstd"), most + 1)


_DECOMPRESS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda stored, most: stored,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}


def _refuse(why: str) -> NoReturn:
    raise FileFault(Stage.PARSE, f"not valid Avro: {why}")
