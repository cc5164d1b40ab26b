"""Parquet's footers: where the columns of each row group are.

The footer is read here again: pyarrow ends the process for some damaged ones when it is asked for a column's metadata.
The numbers of fields are those of parquet.thrift.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_job.formats.parquet.thrift_compact import CompactReader, Invalid, Struct
from spark_job.formats.parquet.usual_layout import column_chunk, end_of_group, number_of, path_of

_MOST_KNOWN, _MOST_KNOWN_BYTES = 16, 1 << 18
"""How many different beginnings and ends of footers are kept, each up to this size."""
_ROW_GROUPS = 4
_VERSION_HEAD, _SCHEMA_HEAD, _ROWS_HEAD, _GROUPS_HEAD, _COLUMNS_HEAD = 0x15, 0x19, 0x16, 0x19, 0x19
_STRUCTS, _LONG_LIST = 12, 15


UNREADABLE = Invalid, LookupError, TypeError, AttributeError
"""What a struct raises that is damaged, or is not what it should be."""


class _Unusual(Exception):
    """This footer has to be read field by field."""


class Chunk(NamedTuple):
    """A column in a row group: where its pages are, and their sizes in bytes together."""

    path: Sequence[bytes]
    values: int
    uncompressed_bytes: int
    compressed_bytes: int
    start: int


class EncryptedChunk(NamedTuple):
    """A column in a row group that only its key could open. `path`: empty if only that could tell."""

    path: Sequence[bytes]


Group = list[Chunk | EncryptedChunk]
Shape = tuple[bytes, bytes]
"""The beginning and the end of a footer, around row groups and the number of rows: all that its schema depends on."""


@dataclass(frozen=True, slots=True)
class Footer:
    """`shape`: None if its parts are in an unusual order."""

    groups: Sequence[Group]
    shape: Shape | None


class Footers:
    """Reads footers. Those that one writer wrote of one schema have the same beginning and the same end, which are read
    once. Threads share it."""

    def __init__(self) -> None:
        self._beginnings: tuple[bytes, ...] = ()
        self._ends: dict[bytes, bytes] = {}

    def read(self, data: bytes) -> Footer:
        """Raises UNREADABLE."""
        try:
            return self._usual(data)
        except (_Unusual, *UNREADABLE):
            footer = CompactReader(data).struct()
            return Footer([[*map(chunk_of, group[1])] for group in footer[_ROW_GROUPS]], None)

    def _usual(self, data: bytes) -> Footer:
        beginning = next((one for one in self._beginnings if data.startswith(one)), None) or self._beginning(data)
        reader = CompactReader(data, len(beginning))
        _expect(reader, _ROWS_HEAD)
        reader.value(_ROWS_HEAD & 15)
        _expect(reader, _GROUPS_HEAD)
        groups = [_group(reader) for _ in range(_count(reader))]
        end = data[reader.at :]
        return Footer(groups, (beginning, self._ends.get(end) or self._end(end)))

    def _beginning(self, data: bytes) -> bytes:
        """Version and schema."""
        reader = CompactReader(data)
        for head in (_VERSION_HEAD, _SCHEMA_HEAD):
            _expect(reader, head)
            reader.value(head & 15)
        found = data[: reader.at]
        if len(found) <= _MOST_KNOWN_BYTES:
            self._beginnings = (found, *self._beginnings[: _MOST_KNOWN - 1])
        return found

    def _end(self, end: bytes) -> bytes:
        if _ROW_GROUPS in CompactReader(end).struct(field=_ROW_GROUPS):
            raise _Unusual
        if len(self._ends) >= _MOST_KNOWN:
            self._ends = {}
        if len(end) <= _MOST_KNOWN_BYTES:
            self._ends[end] = end
        return end


def _expect(reader: CompactReader, head: int) -> None:
    if reader.byte() != head:
        raise _Unusual


def _count(reader: CompactReader) -> int:
    """Of a list of structs."""
    head = reader.byte()
    if head & 15 != _STRUCTS:
        raise _Unusual
    return reader.varint() if head >> 4 == _LONG_LIST else head >> 4


def _group(reader: CompactReader) -> Group:
    _expect(reader, _COLUMNS_HEAD)
    group, match_chunk = Group(), column_chunk().match
    for _ in range(_count(reader)):
        match = match_chunk(reader.data, reader.at)
        if match is None:
            group.append(chunk_of(reader.struct()))
        else:
            reader.at = match.end()
            group.append(_matched(*match.groups()))
    match = end_of_group().match(reader.data, reader.at)
    if match is None:
        raise _Unusual
    reader.at = match.end()
    return group


def _matched(path: bytes, values: bytes, whole: bytes, stored: bytes, data: bytes, dictionary: bytes | None) -> Chunk:
    start = number_of(data)
    if dictionary:
        start = _start(start, number_of(dictionary))
    return Chunk(path_of(path), number_of(values), number_of(whole), number_of(stored), start)


def chunk_of(column: Struct) -> Chunk | EncryptedChunk:
    """Raises UNREADABLE."""
    if 8 in column:  # ColumnCryptoMetaData, in which a column with a key of its own has its path
        of_key = column[8].get(2)
        metadata: Struct = column.get(3) or {}
        return EncryptedChunk(metadata.get(3) or (of_key or {}).get(1) or ())
    metadata = column[3]
    path, data, dictionary = metadata[3], metadata[9], metadata.get(11, 0)
    if not isinstance(path, list) or not path or not all(isinstance(name, bytes) for name in path):
        raise Invalid
    numbers = data, dictionary, metadata[5], metadata[6], metadata[7]
    if not all(isinstance(number, int) for number in numbers):
        raise Invalid
    return Chunk(path, metadata[5], metadata[6], metadata[7], _start(data, dictionary))


def _start(data: int, dictionary: int) -> int:
    return dictionary if 0 < dictionary < data else data
