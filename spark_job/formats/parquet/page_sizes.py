"""The sizes that the headers of Parquet's pages say, compared before pyarrow takes the memory for them.

The footer is read here again: pyarrow ends the process for some damaged ones when it is asked for a column's metadata.
The numbers of fields are those of parquet.thrift.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

from blizzard.state.dead_letters import Stage
from spark_job.formats.parquet.thrift_compact import CompactReader, Invalid, Struct
from spark_job.formats.protocol import FileFault

TRUSTED_BYTES = 16 << 20
"""A page up to this size is read even if its column chunk should be smaller."""
_TAIL_BYTES = 8
_ENCRYPTED_MAGIC = b"PARE"
_NO_KEYS = "and no keys can be given. Write it without encryption"
_HEADER_BYTES = (1 << 7, 1 << 10, 1 << 16, 16 << 20)
"""How much is read for a header: at first, and if that is not enough. It counts as a part of the slice."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A column in a row group: where its pages are, and their sizes in bytes together."""

    path: Sequence[bytes]
    values: int
    uncompressed_bytes: int
    compressed_bytes: int
    start: int


@dataclass(frozen=True, slots=True)
class _Encrypted:
    """A column in a row group that only its key could open. `path`: empty if only that could tell."""

    path: Sequence[bytes]


class PageSizes:
    """Of one file. Raises FileFault for a footer that cannot be read."""

    def __init__(self, stored: BinaryIO) -> None:
        self._stored = stored
        stored.seek(-_TAIL_BYTES, io.SEEK_END)
        size = int.from_bytes(stored.read(_TAIL_BYTES // 2), "little")
        stored.seek(-_TAIL_BYTES - size, io.SEEK_END)
        try:
            footer = CompactReader(stored.read(size)).struct()
            self._groups = [[*map(_chunk, group[1])] for group in footer[4]]
        except (Invalid, LookupError, TypeError, AttributeError):
            _refuse("its footer cannot be read")

    def check(self, group: int, columns: Sequence[str]) -> None:
        """Raises FileFault for a page that says that it is larger than all of its column in this row group, by which a
        damaged byte could take gigabytes of memory, for one whose header cannot be read, and for what is encrypted."""
        wanted = {column.encode() for column in columns}
        for chunk in self._groups[group]:
            if isinstance(chunk, _Encrypted):
                if not chunk.path or chunk.path[0] in wanted:
                    _refuse_encrypted(chunk.path)
            elif chunk.path[0] in wanted:
                self._check(group, chunk)

    def _check(self, group: int, chunk: _Chunk) -> None:
        where = f"of {_text(chunk.path)} in row group {group}"
        most, page = max(TRUSTED_BYTES, chunk.uncompressed_bytes), 0
        try:
            for page, size in enumerate(page_bytes(self._stored, chunk), 1):
                if size > most:
                    _refuse(f"page {page} {where} says that it has {size:,} bytes, more than all of that column has")
        except (Invalid, LookupError, TypeError, AttributeError):
            _refuse(f"page {page + 1} {where} has no header that can be read")


def _chunk(column: Struct) -> _Chunk | _Encrypted:
    if 8 in column:  # ColumnCryptoMetaData, in which a column with a key of its own has its path
        of_key = column[8].get(2)
        metadata: Struct = column.get(3) or {}
        return _Encrypted(metadata.get(3) or (of_key or {}).get(1) or ())
    metadata = column[3]
    path, data, dictionary = metadata[3], metadata[9], metadata.get(11, 0)
    if not isinstance(path, list) or not path or not all(isinstance(name, bytes) for name in path):
        raise Invalid
    numbers = data, dictionary, metadata[5], metadata[6], metadata[7]
    if not all(isinstance(number, int) for number in numbers):
        raise Invalid
    start = dictionary if 0 < dictionary < data else data
    return _Chunk(path, metadata[5], metadata[6], metadata[7], start)


def refuse_encrypted_footer(stored: BinaryIO) -> None:
    """Raises FileFault for a file that ends as one with such a footer."""
    size = stored.seek(0, io.SEEK_END)
    stored.seek(max(0, size - len(_ENCRYPTED_MAGIC)))
    if stored.read() == _ENCRYPTED_MAGIC:
        raise FileFault(Stage.PARSE, f"encrypted Parquet: its footer is encrypted, {_NO_KEYS}")
    stored.seek(0)


def _refuse_encrypted(path: Sequence[bytes]) -> NoReturn:
    what = f"column {_text(path)} is" if path else "one of its columns is"
    raise FileFault(Stage.PARSE, f"encrypted Parquet: {what} encrypted, {_NO_KEYS}")


def _text(path: Sequence[bytes]) -> str:
    return b".".join(path).decode(errors="replace")


def _refuse(why: str) -> NoReturn:
    raise FileFault(Stage.PARSE, f"not valid Parquet, or damaged: {why}")


def page_bytes(stored: BinaryIO, chunk: _Chunk) -> Iterator[int]:
    """The uncompressed size of each page, up to the last value."""
    at, values = chunk.start, 0
    while values < chunk.values and 0 <= at < chunk.start + chunk.compressed_bytes:
        header, length = _header(stored, at)
        uncompressed, compressed = header[2], header[3]
        # pyarrow takes as much memory as a header says that a page is long, whatever of it is there.
        if uncompressed < 0 or not 0 <= compressed <= max(TRUSTED_BYTES, chunk.compressed_bytes):
            raise Invalid
        yield uncompressed
        at += length + compressed
        of_values: dict[int, Any] = header.get(5) or header.get(8) or {}
        values += max(0, of_values.get(1, 0))


def _header(stored: BinaryIO, at: int) -> tuple[Struct, int]:
    """With its length in bytes."""
    for size in _HEADER_BYTES:
        stored.seek(at)
        reader = CompactReader(stored.read(size))
        try:
            return reader.struct(), reader.at
        except IndexError:
            continue
    raise Invalid
