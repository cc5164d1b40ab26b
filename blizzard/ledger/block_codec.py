"""The bytes of one block of a run: up to some hundred entries, sorted by path, column by column.

Values of one kind compress far better next to each other. Paths are stored as what differs from the path before. Etags
that are hexadecimal digests, as S3's are, become bytes, which nothing compresses further. Numbers are split into their
bytes, so that the upper ones, which are mostly zero, take no space.
"""

import re
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from blizzard.errors import UnreadableState
from blizzard.ledger.entry import FileState, LedgerEntry

_HEADER = struct.Struct("<HIII")
_LEVEL = 6
_MAX_SHARED = 255
_DIGEST_BYTES = 16
_DIGEST = re.compile(r"[0-9a-f]{32}")
_NO_DIGEST, _HAS_DIGEST = 0, 1
_UNDECODABLE = (struct.error, zlib.error, ValueError, IndexError, OverflowError, EOFError)


class Block:
    """A decoded block. Entries are made when they are asked for."""

    def __init__(self, paths: Sequence[str], entry_at: Callable[[int], LedgerEntry]) -> None:
        self._paths = paths
        self._entry_at = entry_at

    def find(self, path: str) -> LedgerEntry | None:
        at = bisect_left(self._paths, path)
        return self._entry_at(at) if at < len(self._paths) and self._paths[at] == path else None

    def __iter__(self) -> Iterator[LedgerEntry]:
        return map(self._entry_at, range(len(self._paths)))


def encode_block(entries: Sequence[LedgerEntry]) -> bytes:
    """`entries`: sorted by path, at most 65,535 of them."""
    text, digests = _encode_text(entries)
    numbers = b"".join(
        _split(array("Q", column), 8)
        for column in (
            [entry.sequence for entry in entries],
            [entry.size for entry in entries],
            [entry.time_ms for entry in entries],
            [entry.rows for entry in entries],
            [entry.rejected for entry in entries],
        )
    )
    packed_text, packed_numbers = zlib.compress(text, _LEVEL), zlib.compress(numbers, _LEVEL)
    header = _HEADER.pack(len(entries), len(packed_text), len(digests), len(packed_numbers))
    return header + packed_text + digests + packed_numbers


def decode_block(data: bytes) -> Block:
    """Raises UnreadableState."""
    try:
        count, text_size, digests_size, numbers_size = _HEADER.unpack_from(data)
        ends = _running_total((_HEADER.size, text_size, digests_size, numbers_size))
        if ends[-1] != len(data):
            raise ValueError(f"expected {ends[-1]} bytes, found {len(data)}")
        text = _Text(zlib.decompress(data[ends[0] : ends[1]]), count)
        paths, etags, states = text.paths(), text.etags(data[ends[1] : ends[2]]), text.states()
        sequences, sizes, times, rows, rejected = _columns(zlib.decompress(data[ends[2] : ends[3]]), count)
    except _UNDECODABLE as error:
        raise UnreadableState(f"a block of the ledger cannot be read ({type(error).__name__}: {error})") from error

    def entry_at(at: int) -> LedgerEntry:
        return LedgerEntry(
            paths[at], sequences[at], etags[at], sizes[at], times[at], rows[at], rejected[at], FileState(states[at])
        )

    return Block(paths, entry_at)


def _encode_text(entries: Sequence[LedgerEntry]) -> tuple[bytes, bytes]:
    """Paths, what etags have beside their digests, and states; then the digests."""
    shared, suffixes = _without_shared_prefixes(entry.path for entry in entries)
    kinds, digests, rests = bytearray(), [], []
    for entry in entries:
        has_digest = _DIGEST.match(entry.etag) is not None
        kinds.append(_HAS_DIGEST if has_digest else _NO_DIGEST)
        if has_digest:
            digests.append(bytes.fromhex(entry.etag[: 2 * _DIGEST_BYTES]))
        rests.append(_to_bytes(entry.etag[2 * _DIGEST_BYTES :] if has_digest else entry.etag))
    text = b"".join(
        (
            shared,
            _split(array("H", map(len, suffixes)), 2),
            kinds,
            _split(array("H", map(len, rests)), 2),
            bytes(entry.state for entry in entries),
            *suffixes,
            *rests,
        )
    )
    return text, b"".join(digests)


def _without_shared_prefixes(paths: Iterable[str]) -> tuple[bytes, list[bytes]]:
    """How many bytes each path shares with the one before, and the rest of it."""
    shared, suffixes = bytearray(), []
    before, count = b"", 0
    for path in map(_to_bytes, paths):
        most = min(len(before), len(path), _MAX_SHARED)
        count = min(count, most)
        while count and path[:count] != before[:count]:
            count -= 1
        while count < most and path[count] == before[count]:
            count += 1
        shared.append(count)
        suffixes.append(path[count:])
        before = path
    return bytes(shared), suffixes


class _Text:
    """The text part of a block, from its start to its end."""

    def __init__(self, data: bytes, count: int) -> None:
        self._data = data
        self._at = 0
        self._shared = self._take(count)
        self._suffix_sizes = _join("H", self._take(2 * count), count)
        self._kinds = self._take(count)
        self._rest_sizes = _join("H", self._take(2 * count), count)
        self._states = self._take(count)

    def paths(self) -> list[str]:
        paths, before = [], b""
        for shared, size in zip(self._shared, self._suffix_sizes, strict=True):
            before = before[:shared] + self._take(size)
            paths.append(before.decode("utf-8", "surrogatepass"))
        return paths

    def etags(self, digests: bytes) -> list[str]:
        """Called after `paths`."""
        etags, at = [], 0
        for kind, size in zip(self._kinds, self._rest_sizes, strict=True):
            rest = self._take(size).decode("utf-8", "surrogatepass")
            if kind == _HAS_DIGEST:
                rest = digests[at : at + _DIGEST_BYTES].hex() + rest
                at += _DIGEST_BYTES
            etags.append(rest)
        if at != len(digests) or self._at != len(self._data):
            raise ValueError("it has more bytes than entries")
        return etags

    def states(self) -> bytes:
        return self._states

    def _take(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise EOFError("its text is too short")
        self._at += size
        return data


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _split(numbers: "array[int]", width: int) -> bytes:
    """All lowest bytes, then all second ones, and so on."""
    data = _little_endian(numbers).tobytes()
    return b"".join(data[byte::width] for byte in range(width))


def _join(code: str, data: bytes, count: int) -> "array[int]":
    """The inverse of `_split`."""
    numbers = array(code)
    width = numbers.itemsize
    joined = bytearray(width * count)
    for byte in range(width):
        joined[byte::width] = data[byte * count : (byte + 1) * count]
    numbers.frombytes(joined)
    return _little_endian(numbers)


def _columns(data: bytes, count: int) -> list["array[int]"]:
    width = 8 * count
    if len(data) != 5 * width:
        raise ValueError(f"expected {5 * width} bytes of numbers, found {len(data)}")
    return (
        [_join("Q", data[at : at + width], count) for at in range(0, 5 * width, width)] if count else [array("Q")] * 5
    )


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def _running_total(sizes: Iterable[int]) -> list[int]:
    totals, total = [], 0
    for size in sizes:
        total += size
        totals.append(total)
    return totals
