"""Compressed files as other programs write them."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping

import google_crc32c
import pyarrow as pa  # type: ignore[import-untyped]

BLOCK_BYTES = 256 << 10
FRAME_BYTES = 65_536


def lz4(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="lz4", asbytes=True))


def checked_lz4(data: bytes) -> bytes:
    """A frame with a checksum of its content, as the command `lz4` writes it by default; its block is not compressed.
    pyarrow writes none."""
    descriptor = b"\x64\x40"  # version 1, independent blocks, content checksum; blocks of at most 64 KiB
    assert 0 < len(data) <= 1 << 16
    block = (len(data) | 1 << 31).to_bytes(4, "little") + data
    parts = [b"\x04\x22\x4d\x18", descriptor, bytes([xxh32(descriptor) >> 8 & 255]), block, bytes(4)]
    return b"".join([*parts, xxh32(data).to_bytes(4, "little")])


_PRIMES = (2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393)
_MOST = (1 << 32) - 1


def xxh32(data: bytes) -> int:
    """xxHash of 32 bits, with the seed 0: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md"""
    one, two, three, four, five = _PRIMES
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) - 3, 4)]
    striped = len(words) // 4 * 4
    lanes = [(one + two) & _MOST, two, 0, -one & _MOST]
    for at, word in enumerate(words[:striped]):
        lanes[at % 4] = _rotated((lanes[at % 4] + word * two) & _MOST, 13) * one & _MOST
    found = sum(map(_rotated, lanes, (1, 7, 12, 18))) if striped else five
    found = (found + len(data)) & _MOST
    for word in words[striped:]:
        found = _rotated((found + word * three) & _MOST, 17) * four & _MOST
    for byte in data[len(words) * 4 :]:
        found = _rotated((found + byte * five) & _MOST, 11) * one & _MOST
    for shift, prime in ((15, two), (13, three), (16, 1)):
        found = (found ^ found >> shift) * prime & _MOST
    return found


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MOST


def xz_with_a_dictionary_of_512_mib(data: bytes) -> bytes:
    """Whose reader needs so much memory, however little is in it. Its header is changed, since a writer would need even
    more."""
    whole = bytearray(lzma.compress(data, preset=0))
    begin, size = 12, (whole[12] + 1) * 4  # the block's header follows that of the stream
    assert whole[begin + 2 : begin + 4] == b"\x21\x01", "LZMA2, with one byte of properties"
    whole[begin + 4] = 34  # 2 << (34 / 2 + 11)
    end = begin + size - 4
    whole[end : end + 4] = zlib.crc32(whole[begin:end]).to_bytes(4, "little")
    return bytes(whole)


def raw_snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True))


def hadoop_snappy(data: bytes, chunk_bytes: int = BLOCK_BYTES) -> bytes:
    """As `org.apache.hadoop.io.compress.SnappyCodec` writes it: blocks, each of some chunks."""
    found = b""
    for at in range(0, len(data), BLOCK_BYTES):
        block = data[at : at + BLOCK_BYTES]
        found += len(block).to_bytes(4, "big")
        for start in range(0, len(block), chunk_bytes):
            chunk = raw_snappy(block[start : start + chunk_bytes])
            found += len(chunk).to_bytes(4, "big") + chunk
    return found


def framed_snappy(data: bytes) -> bytes:
    """As google/snappy's framing_format.txt describes it."""
    found = b"\xff\x06\x00\x00sNaPpY"
    for at in range(0, len(data), FRAME_BYTES):
        content = data[at : at + FRAME_BYTES]
        compressed = raw_snappy(content)
        found += frame(0, content, compressed) if len(compressed) < len(content) else frame(1, content, content)
    return found


def frame(kind: int, content: bytes, stored: bytes) -> bytes:
    checksum = google_crc32c.value(content)
    masked = (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return bytes([kind]) + (len(stored) + 4).to_bytes(3, "little") + masked.to_bytes(4, "little") + stored


def skipped(size: int, kind: int = 0xFE) -> bytes:
    return bytes([kind]) + size.to_bytes(3, "little") + bytes(size)


NEWER: Mapping[str, Callable[[bytes], bytes]] = {
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lz4": lz4,
    "deflate": zlib.compress,
    "snappy": framed_snappy,
    "snappy of Hadoop": hadoop_snappy,
}
"""By the compression's name, up to a blank, what writes it."""
