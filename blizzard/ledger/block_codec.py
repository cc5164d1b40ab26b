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
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, pairwise

from blizzard.errors import UnreadableState
from blizzard.ledger.entry import FileState, LedgerEntry

_HEADER = struct.Struct("<HIII")
_LEVEL = 6
_MAX_SHARED = 255
_DIGEST_BYTES = 16
_DIGEST = re.compile(r"[0-9a-f]{32}")
_NO_DIGEST, _HAS_DIGEST = 0, 1
_COLUMNS, _TIME = 5, 2
"""How many columns of numbers there are, and which one has the times."""
_BEGINS = 0x80
"""Added to the number of the state of an entry that begins. Versions that did not know it never have it."""
_WITHOUT_BEGINS = bytes(number & ~_BEGINS for number in range(256))
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


class BlockColumns:
    """A block whose values stay columns: each is decoded when it is asked for. Everything raises UnreadableState."""

    def __init__(self, data: bytes) -> None:
        with _naming_the_error():
            count, text_size, digests_size, numbers_size = _HEADER.unpack_from(data)
            self._count: int = count
            ends = _running_total((_HEADER.size, text_size, digests_size, numbers_size))
            if ends[-1] != len(data):
                raise ValueError(f"expected {ends[-1]} bytes, found {len(data)}")
            self._packed_text, self._digests, self._packed_numbers = (data[at:end] for at, end in pairwise(ends))

    def __len__(self) -> int:
        return self._count

    @cached_property
    def paths(self) -> list[bytes]:
        """In UTF-8, with surrogates."""
        with _naming_the_error():
            return self._text.paths()

    @cached_property
    def etags(self) -> list[str]:
        with _naming_the_error():
            return self._text.etags(self._digests)

    @property
    def states(self) -> bytes:
        """Of each entry the number of its FileState."""
        with _naming_the_error():
            return self._text.states.translate(_WITHOUT_BEGINS)

    @property
    def begins(self) -> list[bool]:
        """Of each entry whether it begins."""
        with _naming_the_error():
            return [number >= _BEGINS for number in self._text.states]

    @property
    def times_ms(self) -> "array[int]":
        (found,) = self.numbers([_TIME])
        return found

    def numbers(self, columns: Iterable[int] = range(_COLUMNS)) -> list["array[int]"]:
        """Sequences, sizes, times, rows and refused records, or only some of these."""
        with _naming_the_error():
            data, width = zlib.decompress(self._packed_numbers), 8 * self._count
            if len(data) != _COLUMNS * width:
                raise ValueError(f"expected {_COLUMNS * width} bytes of numbers, found {len(data)}")
            return [_join("Q", data[at * width : (at + 1) * width], self._count) for at in columns]

    @cached_property
    def _text(self) -> "_Text":
        return _Text(zlib.decompress(self._packed_text), self._count)


def decode_block(data: bytes) -> Block:
    """Raises UnreadableState."""
    columns = BlockColumns(data)
    etags, states, begins = columns.etags, columns.states, columns.begins
    sequences, sizes, times, rows, rejected = columns.numbers()
    with _naming_the_error():
        paths = [path.decode("utf-8", "surrogatepass") for path in columns.paths]

    def entry_at(at: int) -> LedgerEntry:
        return LedgerEntry(
            paths[at],
            sequences[at],
            etags[at],
            sizes[at],
            times[at],
            rows[at],
            rejected[at],
            FileState(states[at]),
            begins[at],
        )

    return Block(paths, entry_at)


@contextmanager
def _naming_the_error() -> Iterator[None]:
    try:
        yield
    except _UNDECODABLE as error:
        raise UnreadableState(f"a block of the ledger cannot be read ({type(error).__name__}: {error})") from error


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
            bytes(entry.state | _BEGINS if entry.begins else entry.state for entry in entries),
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
    """The text part of a block. Raises EOFError or ValueError if it is not as long as its sizes say."""

    def __init__(self, data: bytes, count: int) -> None:
        self._data = data
        self._at = 0
        self._shared = self._take(count)
        self._suffix_sizes = _join("H", self._take(2 * count), count)
        self._kinds = self._take(count)
        self._rest_sizes = _join("H", self._take(2 * count), count)
        self.states = self._take(count)
        self._suffixes, self._rests = self._take(sum(self._suffix_sizes)), self._take(sum(self._rest_sizes))
        if self._at != len(data):
            raise ValueError("it has more bytes than entries")

    def paths(self) -> list[bytes]:
        before, suffixes, ends = b"", self._suffixes, accumulate(self._suffix_sizes)
        return [
            before := before[:shared] + suffixes[end - size : end]
            for shared, size, end in zip(self._shared, self._suffix_sizes, ends, strict=True)
        ]

    def etags(self, digests: bytes) -> list[str]:
        if len(digests) != _DIGEST_BYTES * self._kinds.count(_HAS_DIGEST):
            raise ValueError("it has more bytes than entries")
        digits, step = digests.hex(), 2 * _DIGEST_BYTES
        if not self._rests and len(digests) == _DIGEST_BYTES * len(self._kinds):  # as S3's mostly are
            return [digits[at : at + step] for at in range(0, len(digits), step)]
        etags, at = [], 0
        for kind, size, end in zip(self._kinds, self._rest_sizes, accumulate(self._rest_sizes), strict=True):
            etag = self._rests[end - size : end].decode("utf-8", "surrogatepass")
            if kind == _HAS_DIGEST:
                etag = digits[at : at + step] + etag
                at += step
            etags.append(etag)
        return etags

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
