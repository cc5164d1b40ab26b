"""Compressed bytes read as a whole, up to a limit, by the plainest means."""

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import google_crc32c
import pyarrow as pa

Unpacked = tuple[bytes, bool]
"""The bytes, and whether the stream is complete."""
_PIECE_BYTES = 1 << 20
_FRAMED = b"\xff\x06\x00\x00sNaPpY"


def gzip(body: bytes, most: int) -> Unpacked:
    return _by_zlib(body, most, wbits=31, padding=b"\0")


def deflate(body: bytes, most: int) -> Unpacked:
    return _by_zlib(body, most, wbits=15, padding=b"")


def _by_zlib(body: bytes, most: int, *, wbits: int, padding: bytes) -> Unpacked:
    out, rest = b"", body
    while rest and len(out) <= most:
        member = zlib.decompressobj(wbits=wbits)
        try:
            out += member.decompress(rest, most + 1)
            while member.unconsumed_tail and len(out) <= most:
                out += member.decompress(member.unconsumed_tail, most + 1)
        except zlib.error:
            return out, False
        if len(out) > most:
            return out, True
        if not member.eof:
            return out, False
        rest = member.unused_data.lstrip(padding) if padding else member.unused_data
    return out, True


def bzip2(body: bytes, most: int) -> Unpacked:
    return _streams(body, most, bz2.BZ2Decompressor, b"")


def xz(body: bytes, most: int) -> Unpacked:
    return _streams(body, most, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=128 << 20), b"\0")


def _streams(body: bytes, most: int, begin: Callable[[], Any], padding: bytes) -> Unpacked:
    out, rest = b"", body
    while rest and len(out) <= most:
        stream = begin()
        try:
            out += stream.decompress(rest, most + 1 - len(out))
        except (OSError, lzma.LZMAError):
            return out, False
        if not stream.eof:
            return out, len(out) > most
        rest = stream.unused_data.lstrip(padding) if padding else stream.unused_data
    return out, True


def zstd(body: bytes, most: int) -> Unpacked:
    return _by_arrow(body, most, "zstd")


def lz4(body: bytes, most: int) -> Unpacked:
    return _by_arrow(body, most, "lz4")


def _by_arrow(body: bytes, most: int, name: str) -> Unpacked:
    out, stream = b"", pa.CompressedInputStream(pa.BufferReader(body), name)
    try:
        while len(out) <= most and (piece := stream.read(_PIECE_BYTES)):
            out += piece
    except OSError:
        return out, False
    return out, True


def snappy(body: bytes, most: int) -> Unpacked:
    out = b""
    try:
        for chunk in _framed(body) if body.startswith(_FRAMED) else _of_hadoop(body):
            out += chunk
            if len(out) > most:
                return out, True
    except (struct.error, ValueError, OSError):
        return out, False
    return out, True


def _framed(body: bytes) -> Any:
    at = 0
    while at < len(body):
        kind, size = body[at], int.from_bytes(struct.unpack_from("<3s", body, at + 1)[0], "little")
        (data,) = struct.unpack_from(f"{size}s", body, at + 4)
        at += 4 + size
        if kind in (0, 1):
            (masked,) = struct.unpack_from("<I", data)
            content = _raw(data[4:]) if kind == 0 else data[4:]
            checksum = (masked - 0xA282EAD8) & 0xFFFFFFFF
            if (checksum << 15 | checksum >> 17) & 0xFFFFFFFF != google_crc32c.value(content) or len(content) > 65_536:
                raise ValueError("checksum or size")
            yield content
        elif kind == 0xFF and data != b"sNaPpY":
            raise ValueError("identifier")
        elif 2 <= kind < 0x80:
            raise ValueError(f"chunk {kind}")


def _of_hadoop(body: bytes) -> Any:
    at = 0
    while at < len(body):
        (left,) = struct.unpack_from(">I", body, at)
        at += 4
        while left > 0:
            (size,) = struct.unpack_from(">I", body, at)
            (chunk,) = struct.unpack_from(f"{size}s", body, at + 4)
            at += 4 + size
            content = _raw(chunk)
            if not 0 < len(content) <= left:
                raise ValueError("a chunk of another size than its block has left")
            left -= len(content)
            yield content


def _raw(chunk: bytes) -> bytes:
    size = shift = at = 0
    while True:
        (byte,) = struct.unpack_from("B", chunk, at)
        size, shift, at = size | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            break
    if size > 64 << 20:
        raise ValueError(f"{size} bytes")
    return bytes(pa.decompress(chunk, decompressed_size=size, codec="snappy", asbytes=True))


BY_EXTENSION: Mapping[str, Callable[[bytes, int], Unpacked]] = {
    ".gz": gzip,
    ".zst": zstd,
    ".bz2": bzip2,
    ".xz": xz,
    ".lz4": lz4,
    ".deflate": deflate,
    ".sz": snappy,
    ".snappy": snappy,
}
