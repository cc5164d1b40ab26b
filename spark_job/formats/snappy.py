"""Snappy as files have it: the framing format (`.sz`), and the blocks that Hadoop writes (`.snappy`)."""

from collections.abc import Iterator
from typing import NoReturn

import google_crc32c
import pyarrow as pa

from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import FileFault, Readable
from spark_job.formats.reading import read_all, read_up_to

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
"""A framed stream begins with this chunk."""
COMPRESSED, UNCOMPRESSED, FIRST_SKIPPABLE, STREAM = 0x00, 0x01, 0x80, 0xFF
MAX_FRAME_BYTES = 65_536
"""Of content; the format allows no more in one chunk."""
MAX_BLOCK_BYTES = 64 << 20
"""Of content in one block of Hadoop, whose default is 256 KiB."""
MAX_CHUNK_BYTES = 80 << 20


class Snappy:
    """Reading raises FileFault for what is not valid."""

    def __init__(self, raw: Readable) -> None:
        self._parts = _content(raw)
        self._left = b""

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return read_all(self)
        pieces = list[bytes]()
        while size > 0 and (self._left or self._next_part()):
            pieces.append(self._left[:size])
            self._left = self._left[size:]
            size -= len(pieces[-1])
        return b"".join(pieces)

    def _next_part(self) -> bool:
        self._left = next(self._parts, b"")
        return bool(self._left)


def _exactly(raw: Readable, size: int, what: str) -> bytes:
    data = read_up_to(raw, size)
    if len(data) < size:
        reason = f"truncated snappy: expected {size:,} bytes of {what}, found {len(data):,}"
        raise FileFault(Stage.DECOMPRESS, reason)
    return data


def _content(raw: Readable) -> Iterator[bytes]:
    begin = read_up_to(raw, 4)
    if begin == IDENTIFIER[:4]:
        if _exactly(raw, 6, "the stream's identifier") != IDENTIFIER[4:]:
            _refuse("expected the identifier of a framed stream")
        yield from _frames(raw)
    elif begin:
        yield from _blocks(raw, begin)


def _frames(raw: Readable) -> Iterator[bytes]:
    while header := read_up_to(raw, 4):
        if len(header) < 4:
            _refuse("truncated in the header of a chunk")
        kind, size = header[0], int.from_bytes(header[1:], "little")
        data = _exactly(raw, size, "a chunk")
        if kind in (COMPRESSED, UNCOMPRESSED):
            yield _frame(kind, data)
        elif kind == STREAM and data != IDENTIFIER[4:]:
            _refuse("expected the identifier of another stream")
        elif kind < FIRST_SKIPPABLE:
            _refuse(f"found a chunk of the unknown kind {kind:#x}")


def _frame(kind: int, data: bytes) -> bytes:
    if len(data) < 4:
        _refuse("found a chunk without its checksum")
    content = raw_snappy(data[4:], MAX_FRAME_BYTES) if kind == COMPRESSED else data[4:]
    if len(content) > MAX_FRAME_BYTES:
        _refuse(f"found a chunk of {len(content):,} bytes; expected at most {MAX_FRAME_BYTES:,}")
    if int.from_bytes(data[:4], "little") != _masked(google_crc32c.value(content)):
        _refuse("a chunk's checksum is wrong")
    return content


def _masked(checksum: int) -> int:
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _blocks(raw: Readable, header: bytes) -> Iterator[bytes]:
    """Each block has the size of its content, and then chunks, each with the size of its compressed bytes."""
    while header:
        if len(header) < 4:
            _refuse("truncated in the header of a block")
        left = int.from_bytes(header, "big")
        if left > MAX_BLOCK_BYTES:
            _refuse(f"found a block of {left:,} bytes; expected at most {MAX_BLOCK_BYTES:,}: is it snappy at all?")
        while left > 0:
            size = int.from_bytes(_exactly(raw, 4, "a chunk's size"), "big")
            if size > MAX_CHUNK_BYTES:
                _refuse(f"found a chunk of {size:,} bytes; expected at most {MAX_CHUNK_BYTES:,}: is it snappy at all?")
            content = raw_snappy(_exactly(raw, size, "a chunk"), left)
            left -= len(content)
            yield content
        header = read_up_to(raw, 4)


def raw_snappy(chunk: bytes, most: int) -> bytes:
    """A chunk of raw snappy, which begins with the size of its content as a varint."""
    size = shift = 0
    for byte in chunk[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        _refuse("a chunk has no size")
    if not 0 < size <= most:
        _refuse(f"found a chunk of {size:,} bytes; expected 1 to {most:,}")
    try:
        return bytes(pa.decompress(chunk, decompressed_size=size, codec="snappy", asbytes=True))
    except (OSError, pa.ArrowInvalid) as error:
        raise FileFault(Stage.DECOMPRESS, f"not valid snappy: {error}") from error


def _refuse(why: str) -> NoReturn:
    raise FileFault(Stage.DECOMPRESS, f"not valid snappy: {why}")
